package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/report"
	"github.com/headway-go/headway/pacer/config"
	"github.com/headway-go/headway/pacer/fleet"
)

// Learned limits make a file that can be read, with the evidence in its comments.
func TestPoliciesThatWereLearned(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, time.March, 3, 12, 0, 0, 0, time.UTC)
	f := &fleet.Snapshot{Upstream: "acme", Alive: 2}
	shown := func() string {
		var b strings.Builder
		require.NoError(t, report.Policies(&b, f))
		_, err := config.Parse("f", []byte(b.String()))
		require.NoError(t, err)
		return b.String()
	}
	require.Contains(t, shown(), "policies: none\n")
	f.Learned = []fleet.Learned{
		{Name: "60", Limit: 60, Reset: 59 * time.Second, Source: "X-RateLimit", Readings: 900, Since: since, Last: since.Add(time.Hour)},
		{Name: "hour", Limit: 5000, Window: time.Hour, Readings: 1, Since: since, Last: since},
		{Name: "left", Readings: 3, Reset: time.Second, Since: since, Last: since},
		{Policy: "quota", Scopes: []string{"tenant"}, Limit: 1000, Reset: 20 * time.Hour, Readings: 2, Since: since, Last: since},
	}
	require.Equal(t, `# What replies stated, to the 2 processes of acme. Check it, and copy what you accept into headway.yaml.
upstreams:
  acme:
    policies:
      - "limit-60: at most 60 in any 1m, in 100 buckets"
        # limit 60 stated; resets of up to 59s; 900 readings of X-RateLimit from 2026-03-03 12:00:00 to 2026-03-03 13:00:00 UTC
      - "hour: at most 5000 in any 1h, in 100 buckets"
        # limit 5000 stated; window 1h stated; 1 reading from 2026-03-03 12:00:00 to 2026-03-03 12:00:00 UTC
      - "quota: at most 1000 in any 24h, in 100 buckets, per tenant"
        # limit 1000 stated; resets of up to 20h; 2 readings from 2026-03-03 12:00:00 to 2026-03-03 12:00:00 UTC; less than a period was seen: a longer reset may come
    # of left too little was stated: resets of up to 1s; 3 readings from 2026-03-03 12:00:00 to 2026-03-03 12:00:00 UTC; less than a period was seen: a longer reset may come
`, shown())
	var b strings.Builder
	require.NoError(t, report.Text(&b, f, since))
	require.Regexp(t, `(?s)STATED BY REPLIES  WHAT IT IS .*limit-60 +at most 60 in any 1m.* 59s +900 +12:00:00  X-RateLimit\n`, b.String())
}

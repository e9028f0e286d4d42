package fleet_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/policies"
)

// A snapshot shows the limits that replies stated, those with a policy and others.
func TestASnapshotShowsWhatRepliesStated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := pacer.New(pacer.Config{Upstream: "acme"})
		require.NoError(t, err)
		defer p.Close()
		start := time.Now()
		for i := range int64(3) {
			require.NoError(t, p.Do(t.Context(), func(context.Context) (policies.Reading, error) {
				return policies.Reading{Feedback: []policies.Feedback{
					{Limit: policies.Reported(60), Remaining: policies.Reported(59 - i), Reset: time.Minute - time.Duration(i)*time.Second, Source: "X-RateLimit"},
					{Limit: policies.Reported(5000 + i), Remaining: policies.Reported(4000), Window: time.Hour, Policies: []string{"hour"}, Otherwise: policies.Unknown},
				}}, nil
			}))
			time.Sleep(time.Second)
		}
		f, err := fleet.Of(p).Snapshot(t.Context())
		require.NoError(t, err)
		require.Len(t, f.Learned, 2)
		sixty, hour := &f.Learned[0], &f.Learned[1]
		require.Equal(t, fleet.Learned{
			Name: "60", Limit: 60, Reset: time.Minute, Source: "X-RateLimit", Readings: 3, Since: sixty.Since, Last: sixty.Last,
		}, *sixty)
		require.WithinDuration(t, start, sixty.Since, 0)
		require.Equal(t, 2*time.Second, sixty.Last.Sub(sixty.Since))
		require.False(t, sixty.IsWhole())
		require.Equal(t, []any{"hour", int64(5002), time.Hour}, []any{hour.Name, hour.Limit, hour.Period()})
		policy, ok := sixty.As()
		require.True(t, ok)
		require.Equal(t, policies.Sliding(60, time.Minute).Named("limit-60").String(), policy.String())
		policy, ok = hour.As()
		require.True(t, ok)
		require.Equal(t, "hour", policy.Name())
	})
}

func TestThePeriodOfWhatIsLearned(t *testing.T) {
	t.Parallel()
	for reset, want := range map[time.Duration]time.Duration{
		0: 0, time.Second: time.Second, 1200 * time.Millisecond: 2 * time.Second, 9 * time.Second: 10 * time.Second, 61 * time.Second: time.Minute,
		47 * time.Minute: time.Hour, time.Hour + time.Second: time.Hour, 23 * time.Hour: 24 * time.Hour, 20 * 24 * time.Hour: 31 * 24 * time.Hour,
	} {
		l := fleet.Learned{Limit: 10, Reset: reset}
		require.Equal(t, want, l.Period(), "%v", reset)
		_, ok := l.As()
		require.Equal(t, want > 0, ok)
	}
}

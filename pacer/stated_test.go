package pacer_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/policies"
)

// A ban of hours is stated to every call that is on its way, and again to the probe after it: one line each, one event each that reports
// it.
func TestALongWaitIsLoggedOnce(t *testing.T) {
	t.Parallel()
	const ban = 81654 * time.Second
	synctest.Test(t, func(t *testing.T) {
		for name, hooked := range map[string]bool{"by its Logger": false, "by hooks": true} {
			l := newLogged()
			var long []hooks.FeedbackApplied
			c := pacer.Config{
				Upstream: "spotify", Policies: []policies.Policy{policies.PerSecond(100).Burst(100).Per("tenant").Named("api")}, MaxWait: pacer.Forever,
				Logger: l.Logger,
			}
			c.Hooks = []*hooks.Set{{FeedbackApplied: func(_ context.Context, f hooks.FeedbackApplied) {
				if f.Long {
					long = append(long, f)
				}
			}}}
			if hooked {
				c.Logger, c.Hooks = nil, append(c.Hooks, hooks.Log(l.Logger))
			}
			p := newPacer(t, c)
			start := time.Now()
			refuse := func(context.Context) (policies.Reading, error) {
				time.Sleep(time.Second)
				return policies.Reading{Verdict: policies.Limited, Feedback: []policies.Feedback{{Source: "Retry-After", Refused: true, Wait: ban}}}, nil
			}
			tenant := pacer.Scope("tenant", "acme")
			var calls sync.WaitGroup
			for i := range 16 {
				calls.Go(func() {
					time.Sleep(time.Duration(i) * 50 * ms)
					require.NoError(t, p.Do(t.Context(), refuse, tenant))
				})
			}
			calls.Wait()
			line := `level=WARN msg="headway: calls must wait for over an hour" upstream=spotify policy=api scope="tenant=acme" by=Retry-After ` +
				`for=22h40m54s until=` + start.Add(ban+time.Second).Format("2006-01-02T15:04")
			synctest.Wait()
			require.Equal(t, 1, l.count(line), "%s: %s", name, l.text())
			require.Equal(t, 1, l.count("over an hour"), "%s: %s", name, l.text())
			s, err := p.Status(t.Context(), tenant)
			require.NoError(t, err)
			require.Equal(t, "Retry-After", s.Policies[0].PausedBy)
			require.Greater(t, s.Policies[0].PausedFor, ban-2*time.Second)
			other, err := p.Status(t.Context(), pacer.Scope("tenant", "other"))
			require.NoError(t, err)
			require.Empty(t, other.Policies[0].PausedBy)

			require.NoError(t, p.Do(t.Context(), refuse, tenant))
			require.GreaterOrEqual(t, time.Since(start), ban, "no call went meanwhile")
			synctest.Wait()
			require.Equal(t, 2, l.count("over an hour"), "%s: the ban goes on: %s", name, l.text())
			require.NoError(t, p.Close())
			require.Len(t, long, 2, name)
			for _, f := range long {
				require.Equal(t, "Retry-After", f.Source)
				require.Equal(t, ban, f.For)
			}
		}
	})
}

// A long wait is stated, more than an hour, with nothing left.
func TestWhatIsALongWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		feedback policies.Feedback
		maxPause time.Duration
		lines    int
		source   string
	}{
		"an hour":                     {policies.Feedback{Source: "Retry-After", Wait: time.Hour}, 0, 0, "Retry-After"},
		"a second more":               {policies.Feedback{Source: "Retry-After", Wait: time.Hour + time.Second}, 0, 1, "Retry-After"},
		"capped above it":             {policies.Feedback{Source: "Retry-After", Wait: 99 * time.Hour}, 2 * time.Hour, 1, "Retry-After"},
		"capped below it":             {policies.Feedback{Source: "Retry-After", Wait: 99 * time.Hour}, time.Minute, 0, "Retry-After"},
		"no source":                   {policies.Feedback{Wait: 2 * time.Hour}, 0, 1, ""},
		"nothing is left of a day":    {policies.Feedback{Source: "X-RateLimit", Remaining: policies.Reported(0), Reset: 5 * time.Hour}, 0, 1, "X-RateLimit"},
		"something is left of a day":  {policies.Feedback{Source: "X-RateLimit", Remaining: policies.Reported(9), Reset: 5 * time.Hour}, 0, 0, ""},
		"nothing is left, and no end": {policies.Feedback{Source: "X-RateLimit", Remaining: policies.Reported(0)}, 0, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLogged()
				p := newPacer(t, pacer.Config{Logger: l.Logger, MaxPause: c.maxPause})
				defer p.Close()
				for range 3 {
					require.NoError(t, p.Report(t.Context(), c.feedback))
					synctest.Wait()
					require.Equal(t, c.lines, l.count("over an hour"), l.text())
				}
				s, err := p.Status(t.Context())
				require.NoError(t, err)
				require.Equal(t, c.source, s.PausedBy, fmt.Sprint(s))
				for _, one := range s.Allowances {
					require.Equal(t, c.feedback.Reset > 0, one.Source == "X-RateLimit")
				}
			})
		})
	}
}

package transport_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/ietf"
	"github.com/headway-go/headway/transport"
	"github.com/headway-go/headway/transport/upstreamtest"
)

// Half of an upstream's 100 calls a minute stay for other programs, whatever the stack would let through.
func TestHalfOfAMinuteIsLeftToOthers(t *testing.T) {
	t.Parallel()
	for name, profile := range map[string]policies.Profile{"a number": ietf.Profile.Leave(50), "a percentage": ietf.Profile.LeavePercent(50)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := &upstreamtest.Upstream{
					Limits: []upstreamtest.Limit{upstreamtest.Fixed(100, time.Minute)},
					State:  upstreamtest.Fields("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", upstreamtest.Seconds),
				}
				start := time.Now()
				client := newClient(t, newPacer(t, policies.Fixed(1000, time.Minute)), u, transport.WithProfile(profile))
				for time.Since(start) < 4*time.Minute {
					resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
				}
				var minutes [5]int
				for _, c := range u.Calls() {
					minutes[c.At.Sub(start)/time.Minute]++
				}
				for _, n := range minutes[:4] {
					require.LessOrEqual(t, n, 51) // the first of a minute reports what is left
					require.GreaterOrEqual(t, n, 45)
				}
			})
		})
	}
}

// A refusal that requests no wait holds up all callers, if the program wants that.
func TestEverybodyBacksOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		profile policies.Profile
		want    time.Duration
	}{"alone": {ietf.Profile, 0}, "together": {ietf.Profile.BackOff(time.Minute), time.Minute}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := newUpstream(ok(1, refuse(http.StatusTooManyRequests)))
				rt, err := transport.New(newPacer(t, policies.PerSecond(1000)), transport.WithBase(u), transport.WithProfile(c.profile))
				require.NoError(t, err)
				for range 2 {
					resp, err := rt.RoundTrip(request(t.Context(), t, http.MethodGet, nil))
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
				}
				require.Equal(t, c.want, u.hits[1].Round(time.Second))
			})
		})
	}
}

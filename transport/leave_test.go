package transport_test

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/ietf"
	"github.com/headway-go/headway/transport"
)

// Of an upstream's 100 calls a minute, half stay for other programs, whatever the stack would let through.
func TestHalfOfAMinuteIsLeftToOthers(t *testing.T) {
	t.Parallel()
	for name, profile := range map[string]policies.Profile{"a number": ietf.Profile.Leave(50), "a percentage": ietf.Profile.LeavePercent(50)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var minutes [5]int
				u := newUpstream(nil)
				u.answer = func(_ int, req *http.Request) (*http.Response, error) {
					at := time.Since(u.start)
					minutes[at/time.Minute]++
					return reply(req, http.StatusOK, "{}", "RateLimit-Limit", "100", "RateLimit-Remaining", strconv.Itoa(100-minutes[at/time.Minute]),
						"RateLimit-Reset", strconv.Itoa(int((time.Minute-at%time.Minute+time.Second-1)/time.Second))), nil
				}
				client := newClient(t, newPacer(t, policies.Fixed(1000, time.Minute)), u, transport.WithProfile(profile))
				for time.Since(u.start) < 4*time.Minute {
					resp, err := client.Do(request(t.Context(), t, http.MethodGet, nil))
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
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

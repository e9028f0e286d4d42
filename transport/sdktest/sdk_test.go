package sdktest_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

// sdks are the SDKs under test.
func sdks() map[string]func() sdk {
	return map[string]func() sdk{
		"go-zendesk": goZendesk, "go-salesforce": goSalesforce, "go-github": goGitHub, "slack-go": slackGo, "stripe-go": stripeGo,
	}
}

func each(t *testing.T, test func(t *testing.T, s sdk)) {
	t.Helper()
	for name, s := range sdks() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s())
		})
	}
}

// An SDK returns the same over the transport, and does the same with the bodies.
func TestResultsAreTheSame(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s sdk) {
		u := serve(t, s)
		base := &counter{}
		plain, paced, repeats := clients(t, s, base, s.limits...)
		want, err := s.read(t.Context(), plain, u.URL)
		require.NoError(t, err)
		wrote, err := s.write(t.Context(), plain, u.URL)
		require.NoError(t, err)
		hits := len(u.Calls())
		opened, closed, read := base.opened, base.closed, base.read
		for name, hc := range map[string]*http.Client{"paced": paced, "repeating": repeats} {
			*base = counter{}
			got, err := s.read(t.Context(), hc, u.URL)
			require.NoError(t, err, name)
			require.Equal(t, want, got, name)
			got, err = s.write(t.Context(), hc, u.URL)
			require.NoError(t, err, name)
			require.Equal(t, wrote, got, name)
			require.Equal(t, [3]int{opened, closed, read}, [3]int{base.opened, base.closed, base.read}, "%s: bodies opened, closed, read to their end", name)
		}
		require.Len(t, u.Calls(), 3*hits)
		written := 0
		for _, c := range u.Calls() {
			if bytes.Contains(c.Body, []byte(s.body)) {
				written++
			}
		}
		require.Equal(t, 3, written, "each write arrived with its body")
	})
}

// An error of the API is the SDK's own.
func TestErrorsOfTheAPIAreTheSame(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s sdk) {
		u := serve(t, s)
		plain, paced, repeats := clients(t, s, http.DefaultTransport, s.limits...)
		_, want := s.missing(t.Context(), plain, u.URL)
		require.Error(t, want)
		for _, hc := range []*http.Client{paced, repeats} {
			_, err := s.missing(t.Context(), hc, u.URL)
			require.IsType(t, want, err) //nolint:testifylint // it is the type that matters, of five SDKs
			require.Equal(t, want.Error(), err.Error())
		}
		require.Len(t, u.Calls(), 3)
	})
}

// A refusal by a limit reaches an SDK as it came if nothing repeats it, and holds back the other calls.
func TestARefusalIsTheSDKsOwn(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s sdk) {
		u := serve(t, s)
		plain, paced, _ := clients(t, s, http.DefaultTransport, s.limits...)
		for _, hc := range []*http.Client{plain, paced} {
			u.refuse(9, time.Minute)
			_, err := s.write(t.Context(), hc, u.URL)
			s.limited(t, err)
		}
		hits := len(u.Calls())
		hc := *paced
		hc.Timeout = 30 * time.Second // shorter than the pause even on a slow machine
		_, err := s.write(t.Context(), &hc, u.URL)
		require.Error(t, err)
		if !s.flattens {
			require.ErrorIs(t, err, pacer.ErrNotYet, "the pause holds the next call back")
		}
		require.Len(t, u.Calls(), hits, "and nothing left")
	})
}

// A refused call, even a write, is repeated after the pause, and the SDK sees nothing of it.
func TestARefusalIsWaitedFor(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s sdk) {
		u := serve(t, s)
		plain, _, repeats := clients(t, s, http.DefaultTransport, s.limits...)
		want, err := s.write(t.Context(), plain, u.URL)
		require.NoError(t, err)
		u.refuse(1, s.wait)
		got, err := s.write(t.Context(), repeats, u.URL)
		if s.unrepeats {
			s.limited(t, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, got)
		hits := u.Calls()
		require.Len(t, hits, 3)
		require.GreaterOrEqual(t, hits[2].At.Sub(hits[1].At), s.wait)
		require.Equal(t, hits[1].Body, hits[2].Body, "the body was sent again")
	})
}

// Calls are paced, and never early; two clients of an SDK share a pacer.
func TestCallsArePaced(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s sdk) {
		const every = 40 * time.Millisecond
		u := serve(t, s)
		p := newPacer(t, policies.Every(every))
		start := time.Now() // no later than the slot of the first call
		for range 2 {
			rt, err := transport.New(p, transport.WithProfile(s.profile))
			require.NoError(t, err)
			for range 2 {
				_, err := s.write(t.Context(), &http.Client{Transport: rt}, u.URL)
				require.NoError(t, err)
			}
		}
		hits := u.Calls()
		require.Len(t, hits, 4)
		for i, hit := range hits {
			require.GreaterOrEqual(t, hit.At.Sub(start), time.Duration(i)*every, "call %d", i)
		}
	})
}

// A refusal by the pacer is an error that the SDK hands on, and sends nothing.
func TestARefusalByThePacerSendsNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s sdk) {
		u := serve(t, s)
		_, paced, repeats := clients(t, s, http.DefaultTransport, policies.Every(time.Hour))
		for _, hc := range []*http.Client{paced, repeats} {
			_, err := s.write(t.Context(), hc, u.URL)
			require.NoError(t, err)
			hits := len(u.Calls())
			_, err = s.write(t.Context(), hc, u.URL)
			require.Error(t, err)
			if !s.flattens {
				require.ErrorIs(t, err, pacer.ErrNotYet)
			}
			require.ErrorContains(t, err, `policy "every-1h"`)
			require.Len(t, u.Calls(), hits)
		}
	})
}

// Whatever an SDK does with bodies, one permit is enough for all of its calls: each returns it, at the latest when its lease runs out.
func TestPermitsComeBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s sdk) {
		u := serve(t, s)
		p := newPacer(t, policies.InFlight(1).Lease(time.Second))
		hc, err := transport.NewClient(p, transport.WithProfile(s.profile))
		require.NoError(t, err)
		for range 3 {
			_, err = s.read(t.Context(), hc, u.URL)
			require.NoError(t, err)
			_, err = s.write(t.Context(), hc, u.URL)
			require.NoError(t, err)
			_, err = s.missing(t.Context(), hc, u.URL)
			require.Error(t, err)
			require.NotErrorIs(t, err, pacer.ErrRefused)
		}
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			status, err := p.Status(t.Context())
			require.NoError(c, err)
			require.Equal(c, int64(1), status.Policies[0].Remaining)
		}, time.Minute, 10*time.Millisecond)
	})
}

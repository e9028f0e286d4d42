package main

import (
	"bytes"
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/examples/salesforce/standin"
	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies/salesforce"
)

// A desk is a pacer, a stand-in and the SDK for calls to it, in virtual time.
type desk struct {
	*meter

	standin *standin.Standin
	pacer   *pacer.Pacer
	rt      http.RoundTripper
	u       *upstream
}

func newDesk(t *testing.T, s standin.Config) *desk {
	t.Helper()
	c, err := parse([]string{"-reserve", "50"}, noEnv, nil)
	require.NoError(t, err)
	s.Tokens = map[string]string{exampleToken: ownConsumer}
	s.Latency = standin.NoLatency
	d := &desk{meter: newMeter()}
	d.standin, err = standin.New(s)
	require.NoError(t, err)
	client := &http.Client{Transport: directly(t)(d.standin)}
	d.u = &upstream{url: "http://standin", token: exampleToken, host: "standin", org: "test", allocation: s.Allocation, client: client}
	p, done, err := newPacer(t.Context(), c, d.u)
	require.NoError(t, err)
	t.Cleanup(done)
	d.pacer = p
	d.rt, err = newTransport(p, d.u, d.meter, c.reserve)
	require.NoError(t, err)
	return d
}

// look makes an interactive call.
func (d *desk) look(ctx context.Context, timeout time.Duration) error {
	sf, err := newSDK(d.u, caller{run: ctx, next: d.rt}, timeout)
	if err != nil {
		return err
	}
	resp, err := sf.DoRequest(http.MethodGet, "/sobjects/Account/001000000000000AAA", nil)
	if err == nil {
		err = resp.Body.Close()
	}
	return err
}

// read makes a reader's query of three pages.
func (d *desk) read(ctx context.Context) error {
	sf, err := newSDK(d.u, caller{run: ctx, tenant: "acme", next: d.rt}, readerTimeout)
	if err != nil {
		return err
	}
	s := stream{tenant: &tenant{id: "001000000000000AAA", label: "acme", sf: sf}, object: "Contact"}
	return s.read(d.meter)
}

func TestRefusalsAreTypedThroughTheSDK(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, standin.Config{Allocation: 40})
		require.NoError(t, d.look(t.Context(), time.Minute))
		for range 39 {
			require.NoError(t, d.pacer.Wait(t.Context(), pacer.Scope(salesforce.ScopeOrg, d.u.host)))
		}
		for name, err := range map[string]error{"DoRequest": d.look(t.Context(), 2*time.Second), "Query": d.read(t.Context())} {
			var limit *pacer.LimitError
			require.ErrorAs(t, err, &limit, name)
			require.Equal(t, salesforce.PolicyDaily, limit.Policy, name)
			require.Greater(t, limit.Wait, 23*time.Hour, name)
			require.ErrorIs(t, err, pacer.ErrRefused, name)
			require.ErrorIs(t, err, pacer.ErrNotYet, name)
			require.ErrorIs(t, err, context.DeadlineExceeded, name) // the timeout of the SDK's client was the bound
			require.Equal(t, limit, spent(err), name)
		}
		require.Equal(t, 1, d.standin.Stats().Used, "what is refused does not leave")
	})
}

func TestWhatOthersSpendIsReadFromTheNextAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, standin.Config{Allocation: 100})
		for range 39 {
			require.True(t, d.standin.Spend(otherConsumer))
		}
		require.NoError(t, d.read(t.Context())) // three calls
		r := &result{meter: d.meter, upstream: d.u}
		l, err := r.now(t.Context(), d.pacer)
		require.NoError(t, err)
		require.Equal(t, 42, l.used)
		require.Equal(t, int64(58), l.left)
		require.Equal(t, int64(8), l.readers, "half of the day, less what all have used")

		// The readers' share is used up by others, and the rest is there for people.
		for range 8 {
			require.True(t, d.standin.Spend(otherConsumer))
		}
		_ = d.read(t.Context())
		err = d.read(t.Context())
		require.NotNil(t, spent(err), "%v", err)
		require.Equal(t, salesforce.PolicyShare, spent(err).Policy)
		require.NoError(t, d.look(t.Context(), time.Minute))
	})
}

func TestA403OfTheOrgReachesAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, standin.Config{Allocation: 20})
		for range 20 {
			require.True(t, d.standin.Spend(otherConsumer))
		}
		err := d.look(t.Context(), time.Minute)
		require.ErrorContains(t, err, "TotalRequests Limit exceeded.", "the SDK keeps the body alone")
		require.Nil(t, spent(err))
		require.True(t, d.judge(t.Context(), err), "that is no failure")

		for range 2 {
			err = d.read(t.Context())
			require.NotNil(t, spent(err), "%v", err)
		}
		require.NotNil(t, spent(d.look(t.Context(), time.Minute)))
		require.Equal(t, 1, d.standin.Stats().Consumers[ownConsumer].Refused, "the others did not ask")
	})
}

func TestTooManyLongCallsAreNotTheDay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, standin.Config{Allocation: 40, LongLimit: 1, LongAfter: 10 * time.Second})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.u.url+"/services/data/v63.0/limits", http.NoBody)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+exampleToken)
		r.Header.Set(standin.LatencyHeader, "11s")
		go func() { _, _ = d.u.client.Do(r) }()
		time.Sleep(10 * time.Second)
		err = d.look(t.Context(), interactiveTimeout)
		require.ErrorContains(t, err, "ConcurrentPerOrgLongTxn Limit exceeded.", "a waiting call gets the error at once")
		require.NoError(t, d.read(t.Context()), "a reader waits until it is over, and repeats the call")
		require.Equal(t, map[string]int{"concurrent": 2}, d.standin.Stats().Consumers[ownConsumer].RefusedBy)
	})
}

func TestWhatCannotBeReadIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, standin.Config{Allocation: 200})
		sf, err := newSDK(d.u, caller{run: t.Context(), next: d.rt}, time.Minute)
		require.NoError(t, err)
		all, err := findTenants(sf)
		require.NoError(t, err)
		require.Len(t, all, tenants)
		require.Equal(t, "globex", all[1].label)

		d.u.token = "ended"
		for _, tn := range all {
			tn.sf, err = newSDK(d.u, caller{run: t.Context(), tenant: tn.label, next: d.rt}, time.Minute)
			require.NoError(t, err)
		}
		require.Nil(t, readAll(t.Context(), all, d.meter, 4), "nothing is left to read")
		require.Equal(t, tenants*len(objects())*maxFailures, d.failures)
		require.ErrorContains(t, d.failure, "unable to refresh session")
	})
}

func TestTheRunGivesTheSDKAContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, standin.Config{Allocation: 20})
		for range tenantRate {
			require.NoError(t, d.pacer.Wait(t.Context(), pacer.Scope(salesforce.ScopeOrg, d.u.host), pacer.Scope(scopeTenant, "acme")))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, d.look(ctx, time.Minute), context.Canceled)
		require.ErrorIs(t, d.read(ctx), context.Canceled)
	})
}

func TestTheOrgTellsItsAllocation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, standin.Config{Allocation: 40})
		d.standin.Spend(otherConsumer)
		require.NoError(t, d.u.askLimits(t.Context()))
		require.Equal(t, 40, d.u.allocation)
		require.Equal(t, 2, d.u.used, "asking is a call, too")

		d.u.token = "ended"
		err := d.u.askLimits(t.Context())
		require.ErrorContains(t, err, "the org does not tell its limits: the token may have ended")
		require.ErrorContains(t, err, "INVALID_SESSION_ID")
	})
}

func TestADayThatWasSpentBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, standin.Config{Allocation: 40})
		for range 39 {
			d.standin.Spend(otherConsumer)
		}
		require.NoError(t, d.u.askLimits(t.Context()))
		c, err := parse([]string{"-allocation", "40"}, noEnv, nil)
		require.NoError(t, err)
		d.u.own = d.standin
		var messages bytes.Buffer
		r, err := work(t.Context(), c, d.u, d.pacer, &messages)
		require.NoError(t, err)
		require.NotNil(t, r.spent)
		require.Zero(t, r.stats.Consumers[ownConsumer].Refused, "nothing was asked")
		var out bytes.Buffer
		r.print(&out)
		require.Contains(t, out.String(), "The day is spent")
	})
}

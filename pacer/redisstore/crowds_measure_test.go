//go:build measure

package redisstore_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/internal/scripts"
	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/policies"
)

// A crowd is very many waiting calls in some processes, and an event. No request is large, nothing stays charged, no process loses an
// available store, no script takes longer than 2 ms, each event is over in two seconds, and calls go on within 100 ms of when they may;
// after a change of policies, for which each of them is bound again, within half a second.
const (
	crowdRate      = 50 // calls a second
	crowdProcesses = 8
	slowScript     = 2 * time.Millisecond
	goOnWithin     = 100 * time.Millisecond
	boundWithin    = 500 * time.Millisecond
	overWithin     = 2 * time.Second
)

var crowdPolicies = []policies.Policy{
	policies.PerSecond(crowdRate).Named("second"),
	policies.AtMost(4*crowdRate, 2*time.Second).Burst(20).Named("two-seconds"),
	policies.Sliding(1_000_000, time.Hour).Named("hour"),
}

// A waiting crowd plays in one of these tests.
type waitingCrowd struct {
	t      *testing.T
	server *redistest.Server
	all    []*counted
	cancel context.CancelFunc
	fault  bool // a process may lose its store
	mixed  bool // the policies changed

	waiting sync.WaitGroup
	mu      sync.Mutex
	went    []time.Time
	slots   []time.Time
	errs    []error
	bad     []string // of what was measured
}

// newWaitingCrowd returns one in which so many calls wait. Holders of slots have them from the start, however far ahead: some minutes.
func newWaitingCrowd(t *testing.T, n int, event *crowdEvent, holds bool) *waitingCrowd {
	t.Helper()
	c := &waitingCrowd{t: t, fault: event.fault, mixed: event.mixed, server: redistest.Start(t, "--slowlog-log-slower-than", "2000", "--slowlog-max-len", "4096", "--latency-monitor-threshold", "2")}
	ctx, cancel := context.WithCancel(t.Context())
	c.cancel = cancel
	t.Cleanup(cancel)
	var begun atomic.Int64
	for range crowdProcesses {
		one := newCountedIn(t, c.server.Addr, 0, crowdPolicies...)
		c.all = append(c.all, one)
		for range n / crowdProcesses {
			c.waiting.Go(func() {
				begun.Add(1)
				r, err := acquireOrReserve(ctx, one.Pacer, holds)
				c.mu.Lock()
				defer c.mu.Unlock()
				if err == nil {
					slot, _ := inside.Slot(r)
					c.went, c.slots = append(c.went, time.Now()), append(c.slots, time.UnixMicro(int64(slot)))
				} else {
					c.errs = append(c.errs, err)
				}
			})
		}
	}
	require.Eventually(t, func() bool { return begun.Load() == int64(n/crowdProcesses*crowdProcesses) }, patience, time.Millisecond)
	listening(t, c.server.Client(), crowdProcesses)
	time.Sleep(time.Second) // they have got to know each other
	return c
}

// acquireOrReserve makes a call that waits, or one that holds its slot from the start.
func acquireOrReserve(ctx context.Context, p *pacer.Pacer, holds bool) (*pacer.Reservation, error) {
	if !holds {
		return p.Acquire(ctx)
	}
	r, err := p.Reserve(ctx)
	if err == nil {
		err = r.Wait(ctx)
	}
	return r, err
}

// since returns how many calls went since an instant, when the first of them went, and the longest time in which none did.
func (c *waitingCrowd) since(from time.Time) (n int, first time.Duration, longest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortFunc(c.went, time.Time.Compare)
	before := from
	for _, at := range c.went {
		if at.After(from) {
			if n++; n == 1 {
				first = at.Sub(from)
			}
			longest, before = max(longest, at.Sub(before)), at
		}
	}
	return n, first, longest
}

// expect notes a bound in time that was not kept.
func (c *waitingCrowd) expect(what string, is, most time.Duration) {
	c.t.Logf("%s: %v", what, is.Round(100*time.Microsecond))
	if is > most {
		c.bad = append(c.bad, fmt.Sprintf("%s: %v, want at most %v", what, is, most))
	}
}

// leave makes all waiting calls give up, by cancel or by Close, and checks what is left.
func (c *waitingCrowd) leave(end func()) {
	begun := time.Now()
	end()
	c.waiting.Wait()
	c.expect("all have left", time.Since(begun), overWithin)
	looker := newCountedIn(c.t, c.server.Addr, patience, crowdPolicies...)
	most := int64(0)
	if c.mixed { // what was on its way by the old policies, and is given back, counts until its slot is past
		most = crowdRate
	}
	charged := looker.backlog(c.t)
	for charged > most && time.Since(begun) < patience { // a call that is being moved leaves, and its slot is given back when it has moved
		time.Sleep(10 * time.Millisecond)
		charged = looker.backlog(c.t)
	}
	c.expect("nothing stays charged", time.Since(begun), overWithin)
	switch {
	case !c.fault:
		require.LessOrEqual(c.t, charged, most, "nothing stays charged")
	case charged > 0: // what is given back and not answered in time may be lost
		c.bad = append(c.bad, fmt.Sprintf("%d calls stay charged", charged))
	}
	begun = time.Now()
	require.NoError(c.t, looker.Wait(c.t.Context()))
	c.expect("who comes then goes", time.Since(begun), goOnWithin)
	for _, err := range c.errs {
		require.True(c.t, errors.Is(err, context.Canceled) || errors.Is(err, pacer.ErrClosed) || c.fault, "%v", err)
	}
	for _, one := range c.all {
		one.mu.Lock()
		one.small(c.t)
		switch {
		case c.fault:
		case one.fallbacks > 0: // with the default timeout, which a busy machine may exceed
			c.bad = append(c.bad, fmt.Sprintf("a process lost its store: %v", one.why))
		}
		one.mu.Unlock()
	}
}

// slow returns the runs of scripts that took longer than they should. The first run of a script, by its text, is only logged: to
// compile it takes more than a millisecond, once in the life of a server.
func (c *waitingCrowd) slow() (all []string) {
	names, logs := scriptNames(), 0
	logged, err := c.server.Client().SlowLogGet(c.t.Context(), 4096).Result()
	require.NoError(c.t, err)
	slices.SortFunc(logged, func(a, b redis.SlowLog) int { return -cmp.Compare(a.Duration, b.Duration) })
	for _, one := range logged {
		if len(one.Args) < 3 || !strings.HasPrefix(strings.ToLower(one.Args[0]), "eval") {
			continue
		}
		more := 0
		if _, err := fmt.Sscanf(one.Args[len(one.Args)-1], "... (%d more arguments)", &more); err == nil {
			more--
		}
		what := fmt.Sprintf("%s %s, %s keys, %d arguments: %v", strings.ToLower(one.Args[0]), names[one.Args[1]], one.Args[2], len(one.Args)+more, one.Duration)
		if logs++; logs <= 12 {
			c.t.Log(what)
		}
		if names[one.Args[1]] != "" {
			all = append(all, what)
		}
	}
	return all
}

// scriptNames returns the names of scripts by their hashes.
func scriptNames() map[string]string {
	s := scripts.New()
	names := make(map[string]string)
	for name, source := range map[string]string{
		"reserve": s[scripts.Reserve], "cancel": s[scripts.Cancel], "report": s[scripts.Report], "status": s[scripts.Status],
		"heartbeat": s[scripts.Heartbeat], "describe": s[scripts.Describe], "index": s[scripts.Index], "enlist": s[scripts.Enlist], "upstreams": s[scripts.Upstreams],
	} {
		names[redis.NewScript(source).Hash()] = name
	}
	return names
}

// A crowdEvent is what happens to a crowd.
type crowdEvent struct {
	name  string
	fault bool // a process may lose its store
	mixed bool // the policies change: what is given back under the old ones still counts in the new ones, until its slot is past
	does  func(c *waitingCrowd)
}

// Events of crowds.
var crowdEvents = []crowdEvent{
	{name: "cancel", does: func(c *waitingCrowd) { c.leave(c.cancel) }},
	{name: "close", does: func(c *waitingCrowd) {
		c.leave(func() {
			var all sync.WaitGroup
			for _, one := range c.all {
				all.Go(func() { require.NoError(c.t, one.Close()) })
			}
			all.Wait()
		})
	}},
	{name: "pause and resume", does: func(c *waitingCrowd) {
		begun := time.Now()
		require.NoError(c.t, c.all[0].Report(c.t.Context(), policies.Feedback{Wait: time.Minute}))
		c.expect("a pause is reported", time.Since(begun), overWithin)
		time.Sleep(overWithin)
		for _, one := range c.all {
			one.since()
		}
		received := time.Now()
		time.Sleep(time.Second)
		ends, sent := time.Now(), 0
		for _, one := range c.all {
			sent += one.since()["reserve"]
		}
		n, _, _ := c.since(received)
		c.t.Logf("two seconds later, in one: %d calls go, %d requests for slots", n, sent)
		begun = time.Now()
		require.NoError(c.t, fleet.Of(c.all[1].Pacer).Resume(c.t.Context()))
		time.Sleep(overWithin)
		c.mu.Lock()
		inside := slices.ContainsFunc(c.slots, func(at time.Time) bool { return at.After(received) && at.Before(ends) })
		c.mu.Unlock()
		require.False(c.t, inside, "nothing goes before its end")
		n, first, longest := c.since(begun)
		c.goesOn("after it", n, first, longest, overWithin, goOnWithin)
		c.leave(c.cancel)
	}},
	{name: "reset", does: func(c *waitingCrowd) {
		begun := time.Now()
		require.NoError(c.t, fleet.Of(c.all[0].Pacer).Reset(c.t.Context()))
		time.Sleep(3 * time.Second)
		n, first, longest := c.since(begun)
		c.goesOn("after it", n, first, longest, 3*time.Second, goOnWithin)
		if most := 3*crowdRate + crowdProcesses + 2; n > most {
			c.bad = append(c.bad, fmt.Sprintf("%d calls after a reset, want at most %d", n, most))
		}
		c.leave(c.cancel)
	}},
	{name: "the subscription is lost", does: func(c *waitingCrowd) {
		begun := time.Now()
		require.NoError(c.t, c.server.Client().ClientKillByFilter(c.t.Context(), "TYPE", "pubsub").Err())
		listening(c.t, c.server.Client(), crowdProcesses)
		c.expect("all listen again", time.Since(begun), overWithin)
		time.Sleep(time.Second)
		n, first, longest := c.since(begun)
		c.goesOn("meanwhile", n, first, longest, time.Since(begun), goOnWithin)
		c.leave(c.cancel)
	}},
	{name: "other policies", mixed: true, does: func(c *waitingCrowd) {
		begun := time.Now()
		require.NoError(c.t, fleet.Of(c.all[0].Pacer).SetPolicies(c.t.Context(),
			policies.PerSecond(2*crowdRate).Named("second"), policies.AtMost(5*crowdRate, 2*time.Second).Burst(20).Named("two-seconds"), crowdPolicies[2]))
		c.expect("they are set", time.Since(begun), overWithin)
		time.Sleep(3 * time.Second)
		n, first, longest := c.since(begun)
		c.goesOn("then", n, first, longest, 3*time.Second, boundWithin)
		if least := int(1.8 * crowdRate * (3*time.Second - boundWithin).Seconds()); n < least {
			c.bad = append(c.bad, fmt.Sprintf("%d calls by the new policies, want %d", n, least))
		}
		c.leave(c.cancel)
	}},
	{name: "the store is away", fault: true, does: func(c *waitingCrowd) {
		c.server.Pause()
		time.Sleep(time.Second)
		c.server.Continue()
		begun := time.Now()
		time.Sleep(2 * overWithin)
		longest := time.Duration(0)
		for i, one := range c.all {
			one.mu.Lock()
			if one.fallbacks%2 == 1 {
				c.bad = append(c.bad, fmt.Sprintf("process %d has not come back", i))
			}
			longest = max(longest, one.back.Sub(begun))
			one.mu.Unlock()
		}
		c.expect("all are back", longest, overWithin)
		n, first, longest := c.since(begun)
		c.goesOn("then", n, first, longest, 2*overWithin, goOnWithin)
		c.leave(c.cancel)
	}},
}

// goesOn notes whether calls went at their pace in a time, and the first within another.
func (c *waitingCrowd) goesOn(when string, n int, first, longest, in, within time.Duration) {
	const each = time.Second / crowdRate
	c.t.Logf("%s: %d calls in %v", when, n, in.Round(time.Millisecond))
	c.expect("the first goes", first, within)
	c.expect("without a call", longest, within+each)
	if least := int(0.9 * crowdRate * (in - within).Seconds()); n < least {
		c.bad = append(c.bad, fmt.Sprintf("%d calls, want %d", n, least))
	}
}

// Twenty thousand calls at once cost the store some small requests, whether they wait in their processes or hold slots.
//
//	go test -tags measure -count=1 -v -run FleetCrowds ./pacer/redisstore
func TestFleetCrowds(t *testing.T) { //nolint:paralleltest // it is alone
	const n = 20_000
	for i := range crowdEvents {
		event := &crowdEvents[i]
		t.Run(event.name, func(t *testing.T) { event.befall(t, n, false) })
		if !event.mixed {
			t.Run(event.name+", with slots", func(t *testing.T) { event.befall(t, n, true) })
		}
	}
}

// befall makes the event happen to so many calls, and judges the outcome.
func (e *crowdEvent) befall(t *testing.T, n int, holds bool) {
	t.Helper()
	c := newWaitingCrowd(t, n, e, holds) // which skips the test where there is no server
	timers := measure.Watch()
	e.does(c)
	slow := c.slow()
	t.Logf("latency: %v", c.server.Client().Do(t.Context(), "LATENCY", "LATEST").Val())
	measure.Judge(t, timers.Stop(), slowScript, fmt.Sprintf("%s: %d scripts took longer than %v; %s", e.name, len(slow), slowScript, strings.Join(c.bad, "; ")), len(slow)+len(c.bad) == 0)
}

package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/policies/specs"
)

// Nothing goes before the end of a pause. The one that ends last is named.
func TestReservePauses(t *testing.T) {
	t.Parallel()
	allowance := specs.Spec{Algorithm: specs.Allowance, Limit: specs.MaxLimit}
	for name, c := range map[string]struct {
		first, second int64
		want          engine.Grant
	}{
		"none":       {0, 0, engine.Grant{At: 20, Binds: engine.BindsNothing}},
		"past":       {15, 20, engine.Grant{At: 20, Binds: engine.BindsNothing}},
		"of the one": {60, 40, engine.Grant{At: 60, Binds: 1, Paused: 60}},
		"of another": {60, 61, engine.Grant{At: 61, Binds: 2, Paused: 61}},
		"of both":    {60, 60, engine.Grant{At: 60, Binds: 1, Paused: 60}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rate(1, 10), allowance, allowance)
			for i, wait := range []int64{c.first, c.second} {
				if wait > 0 {
					r.stack[1+i].Account.(*engine.Allowance).Answer(&r.stack[1+i].Limit, epoch, engine.Answered{Left: -1, Reset: wait, Refused: true})
				}
			}
			g, _ := engine.Reserve(epoch, r.stack, engine.Call{Cost: 1, NotBefore: 20, MaxWait: always}, nil)
			g.At, g.Paused = g.At-epoch, max(0, g.Paused-epoch)
			c.want.OK, c.want.Slack = true, g.Slack
			require.Equal(t, c.want, g)
		})
	}
}

// Charges are appended to those that are there.
func TestReserveAppends(t *testing.T) {
	t.Parallel()
	r := newRig(t, fixed(1, 100, 0))
	_, charges := engine.Reserve(epoch, r.stack, engine.Call{Cost: 1}, []engine.Charge{{From: 7}})
	require.Equal(t, []engine.Charge{{From: 7}, {From: epoch, To: 1, Seen: 1}}, charges)
	_, charges = engine.Reserve(epoch, r.stack, engine.Call{Cost: 1}, []engine.Charge{{From: 7}})
	require.Equal(t, []engine.Charge{{From: 7}}, charges)
}

// zip is two rates whose gaps meet nowhere before an instant: each has the intervals that the other does not.
func zip(t *testing.T, until int64) *rig {
	t.Helper()
	r := newRig(t, rate(1, 10), rate(1, 10))
	for i := range int64(100) {
		for j := range r.stack {
			if taken := i%2 == int64(j); taken && i < until {
				e := &r.stack[j]
				e.Account.Claim(&e.Limit, epoch, engine.Charge{From: epoch + i*10, To: epoch + i*10 + 10})
			}
		}
	}
	for j := range r.stack {
		e := &r.stack[j]
		e.Account.Claim(&e.Limit, epoch, engine.Charge{From: epoch + 1000, To: epoch + 1010})
	}
	return r
}

// The search is bounded: if a common slot is not found after so many rounds, only longer and longer pieces of free time are tried,
// and in the end what is behind all that is reserved.
func TestReserveIsBounded(t *testing.T) {
	t.Parallel()
	require.Equal(t, int64(0), zip(t, 0).book(0, 0, 1).At)
	require.Equal(t, int64(300), zip(t, 30).book(0, 0, 1).At)
	require.Equal(t, int64(310), zip(t, 31).book(0, 0, 1).At, "in the sixteenth round")
	require.Equal(t, int64(320), zip(t, 32).book(0, 0, 1).At, "the first long piece")
	require.Equal(t, int64(900), zip(t, 90).book(0, 0, 1).At)
	require.Equal(t, int64(1010), zip(t, 100).book(0, 0, 1).At, "behind all")
}

// A guarded window beside a rate leaves the rate a piece in each window that is of no use. However many windows the queue is long,
// they hold as many calls as the rate lets into what is left of each.
func TestALongLineUsesEveryWindow(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{100, 700, 1000, 2000} {
		r := newRig(t, fixed(60, 1000*ms, 50*ms), rate(1, 20_200))
		inEach := make(map[int64]int64)
		last := int64(0)
		for range n {
			at := r.book(0, 0, 1).At
			require.GreaterOrEqual(t, at, last)
			last = at
			inEach[at/(1000*ms)]++
		}
		for w := range last / (1000 * ms) {
			require.GreaterOrEqual(t, inEach[w], int64(47), "window %d of %d calls", w, n)
		}
		require.LessOrEqual(t, last, (n/47+1)*1000*ms)
	}
}

// One slot that is far away does not move the others there, whether it is given back or not.
func TestAFarSlotIsInNobodysWay(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []bool{false, true} {
		r := newRig(t, fixed(60, 1000*ms, 50*ms), rate(1, 20_200))
		for range 765 {
			r.book(0, 0, 1)
		}
		far := r.book(0, 600_000*ms, 1)
		if cancelled {
			r.cancel(0, far)
		}
		for range 200 {
			require.Less(t, r.book(0, 0, 1).At, 22_000*ms)
		}
	}
}

// A call that costs more than the gaps before it hold looks at so many of them, and goes behind all others if none of those holds it.
func TestADearCallLooksAtSoManyGaps(t *testing.T) {
	t.Parallel()
	gaps := func(n, then int64) *rig {
		r := newRig(t, rate(2, 10))
		at := int64(0)
		for range n { // gaps of 10
			r.book(0, at+10, 1)
			at += 20
		}
		r.book(0, at+then, 1)
		return r
	}
	require.Equal(t, int64(640), gaps(32, 20).book(0, 0, 2).At, "just long enough, and one of the first")
	require.Less(t, gaps(200, 20).book(0, 0, 2).At, int64(4100), "far behind")
	require.Greater(t, gaps(300, 1000).book(0, 0, 2).At, int64(6000), "farther behind: it is left to others")
}

// The slot moves only forward while accounts search: none returns an instant before its argument.
func TestEarliestNeverGoesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, rate(3, 10), fixed(3, 50, 5), sliding(3, 10, 4), inFlight(1, 100))
	for range 20 {
		r.book(0, 0, 1)
	}
	for _, e := range r.stack {
		last := int64(0)
		for at := epoch; at < epoch+400; at++ {
			for _, round := range []int{0, 16, 48} {
				s := e.Account.Earliest(&e.Limit, epoch, at, 1, round).At
				require.GreaterOrEqual(t, s, at)
				require.Equal(t, s, e.Account.Earliest(&e.Limit, epoch, s, 1, round).At, "asked again, it is content")
				if round == 0 {
					require.GreaterOrEqual(t, s, last)
					last = s
				}
			}
		}
	}
}

// Permits do not restrict slots, and only reported calls take them.
func TestReserveWithPermits(t *testing.T) {
	t.Parallel()
	r := newRig(t, inFlight(1, 100))
	for range 3 {
		b := r.book(0, 7, 1)
		require.Equal(t, engine.Grant{OK: true, At: 7, Binds: engine.BindsNothing}, b.Grant)
		require.Equal(t, []engine.Charge{{}}, b.charges)
	}
}

// Each algorithm has an account of its own.
func TestNewAccount(t *testing.T) {
	t.Parallel()
	for a, want := range map[specs.Algorithm]engine.Account{specs.GCRA: &engine.GCRA{}, specs.Window: &engine.Window{}, specs.Concurrency: &engine.Concurrency{}} {
		account := engine.NewAccount(a)
		require.IsType(t, want, account)
		require.Zero(t, account.Expires())
		require.False(t, account.Release(&engine.Limit{Spec: &specs.Spec{}}, engine.Left{ID: 1}))
	}
	require.Nil(t, engine.NewAccount(3))
}

// The engine panics at an unknown algorithm, and names it.
func TestTheUnknownPanics(t *testing.T) {
	t.Parallel()
	type newcomer struct{ engine.Account }
	stack := func(change func(e *engine.Entry)) []engine.Entry {
		r := newRig(t, rate(1, 10), fixed(1, 10, 0), inFlight(1, 10))
		change(&r.stack[0])
		return r.stack
	}
	foreign := func(e *engine.Entry) { e.Account = newcomer{e.Account} }
	for name, c := range map[string]struct {
		change  func(e *engine.Entry)
		does    func(stack []engine.Entry)
		reports string
	}{
		"an account, for a slot": {foreign, func(stack []engine.Entry) { engine.Reserve(epoch, stack, engine.Call{Cost: 1}, nil) }, "algorithm 1"},
		"an account, late":       {foreign, func(stack []engine.Entry) { engine.ReserveQueued(epoch, stack, engine.Call{Cost: 1, ID: 1}, nil) }, "algorithm 1"},
		"an account, held": {foreign, func(stack []engine.Entry) {
			engine.ReserveQueued(epoch, stack, engine.Call{Cost: 1, ID: 1, Held: []engine.Charge{{From: 1, To: 2}}}, nil)
		}, "algorithm 1"},
		"an account, who is next": {foreign, func(stack []engine.Entry) { stack[0].Next(epoch, 0) }, "algorithm 1"},
		"an algorithm": {func(e *engine.Entry) { e.Limit.Spec.Algorithm = 9 }, func(stack []engine.Entry) {
			engine.ReserveQueued(epoch, stack, engine.Call{Cost: 1, ID: 1}, nil)
		}, "algorithm 9"},
		"a queue": {func(e *engine.Entry) { e.Limit.Spec.Queue = 9 }, func(stack []engine.Entry) {
			engine.ReserveQueued(epoch, stack, engine.Call{Cost: 1, ID: 1}, nil)
		}, "queue: 9"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() { require.Contains(t, recover(), c.reports) }()
			c.does(stack(c.change))
		})
	}
}

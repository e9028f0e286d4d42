package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/policies/specs"
)

// epoch is where the tests begin. Its windows begin there as well. All times of a rig are relative to it.
const epoch = int64(1_000_000_000)

// always is a wait that is as long as need be.
const always = int64(1) << 50

// ms is a millisecond in µs, the unit of all times.
const ms = int64(1000)

// A rig is a stack of policies and what its accounts hold. Only it uses them.
type rig struct {
	t     testing.TB
	stack []engine.Entry
}

func newRig(t testing.TB, specs ...specs.Spec) *rig {
	t.Helper()
	r := &rig{t: t}
	for i := range specs {
		r.stack = append(r.stack, engine.Entry{
			Account: engine.NewAccount(specs[i].Algorithm), Limit: engine.Limit{Spec: &specs[i]},
		})
	}
	return r
}

// rate is one call each interval, with a burst.
func rate(burst, interval int64) specs.Spec {
	return specs.Spec{Algorithm: specs.GCRA, Limit: burst, Interval: interval}
}

// fixed is so many calls in each window.
func fixed(limit, width, guard int64) specs.Spec {
	return specs.Spec{Algorithm: specs.Window, Limit: limit, Interval: width, Guard: guard}
}

// sliding is so many calls in any window of m buckets.
func sliding(limit, width, m int64) specs.Spec {
	return specs.Spec{Algorithm: specs.Window, Limit: limit, Interval: width, Buckets: m}
}

// inFlight is so many calls that run at once.
func inFlight(limit, lease int64) specs.Spec {
	return specs.Spec{Algorithm: specs.Concurrency, Limit: limit, Interval: lease}
}

// A booking is a call that was granted its slot.
type booking struct {
	engine.Grant

	charges []engine.Charge
}

// ask reserves a slot, and returns the answer in times after the epoch.
func (r *rig) ask(now int64, c engine.Call) booking {
	r.t.Helper()
	g, charges := engine.Reserve(epoch+now, r.stack, c, nil)
	g.At -= epoch
	if want := len(r.stack); g.OK && len(charges) != want || !g.OK && len(charges) > 0 {
		r.t.Fatalf("%d charges for %+v", len(charges), g)
	}
	return booking{g, charges}
}

// book reserves at now a slot that is not before another instant.
func (r *rig) book(now, from, cost int64) booking {
	r.t.Helper()
	b := r.ask(now, engine.Call{Cost: cost, NotBefore: from - now, MaxWait: always})
	require.True(r.t, b.OK)
	return b
}

// cancel gives a slot back.
func (r *rig) cancel(now int64, b booking) {
	for i, c := range b.charges {
		r.stack[i].Account.Cancel(&r.stack[i].Limit, epoch+now, c)
	}
}

// settle corrects the cost of a call.
func (r *rig) settle(now int64, b booking, cost, actual int64) {
	for i, c := range b.charges {
		r.stack[i].Account.Settle(&r.stack[i].Limit, epoch+now, c, cost, actual)
	}
}

func (r *rig) account() engine.Account { return r.stack[0].Account }

func (r *rig) limit() *engine.Limit { return &r.stack[0].Limit }

// inspect returns how the first account stands, in times after the epoch.
func (r *rig) inspect(now int64) engine.Inspection {
	in := r.account().Inspect(r.limit(), epoch+now)
	in.Next -= epoch
	in.Full -= epoch
	if in.Paused != 0 {
		in.Paused -= epoch
	}
	return in
}

// free returns the virtual time that the first account, a rate, has not given away: nil for all of it.
func (r *rig) free() []engine.Span {
	free := r.account().(*engine.GCRA).Free()
	if len(free) == 1 && free[0].From == 0 {
		return nil
	}
	for i := range free {
		free[i].From -= epoch
		if free[i].To != engine.Forever {
			free[i].To -= epoch
		}
	}
	return free
}

// gaps is free time that ends with the tail: pairs of begin and end, and the start of the tail.
func gaps(bounds ...int64) []engine.Span {
	var free []engine.Span
	for i := 0; i+1 < len(bounds); i += 2 {
		free = append(free, engine.Span{From: bounds[i], To: bounds[i+1]})
	}
	return append(free, engine.Span{From: bounds[len(bounds)-1], To: engine.Forever})
}

// counts returns what the buckets of the first account, a window, hold, without those that hold nothing.
func (r *rig) counts() map[int64]int64 {
	counts := make(map[int64]int64)
	for begin, n := range r.account().(*engine.Window).Counts() {
		if n > 0 {
			counts[begin-epoch] = n
		}
	}
	return counts
}

// A step is a call that reserves at now a slot at from or later, and the slot and the slack that it gets.
type step struct{ now, from, cost, slot, slack int64 }

// A sequence is a table of steps with one policy.
type sequence struct {
	name  string
	spec  specs.Spec
	steps []step
}

func (s *sequence) run(t *testing.T) {
	t.Helper()
	r := newRig(t, s.spec)
	for i, x := range s.steps {
		b := r.book(x.now, x.from, x.cost)
		require.Equal(t, step{x.now, x.from, x.cost, b.At, b.Slack}, x, "step %d", i)
	}
}

// late reserves for a call that may have to queue, and also returns which calls are woken.
func (r *rig) late(now int64, c engine.Call) (b booking, called []int64) {
	r.t.Helper()
	if c.Cost == 0 {
		c.Cost = 1
	}
	if c.Slot != 0 {
		c.Slot += epoch
	}
	g, charges, called := engine.ReserveQueued(epoch+now, r.stack, c, nil)
	g.At -= epoch
	if want := len(r.stack); g.OK && len(charges) != want || !g.OK && len(charges) > 0 {
		r.t.Fatalf("%d charges for %+v", len(charges), g)
	}
	return booking{g, charges}, called
}

// goes reserves a slot for a call that waits as long as necessary.
func (r *rig) goes(now int64, c engine.Call) booking {
	r.t.Helper()
	c.MaxWait = always
	b, _ := r.late(now, c)
	require.True(r.t, b.OK, "%+v", b.Grant)
	return b
}

// stands reserves for a call that waits as long as necessary and has to queue, and checks when it must poll.
func (r *rig) stands(now int64, c engine.Call, again, ahead int64) {
	r.t.Helper()
	c.MaxWait = always
	b, _ := r.late(now, c)
	require.True(r.t, b.Queued, "%+v", b.Grant)
	require.False(r.t, b.OK)
	require.Equal(r.t, []int64{again, ahead}, []int64{b.At, b.Ahead}, "when to ask again, and how many stand before it")
}

package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/policies"
)

// A call whose slot is far away gets it at once, and no permit: that it takes when its slot comes.
func TestLateTakesItsPlaceWhenItsSlotComes(t *testing.T) {
	t.Parallel()
	specs := []policies.Spec{rate(1, 100*ms), inFlight(1, 500*ms)}
	r := newRig(t, specs...)
	a := r.goes(0, id(1))
	require.Equal(t, []engine.Charge{{From: epoch, To: epoch + 100*ms}, {From: 1, To: 1}}, a.charges)
	require.Zero(t, a.Slack, "of the rate")
	b := r.goes(0, id(2))
	require.Equal(t, engine.Grant{OK: true, At: 100 * ms, Binds: 0}, b.Grant)
	require.Equal(t, []engine.Charge{{From: epoch + 100*ms, To: epoch + 200*ms}, {From: 2}}, b.charges, "no permit yet")

	again := engine.Call{ID: 2, Cost: 1, Held: b.charges, Slot: b.At}
	b.Binds = engine.BindsNothing // nothing but the slot that it has
	require.Equal(t, b, r.goes(60*ms-1, again), "it asks too soon: it is given the same")
	require.True(t, r.stack[1].Account.Release(1))
	c := r.goes(60*ms, again)
	require.Equal(t, b.Grant, c.Grant, "40 ms before its slot")
	require.Equal(t, []engine.Charge{{From: epoch + 100*ms, To: epoch + 200*ms}, {From: 2, To: 1}}, c.charges)
	require.Zero(t, r.stack[1].Account.Inspect(&r.stack[1].Limit, epoch+60*ms).Remaining)
}

// A call takes its permits no sooner than it needs them: 10 ms before its slot, or as long as its answer takes.
func TestAPermitIsNotTakenLongBeforeTheSlot(t *testing.T) {
	t.Parallel()
	for reach, has := range map[int64]bool{0: false, 10 * ms: false, 30*ms - 1: false, 30 * ms: true} {
		r := newRig(t, rate(1, 30*ms), inFlight(2, 500*ms))
		r.goes(0, id(1))
		b := r.goes(0, engine.Call{ID: 2, Reach: reach})
		require.Equal(t, 30*ms, b.At)
		require.Equal(t, has, b.charges[1].To == 1, "%d µs", reach)
	}
	r := newRig(t, rate(1, 10*ms), inFlight(2, 500*ms))
	r.goes(0, id(1))
	require.Equal(t, engine.Charge{From: 2, To: 1}, r.goes(0, id(2)).charges[1])
}

// If its permit is taken when its slot comes, it gives the slot back and is queued: a queued call holds no slot.
func TestLateGivesItsSlotBackForTheLine(t *testing.T) {
	t.Parallel()
	r := newRig(t, rate(1, 100*ms), inFlight(1, 500*ms))
	r.goes(0, id(1))
	b := r.goes(0, id(2))
	require.Equal(t, gaps(200*ms), r.free())
	r.stands(90*ms, engine.Call{ID: 2, Held: b.charges, Slot: b.At}, 500*ms, 0)
	require.Equal(t, gaps(100*ms), r.free())
	r.stands(90*ms, id(3), 1090*ms, 1)
	require.Equal(t, gaps(100*ms), r.free(), "who is queued is charged nothing")
	require.True(t, r.stack[1].Account.Release(1))
	require.Equal(t, []int64{2}, r.stack[1].Next(epoch+95*ms, 0))
	require.Equal(t, 100*ms, r.goes(95*ms, id(2)).At)

	// One that no longer waits is refused, and what it held is free.
	r = newRig(t, rate(1, 100*ms), inFlight(1, 500*ms))
	r.goes(0, id(1))
	b = r.goes(0, id(2))
	g, _ := r.late(70*ms, engine.Call{ID: 2, Held: b.charges, Slot: b.At})
	require.Equal(t, engine.Grant{At: 70 * ms, Binds: 1}, g.Grant)
	require.Equal(t, gaps(100*ms), r.free())
}

// Its slot must be within reach of the wait and of the calendar, and nothing is charged otherwise.
func TestLateRefusal(t *testing.T) {
	t.Parallel()
	r := newRig(t, rate(1, 100*ms), fixed(5, 1000*ms, 0), inFlight(9, 500*ms))
	r.stack[1].Limit.Bounds = []int64{epoch, epoch + 150*ms}
	r.goes(0, id(1))
	for _, c := range []struct {
		wait int64
		ok   bool
		want engine.Grant
	}{
		{100*ms - 1, false, engine.Grant{At: 100 * ms, Binds: 0}},
		{100 * ms, true, engine.Grant{OK: true, At: 100 * ms, Binds: 0}},
		{100 * ms, false, engine.Grant{At: 200 * ms, Binds: 0}},
		{always, false, engine.Grant{At: 200 * ms, Binds: 1}}, // the calendar ends before
	} {
		before := r.free()
		b, called := r.late(0, engine.Call{ID: 2, MaxWait: c.wait})
		require.Equal(t, c.want, b.Grant)
		require.Empty(t, called)
		if !c.ok {
			require.Equal(t, before, r.free())
		}
	}
	r.stack[1].Limit.Bounds = []int64{epoch, epoch + 200*ms}
	b, _ := r.late(0, engine.Call{ID: 2, MaxWait: always})
	require.Equal(t, engine.Grant{At: 200 * ms, Binds: 1}, b.Grant, "nor does it say anything of its end")
	require.Equal(t, int64(8), r.stack[2].Account.Inspect(&r.stack[2].Limit, epoch).Remaining)
}

// A slot is not before the call wants it, nor in a pause, nor before one that it has already.
func TestLateBegins(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		upstream, pause int64
		call            engine.Call
		want            engine.Grant
	}{
		"now":               {0, 0, engine.Call{}, engine.Grant{At: 0, Binds: engine.BindsNothing}},
		"not before":        {0, 0, engine.Call{NotBefore: 7}, engine.Grant{At: 7, Binds: engine.BindsNothing}},
		"its slot":          {0, 0, engine.Call{NotBefore: 7, Slot: epoch + 9}, engine.Grant{At: 9, Binds: engine.BindsNothing}},
		"upstream's pause":  {9, 8, engine.Call{NotBefore: 7}, engine.Grant{At: 9, Binds: engine.BindsUpstream}},
		"policy's pause":    {9, 10, engine.Call{NotBefore: 7}, engine.Grant{At: 10, Binds: 0, Paused: true}},
		"after both pauses": {9, 10, engine.Call{NotBefore: 11}, engine.Grant{At: 11, Binds: engine.BindsNothing}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, inFlight(1, 100*ms))
			r.account().Pause(epoch + c.pause)
			c.call.ID, c.call.MaxWait = 1, always
			g, _, _ := engine.ReserveQueued(epoch, epoch+c.upstream, r.stack, c.call, nil)
			c.want.OK, c.want.Slack = true, 1000*ms
			g.At -= epoch
			require.Equal(t, c.want, g)
		})
	}
}

// Who leaves a queue otherwise than by being served makes way for the next, who is called.
func TestLateCallsTheNext(t *testing.T) {
	t.Parallel()
	r := newRig(t, inFlight(2, 100*ms))
	r.goes(0, id(1))
	r.goes(50*ms, id(2))
	r.stands(50*ms, id(3), 100*ms, 0)
	r.stands(50*ms, id(4), 150*ms, 1)
	b, called := r.late(99*ms, engine.Call{ID: 5, MaxWait: always})
	require.True(t, b.Queued)
	require.Empty(t, called)
	// The first lease has run out. It is 3's turn, and the next operation that notices wakes it.
	b, called = r.late(100*ms, engine.Call{ID: 5, MaxWait: always})
	require.True(t, b.Queued)
	require.Equal(t, []int64{3}, called)
	b, called = r.late(100*ms, engine.Call{ID: 3, MaxWait: always})
	require.True(t, b.OK)
	require.Empty(t, called, "there is no permit for another")
	require.True(t, r.account().Release(2))
	b, called = r.late(101*ms, engine.Call{ID: 6}) // does not wait: it never was queued
	require.False(t, b.OK)
	require.Empty(t, called)
	b, called = r.late(101*ms, engine.Call{ID: 4}) // nor does this one now, but it may go
	require.True(t, b.OK)
	require.Empty(t, called)
	require.True(t, r.account().Release(4))
	require.Nil(t, (&engine.Entry{Account: &engine.Window{}}).Next(epoch, 0), "a window has no queue")
	plain := newRig(t, rate(1, 10))
	require.Nil(t, plain.stack[0].Next(epoch, 0))
	require.Equal(t, &engine.GCRA{}, plain.account(), "nor has a rate that gives its slots at once")
}

// batch is a rate of 100 a second with a burst of 10, and what a lane has of it.
func batch(percent int64) []policies.Spec {
	p := policies.PerSecond(100).Burst(10).Lane("batch", percent)
	part, _ := p.InLane("batch")
	return []policies.Spec{p.Spec(), part.Spec()}
}

// A lane has its part, in order. Others need not wait behind its queue, for who stands in it is charged nothing.
func TestLane(t *testing.T) {
	t.Parallel()
	r := newRig(t, batch(50)...)
	for i, want := range []int64{0, 0, 0, 0, 0, 20 * ms, 40 * ms} { // five at once, and two whose slots are near
		require.Equal(t, want, r.goes(0, id(int64(i+1))).At)
	}
	// The lane's next slot is at 60 ms, and so near at 20. Those behind it come at the lane's pace, unless the whole rate lends to them sooner.
	before := r.free()
	r.stands(0, id(8), 20*ms, 0)
	r.stands(0, id(9), 40*ms, 1)
	r.stands(0, id(10), 60*ms, 2)
	require.Equal(t, before, r.free())
	require.Equal(t, int64(3), r.stack[1].Account.Inspect(&r.stack[1].Limit, epoch).Queued)
	b, _ := r.late(0, engine.Call{ID: 11, MaxWait: 80*ms - 1})
	require.Equal(t, engine.Grant{At: 80 * ms, Binds: 1}, b.Grant)
	b, _ = r.late(0, engine.Call{ID: 11, MaxWait: 80 * ms})
	require.True(t, b.Queued)
	require.True(t, r.stack[1].Account.Release(11))

	open := &rig{t, r.stack[:1]}
	for range 3 { // what the lane leaves of the burst
		require.Zero(t, open.book(0, 0, 1).At)
	}
	require.Equal(t, 10*ms, open.book(0, 0, 1).At)
	r.stands(15*ms, id(9), 40*ms, 1)
	require.Equal(t, 60*ms, r.goes(20*ms, id(8)).At)
	require.Equal(t, 80*ms, r.goes(40*ms, id(9)).At)
}

// Whose slot is near need not wait for those before it who have not asked yet.
func TestLaneOvertakes(t *testing.T) {
	t.Parallel()
	r := newRig(t, batch(50)...)
	for i := range int64(7) {
		r.goes(0, id(i+1))
	}
	r.stands(0, id(8), 20*ms, 0)
	r.stands(0, id(9), 40*ms, 1)
	r.stands(40*ms-1, id(9), 41*ms-1, 1)
	require.Equal(t, 60*ms, r.goes(40*ms, id(9)).At, "the second slot from now on is at 80 ms")
	r.stands(40*ms-1, id(8), 41*ms-1, 0)
	require.Equal(t, 80*ms, r.goes(40*ms, id(8)).At)
}

// A call whose way to the store is long gets its slot earlier, and asks again earlier, so that the answer is there in time.
func TestLateReachesAsFarAsTheWay(t *testing.T) {
	t.Parallel()
	fair := policies.PerSecond(10).Fair("tenant").Spec()
	ask := func(reach int64) booking {
		r := newRig(t, fair)
		r.goes(0, engine.Call{ID: 1, Flow: 1, Weight: 1})
		r.late(0, engine.Call{ID: 2, Flow: 1, Weight: 1, MaxWait: always})
		b, _ := r.late(0, engine.Call{ID: 3, Flow: 2, Weight: 1, MaxWait: always, Reach: reach})
		return b
	}
	b := ask(0)
	require.True(t, b.Queued)
	near := b.At
	b = ask(30 * ms)
	require.Equal(t, near, b.At, "never less than 40 ms")
	b = ask(90 * ms)
	require.True(t, b.Queued)
	require.Equal(t, near-50*ms, b.At)
}

package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/policies"
)

// What the others leave of a rate is lent to the lane at the last moment: 20 ms before it is lost. The lane is not charged.
func TestLaneIsLent(t *testing.T) {
	t.Parallel()
	r := newRig(t, batch(10)...) // one call each 100 ms, of a rate of one each 10 ms
	a := r.goes(0, id(1))
	require.Equal(t, []engine.Charge{{From: epoch, To: epoch + 10*ms}, {From: epoch, To: epoch + 100*ms}}, a.charges)
	for i := range int64(2) { // those that would be lost in 10 and in 20 ms
		b := r.goes(0, id(2+i))
		require.Zero(t, b.At)
		require.Equal(t, []engine.Charge{{From: epoch + 10*ms*(i+1), To: epoch + 10*ms*(i+2)}, {}}, b.charges)
		require.Equal(t, 10*ms*(i+1), b.Slack)
	}
	r.stands(0, id(4), 10*ms, 0) // when the next one is to be lent
	r.stands(0, id(5), 20*ms, 1) // one interval of the rate later
	r.stands(10*ms-1, id(5), 20*ms, 1)
	r.stands(10*ms-1, id(4), 11*ms-1, 0)
	b := r.goes(10*ms, id(4))
	require.Equal(t, []engine.Charge{{From: epoch + 30*ms, To: epoch + 40*ms}, {}}, b.charges)
	r.stands(10*ms, id(5), 20*ms, 0) // who was lent a slot has left the queue
	require.Equal(t, int64(1), r.stack[1].Account.Inspect(&r.stack[1].Limit, epoch+10*ms).Queued)

	// To one behind another nothing is lent that the first needs.
	r.stands(20*ms, id(6), 30*ms, 1)
	r.goes(20*ms, id(5))
	r.stands(20*ms, id(6), 30*ms, 0)
	// Its own slot, at 100 ms, is near from 60 on.
	require.Equal(t, 100*ms, r.goes(60*ms, engine.Call{ID: 7, Since: epoch, NotBefore: 40 * ms}).At)
}

// A lane is lent what others leave of its own rate, if it is the call's turn in the fair queue that it stands in besides.
func TestLaneIsLentInTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, append(batch(10), shared())...)
	r.goes(0, of(1, 1, 1))
	require.Equal(t, engine.Charge{}, r.goes(0, of(2, 1, 1)).charges[1])
	require.Equal(t, engine.Charge{}, r.goes(0, of(3, 1, 1)).charges[1])
	b, _ := r.late(0, engine.Call{ID: 4, Flow: 1, MaxWait: always})
	require.True(t, b.Queued)
	require.Equal(t, engine.Charge{}, r.goes(10*ms, of(4, 1, 1)).charges[1])

	r = newRig(t, append(batch(10), shared())...)
	open := &rig{t, r.stack[2:]}
	for i := range int64(9) {
		open.goes(0, of(11+i, 2, 1))
	}
	open.stands(0, of(20, 2, 1), 10*ms, 0)
	before := r.free()
	r.stands(10*ms, of(1, 1, 1), 20*ms, 1) // behind the other, though the lane has its burst yet
	require.Equal(t, before, r.free())
	require.Equal(t, 50*ms, r.goes(20*ms, of(1, 1, 1)).At)
}

// A call that has a slot keeps it, whatever is queued: it has paid for its turn.
func TestLaneHeldSlot(t *testing.T) {
	t.Parallel()
	r := newRig(t, append(batch(50), inFlight(90, 1000*ms))...)
	far := r.goes(0, engine.Call{ID: 100, NotBefore: 500 * ms})
	require.Equal(t, 500*ms, far.At, "a call that is to go late gets its slot at once")
	require.Zero(t, far.charges[2].To)
	for i := range int64(20) {
		r.late(470*ms, engine.Call{ID: i + 1, MaxWait: always})
	}
	line := r.stack[1].Account.Inspect(&r.stack[1].Limit, epoch+470*ms).Queued
	require.NotZero(t, line)
	far = r.goes(470*ms, engine.Call{ID: 100, Held: far.charges, Slot: far.At})
	require.Equal(t, 500*ms, far.At)
	require.Equal(t, int64(1), far.charges[2].To)
	require.Equal(t, line, r.stack[1].Account.Inspect(&r.stack[1].Limit, epoch+470*ms).Queued)
}

// A call of a lane that has to wait for another rate gets its slot at once.
func TestLaneWithARateOfItsOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t, append(batch(50), rate(1, 100*ms))...)
	for i := range int64(10) {
		require.Equal(t, i*100*ms, r.goes(0, id(i+1)).At)
	}
	require.Zero(t, r.stack[1].Account.Inspect(&r.stack[1].Limit, epoch).Queued)
}

// With a pause, the queue waits until its end.
func TestLanePaused(t *testing.T) {
	t.Parallel()
	r := newRig(t, batch(50)...)
	r.stack[0].Account.Pause(epoch + 200*ms)
	r.stands(0, id(1), 160*ms, 0)
	r.stands(0, id(2), 180*ms, 1)
	b := r.goes(160*ms, id(1))
	require.Equal(t, 200*ms, b.At)
	require.True(t, b.Paused)
}

// shared is a rate of 100 a second with a burst of 5 that flows share.
func shared() policies.Spec { return policies.PerSecond(100).Burst(5).Fair("tenant").Spec() }

func of(n, flow, weight int64) engine.Call { return engine.Call{ID: n, Flow: flow, Weight: weight} }

// A call that finds no queue goes at once, and then the flows take turns by weight, in whatever order they ask.
func TestFairRate(t *testing.T) {
	t.Parallel()
	r := newRig(t, shared())
	for i, want := range []int64{0, 0, 0, 0, 0, 10 * ms, 20 * ms, 30 * ms, 40 * ms} {
		require.Equal(t, want, r.goes(0, of(int64(i+1), 1, 1)).At, "one flow has all while nobody else wants any")
	}
	before := r.free()
	r.stands(0, of(11, 1, 1), 10*ms, 0) // the next slot is at 50 ms
	r.stands(0, of(12, 1, 1), 20*ms, 1)
	r.stands(0, of(13, 1, 1), 30*ms, 2)
	r.stands(0, of(21, 2, 2), 20*ms, 1) // of another flow: after the first of flow 1, before the second
	r.stands(0, of(22, 2, 2), 30*ms, 2) // its weight is 2: two of its calls for one of flow 1
	r.stands(0, of(23, 2, 2), 50*ms, 4) // at the tag of 12, behind it
	require.Equal(t, before, r.free(), "who is queued is charged nothing")
	require.Equal(t, int64(6), r.inspect(0).Queued)
	b, _ := r.late(0, engine.Call{ID: 31, Flow: 3, MaxWait: 70*ms - 1})
	require.Equal(t, engine.Grant{At: 70 * ms, Binds: 0}, b.Grant, "it would stand third: after the first of both others")
	require.Equal(t, int64(6), r.inspect(0).Queued)

	for i, n := range []int64{11, 21, 22, 12, 23, 13} {
		now := int64(i+1) * 10 * ms
		require.Equal(t, now+40*ms, r.goes(now, of(n, n/10, n/10)).At, "call %d", n)
	}
	require.Equal(t, engine.NewAccount(policies.GCRA).Inspect(r.limit(), epoch).Queued, r.inspect(0).Queued)
}

// A slot that is far away because of another limit is given at once, and does not move the queue on.
func TestFairSlotFarAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, shared(), rate(1, 100*ms))
	open := &rig{t, r.stack[:1]}
	for i := range int64(9) {
		open.goes(0, of(i+1, 1, 1))
	}
	open.stands(0, of(11, 1, 1), 10*ms, 0)
	r.stands(0, of(21, 2, 1), 20*ms, 1)
	r.stack[1].Account.Claim(&r.stack[1].Limit, epoch, engine.Charge{From: epoch, To: epoch + 500*ms})
	b := r.goes(0, of(22, 2, 1))
	require.Equal(t, 500*ms, b.At)
	open.stands(0, of(12, 1, 1), 30*ms, 2)
	open.stands(0, of(31, 3, 1), 30*ms, 2)

	// When its slot comes it asks again, and keeps it whatever is queued.
	held := of(22, 2, 1)
	held.Held, held.Slot = b.charges, b.At
	require.Equal(t, 500*ms, r.goes(1*ms, held).At)
	held.Held = r.goes(470*ms, held).charges
	require.Equal(t, 500*ms, r.goes(470*ms, held).At)
}

// Permits are shared as slots are: the next one goes to the flow whose turn it is.
func TestFairPermits(t *testing.T) {
	t.Parallel()
	r := newRig(t, policies.InFlight(1).Fair("tenant").Lease(100*1_000_000).Spec())
	a := r.account()
	r.goes(0, of(1, 1, 1))
	r.stands(0, of(11, 1, 1), 100*ms, 0)
	r.stands(0, of(12, 1, 1), 1000*ms, 1)
	r.stands(0, of(21, 2, 1), 1000*ms, 1)
	r.stands(0, of(22, 2, 1), 1000*ms, 3)
	running := int64(1)
	for i, n := range []int64{11, 21, 12, 22} {
		require.True(t, a.Release(running))
		require.Equal(t, []int64{n}, r.stack[0].Next(epoch+int64(i), 0))
		r.goes(int64(i), of(n, n/10, 1))
		running = n
		if n == 21 { // flow 3 comes: it begins where the call did that was served last, and so before the second of the others
			r.stands(int64(i), of(31, 3, 1), 100*ms+1, 0)
			require.True(t, a.Release(31))
		}
	}
	require.Zero(t, r.inspect(4).Queued)
}

// How soon queued calls ask again: when a lease runs out, after a second if they are among the first, and otherwise after two
// to four, so that they do not all come at once.
func TestLateAsksAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, inFlight(1, 60_000*ms))
	r.goes(0, id(1_000_000))
	for i := range int64(256) {
		r.stands(0, id(i+1), 1000*ms, i)
	}
	r.stands(0, id(257), 2000*ms+257, 256)
	r.stands(0, id(3_999_999), 2000*ms+1_999_999, 257)
	r.stands(0, id(2_000_000), 2000*ms, 258)
	require.Equal(t, int64(259), r.inspect(1500*ms-1).Queued)
	require.Equal(t, int64(3), r.inspect(1500*ms).Queued, "half a second later, they are taken for dead")
	r.stands(1500*ms, id(2_000_000), 2500*ms, 2)
}

// A rate whose calls are all past still knows who is queued.
func TestRateKeepsItsLine(t *testing.T) {
	t.Parallel()
	r := newRig(t, shared())
	for i := range int64(9) {
		r.goes(0, of(i+1, 1, 1))
	}
	r.stands(0, of(11, 1, 1), 10*ms, 0)
	r.account().Resume(epoch + 200*ms)
	require.Nil(t, r.free())
	require.Equal(t, int64(1), r.inspect(200*ms).Queued)
	require.Equal(t, epoch+510*ms, r.account().Expires(), "when it is taken for dead")
	require.Equal(t, []int64{11}, r.stack[0].Next(epoch+200*ms, 0))
	require.True(t, r.account().Release(11))
	require.False(t, r.account().Release(11))
	require.Zero(t, r.inspect(200*ms).Queued)
}

// Who gives a slot back, and who leaves the queue, calls the next one.
func TestFairCallsTheNext(t *testing.T) {
	t.Parallel()
	r := newRig(t, shared(), inFlight(9, 1000*ms))
	var last booking
	for i := range int64(9) {
		last = r.goes(0, of(i+1, 1, 1))
	}
	r.stands(0, of(11, 1, 1), 10*ms, 0)
	r.stands(0, of(12, 1, 1), 20*ms, 1)
	_, called := r.late(5*ms, engine.Call{ID: 12, Flow: 1, MaxWait: always})
	require.Empty(t, called)
	// One that stood in this queue has to stand in another now: it has left the first.
	r.cancel(5*ms, last)
	for i := range int64(9) {
		r.stack[1].Account.Renew(&r.stack[1].Limit, epoch+5*ms, 100+i, 0)
	}
	b, called := r.late(60*ms, engine.Call{ID: 11, Flow: 1, MaxWait: always})
	require.Equal(t, 1, b.Binds)
	require.Equal(t, []int64{12}, called, "its position in the queue of the rate is the next one's")
}

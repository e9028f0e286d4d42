package dispatch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/dispatch"
)

const ms = time.Millisecond

// The steps of a window by example: 50 calls a second, one process, a store that answers in 1 ms.
func TestAWindowByExample(t *testing.T) {
	t.Parallel()
	var w dispatch.Window

	n, _ := w.Ask(0, 0, 10_000)
	require.Equal(t, 64, n, "nothing is known: many at first, in case that none has to wait")

	// The first one goes now, the next ones 20 and 40 ms later, which is the reach; then there is one too far ahead.
	w.Answered(&dispatch.Answer{Requested: 0, Answered: 1 * ms, Calls: 64, Granted: 3, Waits: true, Last: 40 * ms, Next: 60 * ms})
	require.Equal(t, 20*ms, w.Gap())
	n, again := w.Ask(1*ms, 40*ms, 9997)
	require.Equal(t, 1, n, "the furthest is within the reach: no more are asked for than fit")
	require.Zero(t, again)

	w.Answered(&dispatch.Answer{Requested: 1 * ms, Answered: 2 * ms, Calls: 1, Granted: 1, Waits: true, Last: 60 * ms})
	n, again = w.Ask(2*ms, 60*ms, 9996)
	require.Zero(t, n, "the furthest is beyond the reach")
	require.Equal(t, 20*ms, again, "until it comes within it")

	n, _ = w.Ask(again, 60*ms, 9996)
	require.Equal(t, 1, n)
	require.Greater(t, w.Estimate(again, 60*ms, 1000), 15*time.Second)
	require.Less(t, w.Estimate(again, 60*ms, 1000), 25*time.Second)
}

// Where many slots fit into the reach, a request is for several: it is made when a fourth of the reach is left, or twice the way to the
// store, which is at most half of the reach.
func TestARequestIsForSeveral(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ way, left time.Duration }{{ms, 10 * ms}, {5 * ms, 10 * ms}, {8 * ms, 16 * ms}, {12 * ms, 20 * ms}} {
		var w dispatch.Window
		w.Answered(&dispatch.Answer{Requested: 0, Answered: c.way, Calls: 64, Granted: 41, Waits: true, Last: 40 * ms, Next: 41 * ms})
		n, again := w.Ask(0, 40*ms, 1000)
		require.Zero(t, n)
		require.Equal(t, 40*ms-c.left, again)
		n, _ = w.Ask(again, 40*ms, 1000)
		require.InDelta(t, 41-c.left/ms, n, 1)
	}
}

// Calls that need not wait go together, in requests that grow.
func TestRequestsGrowWhileNobodyWaits(t *testing.T) {
	t.Parallel()
	var w dispatch.Window
	var sizes []int
	for range 5 {
		n, _ := w.Ask(0, 0, 1000)
		sizes = append(sizes, n)
		w.Answered(&dispatch.Answer{Calls: n, Granted: n})
	}
	require.Equal(t, []int{64, 128, 256, 256, 256}, sizes)
	require.Zero(t, w.Gap())
	require.Equal(t, 7*ms, w.Estimate(7*ms, 0, 1000), "nobody waits")
}

// A store far away gets earlier requests, for more at a time: 1,000 calls a second, 80 ms there and back.
func TestTheReachFollowsTheWay(t *testing.T) {
	t.Parallel()
	var w dispatch.Window
	require.Equal(t, dispatch.MinReach, w.Reach())
	w.Answered(&dispatch.Answer{Requested: 0, Answered: 80 * ms, Calls: 64, Granted: 40, Waits: true, Last: 120 * ms, Next: 121 * ms})
	require.Equal(t, 240*ms, w.Reach())
	n, _ := w.Ask(80*ms, 120*ms, 1000)
	require.InDelta(t, 67, n, 1, "as many as fit")
	fast := dispatch.Window{}
	fast.Answered(&dispatch.Answer{Requested: 0, Answered: 80 * ms, Calls: 64, Granted: 40, Waits: true, First: 80 * ms, Last: 84 * ms, Next: 84*ms + ms/10})
	n, _ = fast.Ask(80*ms, 84*ms, 1000)
	require.Equal(t, dispatch.MaxAhead, n, "never more than that")
	for range 40 { // fast answers: it is forgotten by and by
		w.Answered(&dispatch.Answer{Calls: 1, Granted: 1, Waits: true, Last: 120 * ms})
	}
	require.Equal(t, dispatch.MinReach, w.Reach())
	w.Answered(&dispatch.Answer{Requested: 0, Answered: time.Minute, Calls: 1, Granted: 1, Waits: true, Last: 120 * ms})
	require.Equal(t, dispatch.MaxReach, w.Reach(), "a stall does not make it reserve far ahead")
}

// A process always holds a slot, however far away, and then nothing more.
func TestOneSlotMayBeFarAhead(t *testing.T) {
	t.Parallel()
	var w dispatch.Window
	w.Answered(&dispatch.Answer{Requested: 0, Answered: ms, Calls: 2, Granted: 1, Waits: true, First: time.Hour, Last: time.Hour, Next: 2 * time.Hour})
	n, again := w.Ask(ms, time.Hour, 1)
	require.Zero(t, n)
	require.Equal(t, time.Hour-dispatch.MinReach, again)
	require.Equal(t, time.Hour, w.Gap())
}

// A slot that was given back is requested again at once.
func TestACancelledSlotLetsTheNextOneAsk(t *testing.T) {
	t.Parallel()
	var w dispatch.Window
	w.Answered(&dispatch.Answer{Requested: 0, Answered: ms, Calls: 1, Granted: 1, Waits: true, Last: time.Hour})
	n, _ := w.Ask(2*ms, 0, 3)
	require.Positive(t, n)
}

// The end of a pause does not show the pace: all may go then.
func TestAPauseIsNoPace(t *testing.T) {
	t.Parallel()
	var w dispatch.Window
	w.Answered(&dispatch.Answer{Requested: 0, Answered: ms, Calls: 64, Granted: 1, Waits: true, First: time.Second, Last: time.Second, Next: time.Second, Paused: true})
	require.Zero(t, w.Gap())
	n, again := w.Ask(ms, time.Second, 99)
	require.Zero(t, n)
	n, _ = w.Ask(again, time.Second, 99)
	require.Equal(t, 64, n)
}

// Estimates do not overflow.
func TestEstimatesAreBounded(t *testing.T) {
	t.Parallel()
	var w dispatch.Window
	w.Answered(&dispatch.Answer{Calls: 1, Granted: 1, Waits: true, Next: 10 * 365 * 24 * time.Hour})
	require.Positive(t, w.Estimate(0, 0, 1<<40))
}

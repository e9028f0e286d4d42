package engine_test

import (
	"math/rand/v2"
	"testing"
	_ "time/tzdata" // Berlin's

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/engine"
)

// A window is a bucket: what goes in it counts to its end. A call may be late to the end, less the guard.
func TestWindowSlots(t *testing.T) {
	t.Parallel()
	for _, s := range []sequence{
		{"fixed", fixed(3, 100, 0), []step{
			{0, 0, 1, 0, 99},
			{40, 40, 1, 40, 59},
			{99, 99, 1, 99, 0},
			{99, 99, 1, 100, 99}, // the fourth
			{100, 100, 2, 100, 99},
			{150, 150, 1, 200, 99},
			{160, 160, 3, 300, 99}, // there is room for two more at 200
			{160, 160, 2, 200, 99}, // and here they are
			{500, 520, 1, 520, 79},
		}},
		{"guard: nothing goes at the very end of a window, and its slack ends there too", fixed(2, 100, 10), []step{
			{89, 89, 1, 89, 0},
			{90, 90, 1, 100, 89},
			{99, 99, 1, 100, 89},
			{99, 99, 1, 200, 89},
			{99, 190, 1, 200, 89},
		}},
		{"sliding: a call counts for its own bucket and the next m", sliding(2, 10, 3), []step{
			{5, 5, 1, 5, 4},
			{12, 12, 1, 12, 7},
			{12, 12, 1, 40, 9},  // that at 5 counts for the buckets 0 to 30
			{39, 39, 1, 50, 9},  // that at 12 for the buckets 10 to 40
			{51, 51, 1, 80, 9},  // that at 40
			{51, 51, 2, 120, 9}, // behind that at 80
		}},
		{"sliding: a call may go before others only if it leaves them their place", sliding(2, 10, 3), []step{
			{0, 20, 1, 20, 9},
			{0, 0, 1, 0, 9},
			{0, 0, 1, 40, 9}, // both count for the bucket 20
			{0, 100, 2, 100, 9},
			{0, 45, 1, 60, 9},  // behind that at 20
			{0, 65, 1, 140, 9}, // from 70 on it would count for 100
		}},
		{"sliding: one bucket before", sliding(1, 10, 1), []step{
			{0, 0, 1, 0, 9},
			{0, 0, 1, 20, 9},
			{0, 50, 1, 50, 9},
			{0, 21, 1, 70, 9},
		}},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.run(t)
		})
	}
}

// Before the table of a calendar, for a clock that steps back, windows have their usual length. Behind it they are not known.
func TestWindowBeyondCalendar(t *testing.T) {
	t.Parallel()
	const base = epoch + 7 // on no grid but the table's
	for now, want := range map[int64]struct{ bucket, slack int64 }{
		-1:   {-100, 0}, // before
		-100: {-100, 99},
		-101: {-200, 100}, // two windows before the table are one
		0:    {0, 29},
		29:   {0, 0},
		30:   {30, 119},
		149:  {30, 0},
		150:  {150, 99}, // behind
		249:  {150, 0},
	} {
		r := newRig(t, fixed(5, 100, 0))
		r.limit().Bounds = []int64{base, base + 30, base + 150}
		a, l := r.account(), r.limit()
		p := a.Earliest(l, base+now, base+now, 1, 0)
		require.Equal(t, base+now, p.At, "at %d", now)
		c, slack := a.Commit(l, base+now, p, 1)
		require.Equal(t, want.bucket, c.From-base, "at %d", now)
		require.Equal(t, want.slack, slack, "at %d", now)
	}
}

// A call that is given back makes room even in buckets before its own, that it would have been counted with.
func TestWindowCancelLooksBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, sliding(1, 10, 3))
	a := r.book(0, 30, 1)
	b := r.book(0, 0, 1) // counts with that at 30
	require.Equal(t, int64(70), b.At)
	require.Equal(t, int64(110), r.book(0, 0, 1).At)
	r.cancel(0, a)
	require.Equal(t, int64(0), r.book(0, 0, 1).At)
}

// The cost of a call is corrected in its bucket, as long as that counts.
func TestWindowSettle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		now, actual, want int64
	}{
		"as expected":             {0, 2, 2},
		"cheaper":                 {0, 1, 1},
		"for nothing":             {0, 0, 0},
		"dearer, over the limit":  {0, 9, 9},
		"at the last instant":     {99, 9, 9},
		"dearer, but it is over":  {100, 9, 2},
		"cheaper, but it is over": {100, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, fixed(3, 100, 0))
			r.settle(c.now, r.book(0, 0, 2), 2, c.actual)
			require.Equal(t, c.want, r.counts()[0])
			if c.now < 100 {
				require.Equal(t, c.want <= 2, r.ask(0, engine.Call{Cost: 1}).OK)
			}
		})
	}
}

// Buckets that count no more are forgotten, once per period.
func TestWindowForgets(t *testing.T) {
	t.Parallel()
	r := newRig(t, sliding(100, 10, 3))
	for now := range int64(1000) {
		r.book(now, now, 1)
	}
	require.LessOrEqual(t, len(r.account().(*engine.Window).Counts()), 8)
	counts := r.counts()
	for b := int64(970); b < 1000; b += 10 {
		require.Contains(t, counts, b, "what counts is kept")
	}
}

// A window's remembered sums, which save it from reading all buckets, equal those of the buckets, whatever happens to them.
func TestWindowRemembersSums(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 4))
		r := newRig(t, sliding(20, 10, 1+rng.Int64N(12)))
		w, now, made := r.account().(*engine.Window), int64(0), []booking(nil)
		for range 100 {
			now += max(0, rng.Int64N(60)-40)
			if len(made) > 0 && rng.IntN(4) == 0 {
				r.cancel(now, made[rng.IntN(len(made))])
			} else {
				made = append(made, r.book(now, now+max(0, rng.Int64N(300)-200), 1+rng.Int64N(6)))
			}
			k := epoch + now - now%10
			if rng.IntN(3) == 0 {
				k += 10 * rng.Int64N(20)
			}
			total, counted, moved, anew, peak, fullest := w.Sums(r.limit(), k)
			require.Equal(t, counted, total, "seed %d", seed)
			require.Equal(t, anew, moved, "seed %d", seed)
			if peak >= 0 {
				require.GreaterOrEqual(t, peak, fullest, "seed %d", seed)
			}
		}
	}
}

// From the last round on, a call goes behind everything that is reserved.
func TestWindowTail(t *testing.T) {
	t.Parallel()
	r := newRig(t, sliding(3, 10, 3))
	a, l := r.account(), r.limit()
	require.Equal(t, epoch+5, a.Earliest(l, epoch, epoch+5, 1, 48).At, "nothing is reserved")
	r.book(0, 50, 1)
	require.Equal(t, epoch+5, a.Earliest(l, epoch, epoch+5, 1, 0).At)
	require.Equal(t, epoch+90, a.Earliest(l, epoch, epoch+5, 1, 48).At, "when that at 50 counts no more")
	require.Equal(t, epoch+95, a.Earliest(l, epoch, epoch+95, 1, 48).At)
}

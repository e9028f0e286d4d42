package telemetry_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/telemetry"
)

// hooks is a set of two events.
type hooks struct {
	number  func(int)
	call    func(context.Context, string)
	dropped func(int64)
}

func dropped(h *hooks) func(int64) { return h.dropped }

func number(d *telemetry.Dispatcher[hooks], n int) {
	telemetry.Emit(d, n, func(h *hooks) func(int) { return h.number })
}

func TestWithoutHooksThereIsNoDispatcher(t *testing.T) {
	t.Parallel()
	d := telemetry.New(nil, dropped)
	require.Nil(t, d)
	require.False(t, d.Any(func(*hooks) bool { return true }))
	number(d, 1)
	telemetry.EmitCall(t.Context(), d, "x", func(h *hooks) func(context.Context, string) { return h.call })
	d.Close()
}

// Events of one set arrive in order and one at a time, and those that have no hook are left out.
func TestEventsArriveInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var emitting sync.Mutex
		emitting.Lock()
		var got []any // without a lock: hooks of a set need none
		one := &hooks{
			number: func(n int) {
				emitting.Lock()
				defer emitting.Unlock()
				time.Sleep(time.Millisecond)
				got = append(got, n)
			},
			call: func(ctx context.Context, s string) { got = append(got, s, ctx.Value(key{})) },
		}
		other := 0
		d := telemetry.New([]*hooks{one, {number: func(n int) { other += n }}}, dropped)
		require.True(t, d.Any(func(h *hooks) bool { return h.call != nil }))
		require.False(t, d.Any(func(h *hooks) bool { return h.dropped != nil }))
		for i := range 3 {
			number(d, i)
		}
		telemetry.EmitCall(context.WithValue(t.Context(), key{}, "v"), d, "x", func(h *hooks) func(context.Context, string) { return h.call })
		number(d, 3)
		emitting.Unlock() // no hook is called in the goroutine of the one who emits, or it would wait for ever
		synctest.Wait()
		require.Equal(t, 6, other, "who is fast does not wait for others")
		d.Close()
		require.Equal(t, []any{0, 1, 2, "x", "v", 3}, got)
		number(d, 4)
		d.Close()
		require.Equal(t, 4, got[6], "after it was idle, too")
	})
}

// Any number of goroutines may emit, and each one's events stay in order.
func TestManyEmitAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		last, n := make(map[int]int), 0
		d := telemetry.New([]*hooks{{number: func(i int) {
			require.Greater(t, i%100+1, last[i/100])
			last[i/100] = i%100 + 1
			n++
		}}}, dropped)
		var wg sync.WaitGroup
		for g := range 20 {
			wg.Go(func() {
				for i := range 100 {
					number(d, 100*g+i)
				}
			})
		}
		wg.Wait()
		d.Close()
		require.Equal(t, 2000, n)
	})
}

// Events beyond the bound are dropped, and the hook for it receives how many, once there is room and before later events.
func TestTooManyEventsAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var got []int64
		d := telemetry.New([]*hooks{{
			number:  func(n int) { <-hang; got = append(got, int64(n)) },
			dropped: func(n int64) { got = append(got, -n) },
		}}, dropped)
		number(d, 0)
		synctest.Wait() // it hangs in the hook, and is not in the queue any more
		for i := range telemetry.MaxQueued + 7 {
			number(d, 1+i)
		}
		close(hang)
		synctest.Wait()
		require.Len(t, got, 1+telemetry.MaxQueued+1)
		require.Equal(t, []int64{0, 1, -7, 2}, got[:4])
		require.Equal(t, int64(telemetry.MaxQueued), got[len(got)-1])
		number(d, 9)
		synctest.Wait()
		require.Equal(t, int64(9), got[len(got)-1], "they are counted once")
	})
}

// A set without the hook for it drops events, and forgets how many.
func TestDroppedEventsNeedNoHook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang, n := make(chan struct{}), 0
		d := telemetry.New([]*hooks{{number: func(int) { <-hang; n++ }}}, dropped)
		for i := range 2 * telemetry.MaxQueued {
			number(d, i)
		}
		close(hang)
		d.Close()
		require.InDelta(t, telemetry.MaxQueued, n, 1)
	})
}

// A hook that panics or ends its goroutine is called again, in order.
func TestAHookThatFailsIsCalledAgain(t *testing.T) { //nolint:paralleltest // it sets the default logger
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	synctest.Test(t, func(t *testing.T) {
		var got []int
		d := telemetry.New([]*hooks{{number: func(n int) {
			got = append(got, n)
			switch n {
			case 1:
				panic("ouch")
			case 2:
				runtime.Goexit()
			}
		}}}, dropped)
		for i := range 4 {
			number(d, i)
		}
		d.Close()
		require.Equal(t, []int{0, 1, 2, 3}, got)
	})
	require.Contains(t, log.String(), "pacer: a hook or a logger panicked")
	require.Contains(t, log.String(), "panic=ouch")
	require.Contains(t, log.String(), "telemetry_test.go")
}

// Close waits until events are delivered, but no longer than a second for all sets together.
func TestCloseWaitsButNotForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		slow := &hooks{number: func(int) { time.Sleep(300 * time.Millisecond); n++ }}
		d := telemetry.New([]*hooks{slow}, dropped)
		start := time.Now()
		number(d, 1)
		number(d, 2)
		d.Close()
		require.Equal(t, 600*time.Millisecond, time.Since(start))
		require.Equal(t, 2, n)

		hang := make(chan struct{})
		hung := &hooks{number: func(int) { <-hang }}
		d = telemetry.New([]*hooks{hung, slow, hung}, dropped)
		start = time.Now()
		number(d, 1)
		d.Close()
		require.Equal(t, telemetry.CloseTimeout, time.Since(start))
		synctest.Wait()
		require.Equal(t, 3, n, "others have been delivered")
		close(hang)
	})
}

package pacer_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/policies"
)

// waitingCalls are calls that wait: when each of them went, and its error.
type waitingCalls struct {
	mu   sync.Mutex
	all  sync.WaitGroup
	went []time.Duration
	errs []error
}

func (c *waitingCalls) wait(ctx context.Context, p *pacer.Pacer, n int, opts ...pacer.Option) {
	start := time.Now()
	c.went, c.errs = make([]time.Duration, n), make([]error, n)
	for i := range n {
		c.all.Go(func() {
			err := p.Wait(ctx, opts...)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.went[i], c.errs[i] = time.Since(start), err
		})
		synctest.Wait()
	}
}

// A call of a tenant with an empty queue does not wait behind the queues of others: it gets the first slot that is not held.
func TestANewcomerWaitsForSlotsAndNotForQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(5).Named("all"), policies.PerSecond(2).Per("tenant")))
		defer p.Close()
		var one, two, light waitingCalls
		one.wait(t.Context(), p, 60, pacer.Scope("tenant", "one"))
		two.wait(t.Context(), p, 60, pacer.Scope("tenant", "two"))
		time.Sleep(3 * time.Second)
		light.wait(t.Context(), p, 1, pacer.Scope("tenant", "light"))
		light.all.Wait()
		require.NoError(t, light.errs[0])
		require.LessOrEqual(t, light.went[0], time.Second, "30 s without the windows")
		one.all.Wait()
		two.all.Wait()
	})
}

// Calls that leave the queue leave nothing behind, however many they are.
func TestACancelledCrowdLeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{Policies: []policies.Policy{policies.PerSecond(10)}, MaxWait: pacer.Forever})
		defer p.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var c waitingCalls
		c.wait(ctx, p, 500)
		time.Sleep(950 * ms)
		cancel()
		c.all.Wait()
		went := 0
		for _, err := range c.errs {
			if err == nil {
				went++
			} else {
				require.ErrorIs(t, err, context.Canceled)
			}
		}
		require.Equal(t, 10, went)
		require.Zero(t, statusOf(t, p, "per-second").Backlog)
		begun := time.Now()
		require.NoError(t, p.Wait(t.Context()))
		require.LessOrEqual(t, time.Since(begun), 100*ms)
	})
}

// Some leave, from the end or shortly before they would go: the others take their slots and positions over, and no slot is lost.
func TestSomeLeaveTheQueue(t *testing.T) {
	t.Parallel()
	rate, permits := policies.PerSecond(10).Burst(1), policies.InFlight(8)
	for name, stack := range map[string][]policies.Policy{
		"rate": {rate}, "permits": {rate, permits}, "fair": {rate.Fair("key")}, "fair and permits": {rate.Fair("key"), permits},
		"window": {policies.Fixed(1, 100*ms)}, "pool": {policies.PerSecond(5).Per("key")}, "pool and permits": {policies.PerSecond(5).Burst(1).Per("key"), permits.Per("key")}, "two": {rate, policies.Hourly(1000, time.UTC)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(t, pacer.Config{Policies: stack, MaxWait: pacer.Forever})
				defer p.Close()
				acquire, at := p.Acquire, func(i int) time.Duration { return time.Duration(i) * 100 * ms }
				if strings.HasPrefix(name, "pool") {
					pool, err := p.Pool([]pacer.Credential{{ID: "1"}, {ID: "2"}}, "key")
					require.NoError(t, err)
					acquire, at = pool.Acquire, func(i int) time.Duration { return time.Duration(i/2) * 200 * ms }
				}
				var mu sync.Mutex
				var went []int
				var all sync.WaitGroup
				start := time.Now()
				leave := make([]context.CancelFunc, 30)
				for i := range leave {
					ctx, cancel := context.WithCancel(t.Context())
					leave[i] = cancel
					all.Go(func() {
						r, err := acquire(pacer.With(ctx, pacer.Scope("key", "1")))
						if err != nil {
							require.ErrorIs(t, err, context.Canceled)
							return
						}
						defer r.Release()
						mu.Lock()
						defer mu.Unlock()
						require.Equal(t, at(len(went)), time.Since(start).Round(ms))
						went = append(went, i)
					})
					synctest.Wait()
				}
				for i := range 5 {
					time.Sleep(time.Until(start.Add(time.Duration(i+1)*100*ms - 2*ms)))
					leave[2*i+1]() // whose slot is next
					leave[29-i]()
				}
				all.Wait()
				if !strings.HasPrefix(name, "pool") { // of which two go at a time
					if name != "permits" { // where the cancels change the order: some go before they would leave
						require.True(t, slices.IsSorted(went), went)
						require.Len(t, went, 20)
					}
					require.Subset(t, went, []int{0, 2, 4, 6, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24})
					require.Zero(t, statusOf(t, p, stack[0].Name()).Backlog)
				}
			})
		})
	}
}

// Close wakes all that wait, and nothing stays charged.
func TestCloseEmptiesTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		p := newPacer(t, pacer.Config{Store: store, Policies: []policies.Policy{policies.PerSecond(1)}, MaxWait: pacer.Forever})
		var c waitingCalls
		c.wait(t.Context(), p, 100)
		require.NoError(t, p.Close())
		c.all.Wait()
		for _, err := range c.errs[1:] {
			require.ErrorIs(t, err, pacer.ErrClosed)
		}
		p = newPacer(t, pacer.Config{Store: store, Policies: []policies.Policy{policies.PerSecond(1)}})
		defer p.Close()
		require.Zero(t, statusOf(t, p, "per-second").Backlog)
	})
}

// A call that would have to wait for longer than it may is refused at once; behind others, by an estimate that the error marks as one.
func TestTheQueueRefusesEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{Policies: []policies.Policy{policies.PerSecond(10)}, MaxWait: 20 * time.Second})
		defer p.Close()
		var c waitingCalls
		c.wait(t.Context(), p, 300)
		synctest.Wait()
		refused, last := 0, time.Duration(0)
		c.mu.Lock()
		for i, err := range c.errs {
			if err != nil {
				var limit *pacer.LimitError
				require.ErrorAs(t, err, &limit)
				require.Contains(t, limit.Error(), "is about ")
				require.Equal(t, "per-second", limit.Policy)
				require.ErrorContains(t, err, "about")
				require.Zero(t, c.went[i], "at once")
				refused++
			}
		}
		c.mu.Unlock()
		require.InDelta(t, 100, refused, 5, "200 fit into 20 s")

		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begun := time.Now()
		err := p.Wait(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, pacer.ErrNotYet)
		require.Equal(t, begun, time.Now())
		c.all.Wait()
		for _, d := range c.went {
			last = max(last, d)
		}
		require.LessOrEqual(t, last, 20*time.Second)
		require.GreaterOrEqual(t, last, 19*time.Second)
	})
}

// A call that comes while others wait stands behind them, even if it could be charged at once by the short way.
func TestNobodyJumpsTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.PerSecond(10)))
		defer p.Close()
		var c, late waitingCalls
		c.wait(t.Context(), p, 10)
		time.Sleep(500*ms + time.Microsecond)
		late.wait(t.Context(), p, 1)
		c.all.Wait()
		late.all.Wait()
		require.InDelta(t, 500*ms, late.went[0], float64(2*ms), "at 1 s, behind the tenth at 900 ms")
	})
}

// A call of a high cost, which has to wait long, does not hold up cheap ones behind it.
func TestADearCallHoldsUpNoCheapOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, limits(policies.Fixed(100, time.Minute)))
		defer p.Close()
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + time.Second)))
		require.NoError(t, p.Wait(t.Context(), pacer.Cost(50)))
		var dear, cheap waitingCalls
		dear.wait(t.Context(), p, 2, pacer.Cost(60))
		cheap.wait(t.Context(), p, 20)
		synctest.Wait()
		cheap.all.Wait()
		for i := range cheap.went {
			require.NoError(t, cheap.errs[i])
			require.Zero(t, cheap.went[i])
		}
		require.ErrorIs(t, p.Wait(t.Context(), pacer.Cost(60), pacer.MaxWait(time.Second)), pacer.ErrNotYet)
		require.NoError(t, p.Close())
		dear.all.Wait()
	})
}

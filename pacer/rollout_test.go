package pacer_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/faulty"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// registered is a store that keeps the descriptions of its processes.
type registered struct {
	*faulty.Store

	mu    sync.Mutex
	about map[string]store.About
}

func (r *registered) Describe(_ context.Context, _ string, about store.About) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.about[about.ID] = about
	if about.Left {
		delete(r.about, about.ID)
	}
	versions := make(map[string]bool)
	for _, one := range r.about {
		versions[store.VersionOf(one.Policies)] = true
	}
	return len(versions), nil
}

func (r *registered) Index(context.Context, string) (*store.Index, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := &store.Index{}
	for _, one := range r.about {
		x.Processes = append(x.Processes, store.IndexedProcess{About: one})
	}
	return x, nil
}

func (*registered) Upstreams(context.Context) ([]string, error) { return nil, errBroken }

// rolledOut runs a test in virtual time with a store that is shared and knows its processes.
func rolledOut(t *testing.T, do func(t *testing.T, open func(...policies.Policy) *pacer.Pacer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		backing := &registered{Store: faulty.New(), about: make(map[string]store.About)}
		backing.Suffer(faulty.Faults{Away: time.Millisecond})
		do(t, func(all ...policies.Policy) *pacer.Pacer {
			return opened(t, pacer.Config{Upstream: "api", Policies: all, Store: backing, Jitter: pacer.NoJitter})
		})
	})
}

// While fair shares are rolled out, each process that has none is one tenant of weight 1, whatever the weights of its calls.
func TestFairSharesAreRolledOut(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]policies.Policy{"rate": policies.PerSecond(50), "permits": policies.InFlight(5)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rolledOut(t, func(t *testing.T, open func(...policies.Policy) *pacer.Pacer) {
				t.Helper()
				policy := policy.Named("x")
				var callers sync.WaitGroup
				ctx, stop := context.WithCancel(t.Context())
				calls := func(ctx context.Context, p *pacer.Pacer, n int, opts ...pacer.Option) *atomic.Int64 {
					var went atomic.Int64
					for range n {
						callers.Go(func() {
							for {
								r, err := p.Acquire(ctx, append(opts, pacer.MaxWait(pacer.Forever))...)
								if ctx.Err() != nil {
									return
								}
								if err != nil {
									t.Error(err)
									return
								}
								went.Add(1)
								if name == "permits" {
									time.Sleep(100 * time.Millisecond)
								}
								r.Release()
							}
						})
					}
					return &went
				}
				// parts checks that everything is used within half a minute, and what the parts are, if they are known.
				parts := func(want []float64, went ...*atomic.Int64) {
					t.Helper()
					for _, n := range went {
						n.Store(0)
					}
					time.Sleep(30 * time.Second)
					sum := 0.0
					for i, n := range went {
						sum += float64(n.Load())
						if want != nil {
							assert.InEpsilon(t, want[i], float64(n.Load()), 0.05, "calls of %d", i)
						}
					}
					assert.InEpsilon(t, 1500, sum, 0.03)
				}
				one := calls(ctx, open(policy), 30)
				two := calls(ctx, open(policy), 10, pacer.Weight(3))
				time.Sleep(4 * time.Second)
				parts(nil, one, two)
				p := open(policy.Fair("tenant"))
				some, end := context.WithCancel(ctx)
				a, b := calls(some, p, 10, pacer.Scope("tenant", "a")), calls(some, p, 20, pacer.Scope("tenant", "b"), pacer.Weight(2))
				time.Sleep(5 * time.Second)
				parts([]float64{300, 300, 300, 600}, one, two, a, b)
				end()
				require.NoError(t, p.Close())
				time.Sleep(5 * time.Second)
				parts(nil, one, two)
				stop()
				callers.Wait()
			})
		})
	}
}

// A process without fair shares goes on booking and using a pool while others have them.
func TestWhatHasNoSharesGoesOnBesideThem(t *testing.T) {
	t.Parallel()
	rolledOut(t, func(t *testing.T, open func(...policies.Policy) *pacer.Pacer) {
		t.Helper()
		shared, each := policies.PerSecond(50).Named("x"), policies.PerSecond(20).Per("key")
		p := open(shared, each)
		pool, err := p.Pool([]pacer.Credential{{ID: "a"}, {ID: "b"}}, "key")
		require.NoError(t, err)
		fair := open(shared.Fair("tenant"), each)
		require.NoError(t, fair.Wait(t.Context(), pacer.Scope("tenant", "t"), pacer.Scope("key", "a")))
		time.Sleep(4 * time.Second)
		began := time.Now()
		for i := range 80 {
			r, err := pool.Acquire(t.Context())
			require.NoError(t, err, i)
			r.Release()
		}
		require.Less(t, time.Since(began), 2*time.Second)
		tok, wait, err := p.Book(t.Context(), pacer.Scope("key", "a"))
		require.NoError(t, err)
		time.Sleep(wait)
		_, err = p.Redeem(t.Context(), tok)
		require.NoError(t, err)
	})
}

package pacer_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// newsy is a remote store that notifies. Its decisions, answers and news each take a random time.
type newsy struct {
	*remote

	way func() time.Duration

	mu     sync.Mutex
	after  time.Time // news come in order
	news   time.Duration
	silent bool // all news are lost
	all    []func(store.News)
}

func (n *newsy) travel() { time.Sleep(n.way()) }

func (n *newsy) ReserveAll(ctx context.Context, batches []store.Batch) error {
	n.travel()
	defer n.travel()
	return n.remote.ReserveAll(ctx, batches)
}

func (n *newsy) Reserve(ctx context.Context, stack store.Stack, calls []store.Call, grants []store.Grant) error {
	return n.ReserveAll(ctx, []store.Batch{{Stack: stack, Calls: calls, Grants: grants}})
}

func (n *newsy) Cancel(ctx context.Context, stack store.Stack, grants []store.Grant) error {
	n.travel()
	defer n.travel()
	return n.remote.Cancel(ctx, stack, grants)
}

func (n *newsy) Report(ctx context.Context, stack store.Stack, notes []store.Note) (store.Instant, int, error) {
	n.travel()
	defer n.travel()
	return n.remote.Report(ctx, stack, notes)
}

// Listen implements [store.Notifier].
func (n *newsy) Listen(upstream string, receive func(store.News)) (stop func()) {
	n.mu.Lock()
	n.all = append(n.all, receive)
	n.mu.Unlock()
	return n.store.Listen(upstream, func(news store.News) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.silent && !news.Missed {
			return
		}
		if at := time.Now().Add(n.news); at.After(n.after) {
			n.after = at
		}
		d := time.Until(n.after)
		n.after = n.after.Add(1)
		time.AfterFunc(d, func() { receive(news) })
	})
}

// listen has news be lost from now on, or reports that some were.
func (n *newsy) listen(silent bool) {
	n.mu.Lock()
	was, all := n.silent, n.all
	n.silent = silent
	n.mu.Unlock()
	if was && !silent {
		for _, receive := range all {
			go receive(store.News{Missed: true})
		}
	}
}

// No call waits for a pause that is over, whatever happens during a request, and whichever of answers and news come first.
func TestNoCallWaitsForWhatIsOver(t *testing.T) {
	t.Parallel()
	const d, away, far = 10 * time.Millisecond, 5 * time.Minute, 500 * time.Millisecond
	tenant := pacer.Scope("tenant", "a")
	must := func(t *testing.T, err error) { t.Helper(); require.NoError(t, err) }
	stacks := map[string][]policies.Policy{
		"rate":     {policies.PerSecond(10).Burst(1).Per("tenant").Named("one")},
		"window":   {policies.Fixed(5, time.Second).Per("tenant").Named("one")},
		"calendar": {policies.Hourly(1000, time.UTC), policies.PerSecond(10).Burst(1).Per("tenant").Named("one")},
		"permits":  {policies.InFlight(2).Per("tenant").Named("one")},
		"both":     {policies.InFlight(2), policies.PerSecond(10).Burst(1).Per("tenant").Named("one")},
		"fair":     {policies.PerSecond(10).Burst(1).Fair("tenant").Named("fair"), policies.PerSecond(100).Per("tenant").Named("one")},
		"lane":     {policies.PerSecond(10).Burst(2).Lane("bulk", 50).Named("lane"), policies.PerSecond(100).Per("tenant").Named("one")},
		"pool":     {policies.PerSecond(5).Burst(1).Per("credential"), policies.PerSecond(100).Per("tenant").Named("one")},
	}
	begin := map[string]func(context.Context, *pacer.Pacer, []policies.Policy) error{
		"pause": func(ctx context.Context, a *pacer.Pacer, _ []policies.Policy) error {
			return a.Report(ctx, policies.Feedback{Wait: away}, tenant)
		},
		"pause of one": func(ctx context.Context, a *pacer.Pacer, _ []policies.Policy) error {
			return a.Report(ctx, policies.Feedback{Wait: away, Policies: []string{"one"}}, tenant)
		},
		"limit": func(ctx context.Context, a *pacer.Pacer, list []policies.Policy) error {
			with := policies.Every(away)
			switch one := list[len(list)-1]; one.Spec().Algorithm {
			case specs.Window:
				with = policies.Fixed(1, away)
			case specs.Concurrency:
				with = policies.InFlight(1)
			case specs.GCRA, specs.Allowance:
			}
			return fleet.Of(a).SetLimit(ctx, "one", with, 0, tenant)
		},
		"policies": func(_ context.Context, a *pacer.Pacer, list []policies.Policy) error {
			return a.Declare(append([]policies.Policy{policies.Every(away).Named("more")}, list...)...)
		},
	}
	end := map[string]func(context.Context, *pacer.Pacer, []policies.Policy) error{
		"pause": func(ctx context.Context, a *pacer.Pacer, _ []policies.Policy) error {
			return fleet.Of(a).Resume(ctx, tenant)
		},
		"pause of one": func(ctx context.Context, a *pacer.Pacer, _ []policies.Policy) error {
			return fleet.Of(a).Reset(ctx, tenant)
		},
		"limit": func(ctx context.Context, a *pacer.Pacer, _ []policies.Policy) error {
			return fleet.Of(a).UnsetLimit(ctx, "one", tenant)
		},
		"policies": func(_ context.Context, a *pacer.Pacer, list []policies.Policy) error { return a.Declare(list...) },
	}
	var slow []string
	seed := uint64(0)
	for _, stack := range slices.Sorted(maps.Keys(stacks)) {
		list := stacks[stack]
		for _, event := range slices.Sorted(maps.Keys(begin)) {
			for _, news := range []string{"memory", "at once", "late", "lost", "broken"} {
				for _, gap := range []time.Duration{0, d / 2, d, 2 * d, far} {
					for _, other := range []bool{false, true} {
						if other && event == "policies" {
							continue
						}
						if seed++; seed%extent(uint64(7), 1) != 0 {
							continue
						}
						name := fmt.Sprint(stack, "/", event, "/", news, "/", gap, "/", other, "/", seed)
						synctest.Test(t, func(t *testing.T) {
							random := rand.New(rand.NewPCG(seed, 1))
							var mu sync.Mutex
							n := &newsy{remote: newRemote(2), way: func() time.Duration {
								mu.Lock()
								defer mu.Unlock()
								return time.Duration(random.IntN(5)) * d / 2
							}}
							config := pacer.Config{Upstream: "api", Store: n, Policies: list, Jitter: pacer.NoJitter, MaxPause: 2 * away, MaxWait: pacer.Forever}
							switch news {
							case "memory":
								config.Store = memstore.New()
							case "late":
								n.news = 3 * d
							}
							a, b := opened(t, config), opened(t, config)
							who := a
							if other {
								who = b
							}
							must(t, b.Do(t.Context(), func(context.Context) (policies.Reading, error) { return policies.Reading{}, nil }, tenant, pacer.Scope("credential", "x")))
							var pool *pacer.Pool
							if stack == "pool" {
								var err error
								pool, err = a.Pool([]pacer.Credential{{ID: "x"}, {ID: "y"}}, "credential")
								must(t, err)
							}
							var all sync.WaitGroup
							call := func() {
								all.Go(func() {
									work := func(context.Context) (policies.Reading, error) { time.Sleep(3 * d); return policies.Reading{}, nil }
									if pool != nil {
										_, err := pacer.Do(t.Context(), pool, func(ctx context.Context, _ *pacer.Reservation) (struct{}, policies.Reading, error) {
											reading, err := work(ctx)
											return struct{}{}, reading, err
										}, tenant)
										assert.NoError(t, err)
										return
									}
									assert.NoError(t, a.Do(t.Context(), work, tenant))
								})
							}
							for range 4 { // one sleeps, and the others are queued
								call()
							}
							time.Sleep(25 * d)
							for range 4 { // these are reserving just now
								call()
								time.Sleep(d / 2)
							}
							n.listen(news == "lost" || news == "broken")
							for range 2 {
								all.Go(func() { n.travel(); call() })
							}
							must(t, begin[event](t.Context(), who, list))
							time.Sleep(gap)
							must(t, end[event](t.Context(), who, list))
							ended := time.Now()
							time.Sleep(d)
							n.listen(news == "lost")
							all.Wait()
							most := 2500 * time.Millisecond
							if news == "lost" {
								most += 4 * time.Second
							}
							if took := time.Since(ended); took > most {
								slow = append(slow, fmt.Sprint(name, ": ", took))
							}
						})
					}
				}
			}
		}
	}
	require.Empty(t, slow)
}

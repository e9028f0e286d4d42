package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/measure"
)

// A crew is goroutines that make calls until they are stopped.
type crew struct {
	stop context.CancelFunc
	all  *sync.WaitGroup
}

// start lets goroutines of every process do something repeatedly.
func (r *run) start(do func(*member, *rand.Rand)) crew {
	ctx, cancel := context.WithCancel(context.Background())
	c := crew{cancel, &sync.WaitGroup{}}
	for i, m := range r.fleet {
		for j := range callers * int(r.scale) {
			rng := rand.New(rand.NewPCG(r.seed, uint64(1+i*callers*int(r.scale)+j)))
			c.all.Go(func() {
				for ctx.Err() == nil {
					do(m, rng)
				}
			})
		}
	}
	return c
}

// end stops a crew. All operations have deadlines: one that hangs is a finding, and the end of the test.
func (r *run) end(c crew) {
	c.stop()
	done := make(chan struct{})
	go func() {
		c.all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
		all := make([]byte, 1<<20)
		r.t.Fatalf("%s, HEADWAY_SEED=%d: an operation hangs:\n%s\n%s", r.site.name, r.seed, strings.Join(r.describe(), "\n"), all[:runtime.Stack(all, true)])
	}
}

// check reports whether an error is one that calls may have.
func (r *run) check(what string, err error) {
	limited, ok := errors.AsType[*pacer.LimitError](err)
	switch {
	case err == nil:
	case ok && limited.Reason != pacer.TooCostly:
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
	default:
		r.complainf("%s: %v", what, err)
	}
}

// over notes how a call ended.
func (r *run) over(what string, err error, c gone) {
	r.check(what, err)
	r.mu.Lock()
	if err == nil {
		r.went = append(r.went, c)
		r.latest = max(r.latest, c.late)
	} else {
		r.unsure = append(r.unsure, span{c.began, time.Now(), c.cost})
	}
	r.mu.Unlock()
	// A refused caller that tries again at once would do nothing else.
	if limited, ok := errors.AsType[*pacer.LimitError](err); ok {
		lasts(min(30*ms, 5*ms+limited.Wait/4))
	}
}

// last lets all processes go as fast as they can, far from faults. Calls go again. A measurement returns what part of the tightest rate
// went, in the best of the slices of a few seconds: at least 95 %.
func (r *run) last() (best float64) {
	first := r.gone()
	c := r.start(func(m *member, rng *rand.Rand) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		tenant := 1 + rng.IntN(tenants)
		a := attempt{r, m, rng, nil, gone{by: m, began: time.Now(), cost: 1, tenant: tenant}}
		r.ops.wait.Add(1)
		v, err := m.pacer.Acquire(ctx, pacer.Scope("tenant", fmt.Sprintf("t%d", tenant)))
		r.over("Acquire", err, a.by(v))
	})
	defer r.end(c)
	if !await(func() bool { return r.gone() > first }) {
		r.complainf("no call went for %v after the faults", patience)
	}
	if !measure.On {
		return 0
	}
	const slice = 1500 * time.Millisecond
	timers := measure.Watch()
	for i := 0; i < 4 && best < enough; i++ {
		before := r.gone()
		lasts(slice)
		best = max(best, float64(r.gone()-before)/(r.rate*slice.Seconds()))
	}
	measure.Judge(r.t, timers.Stop(), skew, fmt.Sprintf("the last phase reached %.1f %% of %.1f/s", 100*best, r.rate), best >= enough)
	return best
}

// enough is the part of the tightest rate that a fleet on a good machine reaches after faults.
const enough = 0.95

// gone returns how many calls went so far.
func (r *run) gone() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.went)
}

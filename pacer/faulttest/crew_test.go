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
	"github.com/headway-go/headway/pacer/internal/measure"
)

// A crew is goroutines that make calls until they are stopped.
type crew struct {
	stop context.CancelFunc
	all  *sync.WaitGroup
}

// start lets goroutines of every process do something again and again.
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

// A slow operation was over so long after its deadline.
type slow struct {
	what     string
	deadline time.Time
	beyond   time.Duration
}

// wakings is how many goroutines and timers an operation has to wait for, one after the other. Each may be as late as the timers.
const wakings = 8

// hung finds operations that were not over in time. Timers of a busy machine are allowed for. The goroutine that looks at them may wake
// after the operation that they held up, so this is for the end of a run. An operation that is never over is found by end.
func (r *run) hung() (broken []string) {
	for _, s := range r.slow {
		late := r.lateness.during(s.deadline.Add(-longest), s.deadline.Add(s.beyond))
		text := fmt.Sprintf("%s took %v beyond its deadline at %s; timers were late by %v", s.what, s.beyond, s.deadline.Format("05.000"), late)
		if s.beyond > overtime+wakings*late {
			broken = append(broken, text)
			continue
		}
		r.t.Logf("not judged: %s", text)
	}
	return broken
}

// took notes when an operation was over.
func (r *run) took(what string, deadline time.Time) {
	beyond := time.Since(deadline)
	r.mu.Lock()
	defer r.mu.Unlock()
	if beyond > r.slowest || r.slowWhat == "" {
		r.slowest, r.slowWhat = beyond, what
	}
	if beyond > overtime {
		r.slow = append(r.slow, slow{what, deadline, beyond})
	}
}

// check reports whether an error is one that calls may have.
func (r *run) check(what string, err error) {
	limited, ok := errors.AsType[*pacer.LimitError](err)
	switch {
	case err == nil:
	case ok && !limited.Never:
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
	default:
		r.complainf("%s: %v", what, err)
	}
}

// over notes how a call ended.
func (r *run) over(what string, err error, c gone, deadline time.Time) {
	r.took(what, deadline)
	r.check(what, err)
	r.mu.Lock()
	if err == nil {
		r.went = append(r.went, c)
		r.latest = max(r.latest, c.late)
	} else {
		r.unsure = append(r.unsure, span{c.began, time.Now(), c.cost})
	}
	r.mu.Unlock()
	// A refused caller that asks again at once would do nothing but ask.
	if limited, ok := errors.AsType[*pacer.LimitError](err); ok {
		time.Sleep(min(30*time.Millisecond, 5*time.Millisecond+limited.Wait/4))
	}
}

// last lets all processes go as fast as they can, far from faults, and returns what part of the tightest rate went, in the
// best of the slices of a few seconds. That calls go again is the truth on any machine. That at least 95 % do is a measurement.
func (r *run) last() float64 {
	const slice, most = 1500 * time.Millisecond, 4
	begin, first := time.Now(), r.gone()
	c := r.start(func(m *member, rng *rand.Rand) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		deadline, _ := ctx.Deadline()
		tenant := 1 + rng.IntN(tenants)
		a := attempt{r, m, rng, nil, gone{by: m, began: time.Now(), cost: 1, tenant: tenant}, deadline}
		r.ops.wait.Add(1)
		v, err := m.pacer.Acquire(ctx, pacer.Scope("tenant", fmt.Sprintf("t%d", tenant)))
		r.over("Acquire", err, a.by(v), deadline)
	})
	defer r.end(c)
	best := 0.0
	for i := 0; i < most && best < enough; i++ {
		from, before := time.Now(), r.gone()
		time.Sleep(slice)
		best = max(best, float64(r.gone()-before)/(r.rate*time.Since(from).Seconds()))
	}
	for r.gone() == first && time.Since(begin) < patience {
		time.Sleep(slice)
	}
	if r.gone() == first {
		r.complainf("no call went for %v after the faults", patience)
	}
	late := r.lateness.during(begin, time.Now())
	switch {
	case best >= enough || !measure.On:
	case late > skew:
		r.t.Logf("not judged: the last phase reached %.1f %% of %.1f/s, and timers were late by up to %v", 100*best, r.rate, late)
	default:
		r.complainf("the last phase reached %.1f %% of %.1f/s", 100*best, r.rate)
	}
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

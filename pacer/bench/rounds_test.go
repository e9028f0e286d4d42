package bench_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/measure"
)

// A contender is one way to be let through.
type contender struct {
	name   string
	limits int
	// decide makes one decision, for which the caller need not wait. No two decisions have the same i, which chooses among
	// keys.
	decide func(ctx context.Context, i int) error
	// scope is what the context carries, if anything.
	scope func(ctx context.Context) context.Context

	made int // so many decisions
}

// measured is what one decision took in one round, on average.
type measured struct {
	nanos    float64 // of the clock, for all goroutines together
	allocs   float64
	cpu      float64 // µs of the Redis process
	scripts  float64 // µs that Redis spent inside scripts
	requests float64 // sent to Redis, without those that a Pacer sends in the background
}

// quantity picks one of the figures.
type quantity func(measured) float64

func nanos(m measured) float64    { return m.nanos }
func allocs(m measured) float64   { return m.allocs }
func cpu(m measured) float64      { return m.cpu }
func scripts(m measured) float64  { return m.scripts }
func requests(m measured) float64 { return m.requests }

// A course measures contenders in rounds. In each, every contender has its turn, in an order that rotates. So a disturbance of the machine
// affects all, and ratios are taken within a round.
type course struct {
	rounds     int
	goroutines int
	turn       time.Duration // how long a turn takes, about; it has the same number of decisions in every round
	decisions  int           // in a turn, if turn is 0
	backend    *backend      // nil without Redis
}

// smoke returns the course with next to no decisions, unless measurements have their full length.
func (c course) smoke(full bool) course {
	if !full {
		c.rounds, c.turn, c.decisions = 2, 0, 2*c.goroutines
	}
	return c
}

// results are what contenders took in each round.
type results struct {
	contenders []contender
	rounds     [][]measured    // by round and contender
	late       []time.Duration // by round: the latest of some timers, while nobody had a turn
}

func (c course) run(t *testing.T, contenders []contender) *results {
	t.Helper()
	n := make([]int, len(contenders))
	for i := range contenders {
		n[i] = c.calibrate(t, &contenders[i])
	}
	r := &results{contenders: contenders}
	for round := range c.rounds {
		runtime.GC() // once, since it takes a while where there are many keys
		r.late = append(r.late, idle())
		all := make([]measured, len(contenders))
		for turn := range contenders {
			i := (round + turn) % len(contenders)
			all[i] = c.measure(t, &contenders[i], n[i])
		}
		r.rounds = append(r.rounds, all)
	}
	return r
}

// idle returns by how much the latest of a few timers is late while this process does nothing else.
func idle() time.Duration {
	timers := measure.Watch()
	time.Sleep(15 * time.Millisecond)
	return timers.Stop().Max
}

// latest returns by how much the latest timer was late in the median round.
func (r *results) latest() time.Duration {
	var all []float64
	for _, late := range r.late {
		all = append(all, float64(late))
	}
	return time.Duration(median(all))
}

// calibrate warms a contender up and returns how many decisions fill its turn.
func (c course) calibrate(t *testing.T, one *contender) int {
	t.Helper()
	if c.turn == 0 {
		c.play(t, one, c.decisions)
		return c.decisions
	}
	for n := c.goroutines; ; n *= 2 {
		if took := c.play(t, one, n); took > c.turn/8 {
			return max(c.goroutines, int(float64(n)*float64(c.turn)/float64(took)))
		}
	}
}

// measure gives a contender one turn of n decisions.
func (c course) measure(t *testing.T, one *contender, n int) measured {
	t.Helper()
	n = max(1, n/c.goroutines) * c.goroutines
	var m measured
	var before, after runtime.MemStats
	var redisBefore, redisAfter usage
	if c.backend != nil {
		redisBefore = c.backend.usage(t)
	}
	runtime.ReadMemStats(&before)
	took := c.play(t, one, n)
	runtime.ReadMemStats(&after)
	m.nanos = float64(took.Nanoseconds()) / float64(n)
	m.allocs = float64(after.Mallocs-before.Mallocs) / float64(n)
	if c.backend != nil {
		redisAfter = c.backend.usage(t)
		m.cpu = (redisAfter.cpu - redisBefore.cpu) / float64(n)
		m.scripts = (redisAfter.scripts - redisBefore.scripts) / float64(n)
		m.requests = float64(redisAfter.requests-redisBefore.requests) / float64(n)
	}
	return m
}

// play makes n decisions in as many goroutines as the course has, and returns how long that took.
func (c course) play(t *testing.T, one *contender, n int) time.Duration {
	t.Helper()
	ctx := t.Context()
	if one.scope != nil {
		ctx = one.scope(ctx)
	}
	made := one.made
	one.made += n
	if c.goroutines == 1 {
		start := time.Now()
		for i := range n {
			if err := one.decide(ctx, made+i); err != nil {
				require.NoError(t, err, one.name)
			}
		}
		return time.Since(start)
	}
	each := max(1, n/c.goroutines)
	errs := make([]error, c.goroutines)
	begin := make(chan struct{})
	var ready, done sync.WaitGroup
	ready.Add(c.goroutines)
	for g := range c.goroutines {
		done.Go(func() {
			ready.Done()
			<-begin
			for i := range each {
				if err := one.decide(ctx, made+g*each+i); err != nil {
					errs[g] = err
					return
				}
			}
		})
	}
	ready.Wait()
	start := time.Now()
	close(begin)
	done.Wait()
	took := time.Since(start)
	for _, err := range errs {
		require.NoError(t, err, one.name)
	}
	return took
}

// at returns the index of a contender.
func (r *results) at(name string, limits int) int {
	i := slices.IndexFunc(r.contenders, func(c contender) bool { return c.name == name && c.limits == limits })
	if i < 0 {
		panic(fmt.Sprintf("no contender %s with %d limits", name, limits))
	}
	return i
}

// median returns the median over the rounds.
func (r *results) median(i int, q quantity) float64 {
	var all []float64
	for _, round := range r.rounds {
		all = append(all, q(round[i]))
	}
	return median(all)
}

// ratio returns the median over the rounds of what i took, divided by what j took in the same round.
func (r *results) ratio(i, j int, q quantity) float64 {
	var all []float64
	for _, round := range r.rounds {
		all = append(all, q(round[i])/q(round[j]))
	}
	return median(all)
}

// more returns the median over the rounds of what i took more than j in the same round.
func (r *results) more(i, j int, q quantity) float64 {
	var all []float64
	for _, round := range r.rounds {
		all = append(all, q(round[i])-q(round[j]))
	}
	return median(all)
}

func median(all []float64) float64 { return quantile(all, 0.5) }

// quantile returns the q-quantile of some figures, between the two nearest of them.
func quantile(all []float64, q float64) float64 {
	sorted := slices.SortedFunc(slices.Values(all), cmp.Compare[float64])
	at := q * float64(len(sorted)-1)
	low := sorted[int(math.Floor(at))]
	return low + (sorted[int(math.Ceil(at))]-low)*(at-math.Floor(at))
}

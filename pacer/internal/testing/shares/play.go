package shares

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// waiting is how many calls of a flow that takes all wait in each process.
const waiting = 15

// A Show is what came of a mix.
type Show struct {
	*Mix

	mu    sync.Mutex
	began time.Time
	fleet []*pacer.Pacer
	got   [][]float64 // by interval and flow
	went  [][]went    // by flow
	tb    testing.TB
}

// A went is a call that went.
type went struct {
	at, waited time.Duration
	cost       int64
}

// Play has the flows call through some pacers, which share a store. One call in ten of a flow that takes all gives up before long.
func (m *Mix) Play(tb testing.TB, fleet []*pacer.Pacer) *Show {
	tb.Helper()
	s := &Show{Mix: m, tb: tb, began: time.Now(), fleet: fleet, got: m.intervals(), went: make([][]went, len(m.Flows))}
	ctx, cancel := canceled(tb.Context(), m.lasts)
	defer cancel()
	var all sync.WaitGroup
	for i, f := range m.Flows {
		if f.greedy {
			for k := range waiting * len(fleet) {
				r := rand.New(rand.NewPCG(m.seed, uint64(1000*i+k)))
				all.Go(func() { s.greedy(ctx, i, k, r, &all) })
			}
			continue
		}
		all.Go(func() {
			r := rand.New(rand.NewPCG(m.seed, uint64(1000*i))) //nolint:gosec // not negative
			for k, c := range f.open {
				if s.until(ctx, c.at) != nil {
					return
				}
				estimate := f.estimate(r, c.cost)
				all.Go(func() { _ = s.call(ctx, i, k, c.cost, estimate, c.takes, &all) })
			}
		})
	}
	all.Wait()
	return s
}

// greedy is a caller of a flow that takes all that it gets.
func (s *Show) greedy(ctx context.Context, i, k int, r *rand.Rand, all *sync.WaitGroup) {
	f := s.Flows[i]
	for _, comes := range f.comes {
		if s.until(ctx, comes[0]) != nil {
			return
		}
		while, cancel := canceled(ctx, time.Until(s.began.Add(comes[1])))
		for while.Err() == nil {
			cost, takes := f.cost(r), f.lasts(r)
			patience, stop := while, context.CancelFunc(func() {})
			if r.IntN(10) == 0 {
				patience, stop = canceled(while, time.Duration(1+r.Int64N(int64(s.interval)/20)))
			}
			_ = s.call(patience, i, k, cost, f.estimate(r, cost), takes, all)
			stop()
		}
		cancel()
	}
}

// canceled returns a context that is canceled after a while. It has no deadline, because calls would know it.
func canceled(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(after, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

func (s *Show) until(ctx context.Context, at time.Duration) error {
	select {
	case <-time.After(time.Until(s.began.Add(at))):
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// call makes one call. It returns when that goes.
func (s *Show) call(ctx context.Context, i, k int, cost, estimate int64, takes time.Duration, all *sync.WaitGroup) error {
	came := time.Since(s.began)
	opts := []pacer.Option{pacer.Lane(partyName(s.Flows[i].party))}
	if s.Kind != Permits {
		opts = append(opts, pacer.EstimateOf(shared, estimate, policies.Learned{}))
	}
	r, err := s.fleet[k%len(s.fleet)].Acquire(ctx, opts...)
	if err != nil {
		if ctx.Err() == nil {
			s.tb.Fatalf("%s %d: flow %d: %v", s.Kind, s.seed, i, err)
		}
		return err
	}
	at := time.Since(s.began)
	s.note(i, at, at-came, cost, takes)
	all.Go(func() {
		time.Sleep(takes)
		if estimate != cost {
			_ = r.Settle(context.WithoutCancel(ctx), policies.Cost{Policy: shared, N: cost})
		}
		r.Release()
	})
	return nil
}

// note notes a call that goes.
func (s *Show) note(i int, at, waited time.Duration, cost int64, takes time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.went[i] = append(s.went[i], went{at, waited, cost})
	if s.Kind != Permits {
		if k := int(at / s.interval); k < len(s.got) {
			s.got[k][i] += float64(cost)
		}
		return
	}
	for end := at + takes; at < end && int(at/s.interval) < len(s.got); {
		k := int(at / s.interval)
		until := min(end, at-at%s.interval+s.interval)
		s.got[k][i] += (until - at).Seconds()
		at = until
	}
}

// A Figure is how far what flows got is from what they should have got.
type Figure struct {
	Used  float64         // of what the oracle would use
	Short []float64       // of each interval in which the limit binds: the most that a flow lacks, as a part of all
	Floor []float64       // of each interval and each party that takes all that it gets: what it lacks of its floor, but for one call
	Late  []time.Duration // of each flow with a floor that returns: by how much it was behind its floor, or when it had it first
}

// Judge compares what flows got with the oracle.
func (s *Show) Judge() (f Figure) {
	sum := func(all []float64) (n float64) {
		for _, x := range all {
			n += x
		}
		return n
	}
	whole := s.perSecond * s.interval.Seconds()
	used := 0.0
	for k, due := range s.due(s.gave()) {
		got, want := sum(s.got[k]), sum(due)
		used += got
		if s.changes(k) {
			continue
		}
		for i, one := range s.Flows { // a flow that always takes all has its floor
			if floor := s.floors[one.party] * whole; one.party > 0 && one.greedy && one.comes[0] == [2]time.Duration{0, s.lasts} {
				f.Floor = append(f.Floor, max(0, floor-s.got[k][i]-maxCost)/floor)
			}
		}
		if !s.isShort(k) {
			continue
		}
		lacks := make([]float64, len(s.floors))
		for i, one := range s.Flows {
			lacks[one.party] += due[i] - s.got[k][i]
		}
		f.Short = append(f.Short, slices.Max(lacks)/want)
	}
	f.Used = used / (whole * float64(len(s.got)))
	f.Late = s.late()
	return f
}

// gave returns what all flows got in each second.
func (s *Show) gave() []float64 {
	all := make([]float64, s.lasts/time.Second)
	for _, of := range s.went {
		for _, c := range of {
			if k := int(c.at / time.Second); k < len(all) {
				all[k] += float64(c.cost)
			}
		}
	}
	return all
}

// isShort reports whether a flow takes all that it gets throughout an interval, so that the limit binds.
func (s *Show) isShort(k int) bool {
	from, to := time.Duration(k)*s.interval, time.Duration(k+1)*s.interval
	return slices.ContainsFunc(s.Flows, func(f *Flow) bool {
		return f.greedy && slices.ContainsFunc(f.comes, func(c [2]time.Duration) bool { return c[0] <= from && to <= c[1] })
	})
}

// changes reports whether flows come or go in a window: only a prophet would know.
func (s *Show) changes(k int) bool {
	if s.Kind == Rate || s.Kind == Exact || s.Kind == Permits {
		return false
	}
	from, to := time.Duration(k)*s.interval, time.Duration(k+1)*s.interval
	if s.Kind == Sliding {
		from -= s.interval
	}
	return slices.ContainsFunc(s.Flows, func(f *Flow) bool {
		return f.greedy && slices.ContainsFunc(f.comes, func(c [2]time.Duration) bool {
			return from < c[0] && c[0] < to || from < c[1] && c[1] < to && c[1] < s.lasts
		})
	})
}

// late returns how late flows with floors had these when they came back.
func (s *Show) late() (all []time.Duration) {
	for i, f := range s.Flows {
		if f.party == 0 || !f.greedy {
			continue
		}
		floor := s.floors[f.party] * s.perSecond
		for _, comes := range f.comes {
			if comes[0] == 0 {
				continue
			}
			all = append(all, s.behind(i, comes, floor))
		}
	}
	return all
}

// behind returns by how much a flow is behind its part at worst in the first ten seconds after it came back, but for one call: of a rate,
// in time at the pace of its floor; of permits, until it has them; 0 for a window.
func (s *Show) behind(i int, comes [2]time.Duration, floor float64) time.Duration {
	until := min(comes[1], comes[0]+10*time.Second)
	gave, got, worst, n := s.gave(), float64(maxCost), time.Duration(0), 0
	due, at := 0.0, comes[0]
	for _, c := range append(slices.Clone(s.went[i]), went{at: until}) {
		if c.at < comes[0] || c.at > until {
			continue
		}
		if s.Kind == Permits {
			if n++; n == max(1, int(floor+1e-9)) {
				return c.at - comes[0]
			}
			continue
		}
		for at < c.at { // its part of what all get
			next := min(c.at, at.Truncate(time.Second)+time.Second)
			due += (next - at).Seconds() * min(1, gave[min(len(gave)-1, int(at/time.Second))]/s.perSecond)
			at = next
		}
		worst = max(worst, time.Duration((due-got/floor)*float64(time.Second)))
		got += float64(c.cost)
	}
	if s.Kind != Rate && s.Kind != Exact {
		return 0
	}
	return worst
}

// Add adds the figures of another mix.
func (f *Figure) Add(of Figure) {
	f.Used = max(f.Used, of.Used)
	f.Short, f.Floor, f.Late = append(f.Short, of.Short...), append(f.Floor, of.Floor...), append(f.Late, of.Late...)
}

// Quantile returns a quantile of some figures; 0 if there are none.
func Quantile(all []float64, q float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// String returns the figures for a log.
func (f *Figure) String() string {
	late := time.Duration(0)
	if len(f.Late) > 0 {
		late = slices.Max(f.Late)
	}
	of := func(all []float64) string {
		return fmt.Sprintf("%.1f, %.1f and %.1f %%", 100*Quantile(all, 0.5), 100*Quantile(all, 0.95), 100*Quantile(all, 1))
	}
	return fmt.Sprintf("misallocated in half, 19 of 20 and all of %d intervals: %s; short of the floor, of %d: %s; %d returns, at most %v late",
		len(f.Short), of(f.Short), len(f.Floor), of(f.Floor), len(f.Late), late)
}

package redisstore_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/pacer"
)

// gate is an upstream that judges by GCRA whether calls come too early.
type gate struct {
	every     time.Duration
	tolerance time.Duration

	mu    sync.Mutex
	next  time.Time              // when the next call is expected
	early int                    // calls that came before they may
	ahead time.Duration          // by how much a call came before it was expected, at most
	came  map[string][]time.Time // by tenant
}

// newGate returns one of so many calls a second. It allows for the fleet's skew.
func newGate(perSecond, burst int) *gate {
	every := time.Second / time.Duration(perSecond)
	return &gate{every: every, tolerance: time.Duration(burst-1)*every + skew, came: make(map[string][]time.Time)}
}

func (u *gate) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now, tenant := time.Now(), r.FormValue("tenant")
	u.came[tenant] = append(u.came[tenant], now)
	ahead := u.next.Sub(now)
	u.ahead = max(u.ahead, ahead)
	switch {
	case ahead > u.tolerance:
		u.early++
	case ahead > 0:
		u.next = u.next.Add(u.every)
	default:
		u.next = now.Add(u.every)
	}
}

// count returns how many calls of a tenant came between two instants; of all for "".
func (u *gate) count(tenant string, from, to time.Time) (n int) {
	for of, came := range u.came {
		for _, at := range came {
			if (tenant == "" || of == tenant) && !at.Before(from) && at.Before(to) {
				n++
			}
		}
	}
	return n
}

// rate returns how many calls a second came between two instants.
func (u *gate) rate(from, to time.Time) float64 {
	return float64(u.count("", from, to)) / to.Sub(from).Seconds()
}

// bySecond returns how many calls came in each second from an instant on.
func (u *gate) bySecond(from time.Time, d time.Duration) (ns []int) {
	for end := from.Add(d); from.Before(end); from = from.Add(time.Second) {
		ns = append(ns, u.count("", from, from.Add(time.Second)))
	}
	return ns
}

// endsAt returns a context that ends at an instant and does not say so before, so that no call is refused because it
// could not go until then.
func endsAt(ctx context.Context, at time.Time) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	timer := time.AfterFunc(time.Until(at), cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

// again calls one after the other until the context ends.
func again(ctx context.Context, p *pacer.Pacer, upstream *caller, sum *ledger, opts ...pacer.Option) error {
	for ctx.Err() == nil {
		start := time.Now()
		err := p.Wait(ctx, opts...)
		if err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // that was it
			}
			return err
		}
		waited := time.Since(start)
		status, err := upstream.call()
		if err != nil {
			return err
		}
		sum.note(waited, status)
	}
	return nil
}

// quiet is for how long the batch is alone.
const quiet = 6 * time.Second

// lanes has one crew call in a lane. When it is no longer quiet, another one calls beside it, without a lane, at
// random times: as often a second, on average, as it has goroutines.
func lanes(ctx context.Context, p *pacer.Pacer, j *job) (map[string]*tally, error) {
	time.Sleep(time.Until(j.Begin))
	end := j.Begin.Add(j.Duration)
	ctx, cancel := endsAt(ctx, end)
	defer cancel()
	var g errgroup.Group
	batch, inter := &ledger{}, &ledger{}
	upstream := newCaller(j).with("tenant", "batch")
	for range j.Crews[0].Goroutines {
		g.Go(func() error { return again(ctx, p, upstream, batch, pacer.Lane("batch"), pacer.MaxWait(pacer.Forever)) })
	}
	g.Go(func() error {
		upstream := newCaller(j).with("tenant", "interactive")
		mean := float64(time.Second) / float64(j.Crews[1].Goroutines)
		for due := j.Begin.Add(quiet); due.Before(end.Add(-time.Second)); due = due.Add(time.Duration(mean * rand.ExpFloat64())) {
			time.Sleep(time.Until(due))
			g.Go(func() error {
				start := time.Now()
				if err := p.Wait(ctx); err != nil {
					return err
				}
				waited := time.Since(start)
				status, err := upstream.call()
				inter.note(waited, status)
				return err
			})
		}
		return nil
	})
	return map[string]*tally{"batch": &batch.tally, "interactive": &inter.tally}, g.Wait()
}

// 10,000 calls of a batch stand in line for 100 a second, of which their lane has 80. While nobody else calls they
// get at least 95 of them. Interactive calls at random times, 10 a second, wait for at most 50 ms at the median and
// 250 ms at p99, and still at least 95 are used. The shared rate is never broken.
func TestFleetWithADeepLane(t *testing.T) { //nolint:paralleltest // it measures
	atBest(t, func() (string, bool) {
		upstream := newGate(100, 10)
		j := job{Fleet: "lanes", Errand: "lanes", Duration: 22 * time.Second, Begin: time.Now().Add(time.Second)}
		sum := play(t, upstream, j, func(process int) []crew {
			return []crew{{Tenant: "batch", Goroutines: 2500}, {Tenant: "interactive", Goroutines: 2 + process%2}}
		})
		at := func(d time.Duration) time.Time { return j.Begin.Add(d) }
		alone, both := upstream.rate(at(2*time.Second), at(quiet)), upstream.rate(at(quiet), at(j.Duration-time.Second))
		t.Logf("calls by second: %v", upstream.bySecond(j.Begin, j.Duration))
		waits := sum["interactive"].Waits
		slow := p99(waits) // which sorts them
		return fmt.Sprintf("alone: %.2f/s of 100/s; with %d interactive calls: %.2f/s, their waits p50 %v, p99 %v, max %v; "+
				"%d calls came too early, at most %v before expected", alone, len(waits), both, waits[len(waits)/2], slow, waits[len(waits)-1], upstream.early, upstream.ahead),
			upstream.early == 0 && alone >= 95 && both >= 95 && waits[len(waits)/2] <= 50*time.Millisecond && slow <= 250*time.Millisecond
	})
}

// weights are those of the tenants that share a rate.
var weights = map[string]int64{"one": 1, "three": 3, "guest": 1}

// visit is for how long the guest stays, and stays away.
const visit = 3 * time.Second

// here returns for how long the guest is there between two instants, given as times since the begin.
func here(from, to time.Duration) (sum time.Duration) {
	for begin := visit; begin < to; begin += 2 * visit {
		sum += max(0, min(to, begin+visit)-max(from, begin))
	}
	return sum
}

// shares has crews call as fast as they may: those of the guest when it is there.
func shares(ctx context.Context, p *pacer.Pacer, j *job) (map[string]*tally, error) {
	time.Sleep(time.Until(j.Begin))
	ctx, cancel := endsAt(ctx, j.Begin.Add(j.Duration))
	defer cancel()
	tallies := make(map[string]*tally)
	var g errgroup.Group
	for _, c := range j.Crews {
		sum, upstream := &ledger{}, newCaller(j).with("tenant", c.Tenant)
		tallies[c.Tenant] = &sum.tally
		call := func(ctx context.Context) error {
			return again(ctx, p, upstream, sum, pacer.Scope("tenant", c.Tenant), pacer.Weight(weights[c.Tenant]))
		}
		for range c.Goroutines {
			g.Go(func() error {
				if c.Tenant != "guest" {
					return call(ctx)
				}
				for begin := visit; begin < j.Duration; begin += 2 * visit {
					time.Sleep(time.Until(j.Begin.Add(begin)))
					ctx, leave := endsAt(ctx, j.Begin.Add(min(j.Duration, begin+visit)))
					err := call(ctx)
					leave()
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	return tallies, g.Wait()
}

// Tenants of weight 1 and 3 compete for 100 a second, and a third one, of weight 1, comes for 3 s and goes for 3 s.
// Over any ten seconds each gets its part by weight, within 5 %; at least 98 % is used, and the rate is never broken.
func TestFleetSharesFairly(t *testing.T) { //nolint:paralleltest // it measures
	const window = 10 * time.Second
	atBest(t, func() (string, bool) {
		upstream := newGate(100, 5)
		j := job{Fleet: "shares", Errand: "shares", Duration: 14 * time.Second, Begin: time.Now().Add(time.Second)}
		play(t, upstream, j, func(int) []crew {
			return []crew{{Tenant: "one", Goroutines: 16}, {Tenant: "three", Goroutines: 16}, {Tenant: "guest", Goroutines: 16}}
		})
		used := upstream.rate(j.Begin.Add(time.Second), j.Begin.Add(j.Duration))
		worst, figures := 0.0, ""
		for from := time.Second; from+window <= j.Duration; from += visit / 6 {
			there := here(from, from+window).Seconds()
			for _, tenant := range []string{"one", "three", "guest"} {
				weight := float64(weights[tenant])
				fair := used * weight / 5 * there
				if tenant != "guest" {
					fair += used * weight / 4 * (window.Seconds() - there)
				}
				n := upstream.count(tenant, j.Begin.Add(from), j.Begin.Add(from+window))
				if off := math.Abs(float64(n)-fair) / fair; off >= worst {
					worst, figures = off, fmt.Sprintf("%s %d for %.1f from %v on", tenant, n, fair, from)
				}
			}
		}
		return fmt.Sprintf("%.2f/s of 100/s; the worst share is off by %.2f %% (%s); %d calls came too early, at most %v before expected",
			used, 100*worst, figures, upstream.early, upstream.ahead), upstream.early == 0 && used >= 98 && worst <= 0.05
	})
}

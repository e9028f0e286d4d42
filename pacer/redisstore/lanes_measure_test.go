//go:build measure

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

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/measure"
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

// endsAt returns a context that ends at an instant without a deadline, so that no call is refused because it could not go until then.
func endsAt(ctx context.Context, at time.Time) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	timer := time.AfterFunc(time.Until(at), cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

// again calls one after the other until the context ends.
func again(ctx context.Context, p *pacer.Pacer, j *job, upstream *caller, sum *ledger, opts ...pacer.Option) error {
	for ctx.Err() == nil {
		if err := once(ctx, p, j, upstream, sum, opts...); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // that was it
			}
			return err
		}
	}
	return nil
}

// once makes one call.
func once(ctx context.Context, p *pacer.Pacer, j *job, upstream *caller, sum *ledger, opts ...pacer.Option) error {
	start := time.Now()
	_, o, err := j.store.acquire(ctx, p, opts...)
	if err != nil {
		return err
	}
	waited := time.Since(start)
	status, err := upstream.call()
	if err != nil {
		return err
	}
	o.Tenant, o.Status = upstream.values.Get("tenant"), status
	sum.note(waited, status, &o)
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
		g.Go(func() error {
			return again(ctx, p, j, upstream, batch, pacer.Lane("batch"), pacer.MaxWait(pacer.Forever))
		})
	}
	g.Go(func() error {
		upstream := newCaller(j).with("tenant", "interactive")
		mean := float64(time.Second) / float64(j.Crews[1].Goroutines)
		for due := j.Begin.Add(quiet); due.Before(end.Add(-time.Second)); due = due.Add(time.Duration(mean * rand.ExpFloat64())) {
			time.Sleep(time.Until(due))
			inter.offer()
			g.Go(func() error { return once(context.WithoutCancel(ctx), p, j, upstream, inter) })
		}
		return nil
	})
	return map[string]*tally{"batch": &batch.tally, "interactive": &inter.tally}, g.Wait()
}

// hundredASecond is the rule of a rate of 100 a second, by definition.
func hundredASecond(burst int64) rule {
	return rule{name: fmt.Sprintf("100 a second and %d at once", burst), kind: evenly, n: 100, period: time.Second, burst: burst}
}

// 10,000 calls of a batch queue for 100 a second, of which their lane has 80, and interactive calls come at random times, 10 a second. The
// rate is never broken, and all interactive calls go although the queue is longer than the run.
//
// Measured: without other calls, the batch gets at least 95 a second. Interactive calls wait for at most 50 ms at the median and 250 ms at
// p99, and still at least 95 are used.
func TestFleetWithADeepLane(t *testing.T) {
	upstream := newGate(100, 10)
	j := job{
		Fleet: "lanes", Task: "lanes", Duration: 22 * time.Second, Begin: time.Now().Add(time.Second),
	}
	const batch = 2500
	p := play(t, upstream, j, func(process int) []crew {
		return []crew{{Tenant: "batch", Goroutines: batch}, {Tenant: "interactive", Goroutines: 2 + process%2}}
	})
	requireTruth(t, p, hundredASecond(10))
	require.Zero(t, p.look(fleets["lanes"][0]).Queued, "queued calls when all is over")
	inter := p.sum["interactive"]
	require.Equal(t, inter.Offered, inter.Went, "interactive calls that went")
	require.Positive(t, inter.Went)
	at := func(d time.Duration) time.Time { return j.Begin.Add(d) }
	alone, both := upstream.rate(at(quiet/3), at(quiet)), upstream.rate(at(quiet), at(j.Duration-time.Second))
	t.Logf("calls by second: %v", upstream.bySecond(j.Begin, j.Duration))
	waits := inter.Waits
	slow := p99(waits) // which sorts them
	measure.Judge(t, p.late, tolerated, fmt.Sprintf("alone: %.2f/s of 100/s; with %d interactive calls: %.2f/s, their waits p50 %v, p99 %v, max %v; "+
		"%d calls came too early, at most %v before expected", alone, len(waits), both, waits[len(waits)/2], slow, waits[len(waits)-1], upstream.early, upstream.ahead),
		upstream.early == 0 && alone >= 95 && both >= 95 && waits[len(waits)/2] <= 50*time.Millisecond && slow <= 250*time.Millisecond)
}

// weights are those of the tenants that share a rate.
var weights = map[string]int64{"one": 1, "three": 3, "guest": 1}

// visit is for how long the guest stays, and stays away.
const visit = 3 * time.Second

// here returns how long the guest is there between two instants, given as times since the start.
func here(from, to time.Duration) (sum time.Duration) {
	for begin := visit; begin < to; begin += 2 * visit {
		sum += max(0, min(to, begin+visit)-max(from, begin))
	}
	return sum
}

// shares makes crews call as fast as they may: the guest's when it is there.
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
			return again(ctx, p, j, upstream, sum, pacer.Scope("tenant", c.Tenant), pacer.Weight(weights[c.Tenant]))
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

// Tenants of weight 1 and 3 compete for 100 a second, and a third one, of weight 1, comes and goes, for 3 s each time. The rate
// is never broken, and who weighs more gets more.
//
// Measured: over any ten seconds each gets its part by weight, within 5 %, and at least 98 % is used.
func TestFleetSharesFairly(t *testing.T) {
	upstream := newGate(100, 5)
	j := job{
		Fleet: "shares", Task: "shares", Duration: 14 * time.Second, Begin: time.Now().Add(time.Second),
	}
	p := play(t, upstream, j, crewed(crew{Tenant: "one", Goroutines: 16}, crew{Tenant: "three", Goroutines: 16}, crew{Tenant: "guest", Goroutines: 16}))
	requireTruth(t, p, hundredASecond(5))
	require.Greater(t, p.sum["three"].Went, p.sum["one"].Went)
	require.Positive(t, p.sum["one"].Went)
	require.Positive(t, p.sum["guest"].Went)
	used := upstream.rate(j.Begin.Add(time.Second), j.Begin.Add(j.Duration))
	worst, figures := upstream.unfair(&j, used)
	measure.Judge(t, p.late, tolerated, fmt.Sprintf("%.2f/s of 100/s; the worst share is off by %.2f %% (%s); %d calls came too early, at most %v before expected",
		used, 100*worst, figures, upstream.early, upstream.ahead), upstream.early == 0 && used >= 98 && worst <= 0.05)
}

// unfair returns by which part a tenant got more or less than its due over ten seconds, at worst.
func (u *gate) unfair(j *job, used float64) (worst float64, figures string) {
	const window = 10 * time.Second
	for from := time.Second; from+window <= j.Duration; from += visit / 6 {
		there := here(from, from+window).Seconds()
		for _, tenant := range []string{"one", "three", "guest"} {
			weight := float64(weights[tenant])
			fair := used * weight / 5 * there
			if tenant != "guest" {
				fair += used * weight / 4 * (window.Seconds() - there)
			}
			n := u.count(tenant, j.Begin.Add(from), j.Begin.Add(from+window))
			if off := math.Abs(float64(n)-fair) / fair; off >= worst {
				worst, figures = off, fmt.Sprintf("%s %d for %.1f from %v on", tenant, n, fair, from)
			}
		}
	}
	return worst, figures
}

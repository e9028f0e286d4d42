//go:build measure

package redisstore_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/transport/upstreamtest"
)

// permits is how many calls may run at once in these tests.
const permits = 25

// briefLease is the lease of the permits whose processes are killed. It is longer than any call.
const briefLease = 3 * time.Second

// tasks are what the processes of a fleet do if a job names one of them. Each returns its observations, by tenant.
var tasks = map[string]func(context.Context, *pacer.Pacer, *job) (map[string]*tally, error){
	"hold":   hold,
	"pass":   pass,
	"lanes":  lanes,
	"shares": shares,
}

// caller calls the upstream of a job.
type caller struct {
	client *http.Client
	url    string
	values url.Values
}

// with returns a caller whose calls have one more scope.
func (c *caller) with(name, value string) *caller {
	more := maps.Clone(c.values)
	more.Set(name, value)
	return &caller{client: c.client, url: c.url, values: more}
}

// call returns the upstream's status.
func (c *caller) call() (int, error) {
	resp, err := c.client.Get(c.url + "?" + c.values.Encode())
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, nil
}

// hold sends calls as fast as they may go, and records when each is over.
func hold(ctx context.Context, p *pacer.Pacer, j *job) (map[string]*tally, error) {
	time.Sleep(time.Until(j.Begin))
	upstream, sum := newCaller(j), &ledger{}
	var g errgroup.Group
	for range j.Crews[0].Goroutines {
		g.Go(func() error {
			for ctx.Err() == nil {
				start := time.Now()
				r, o, err := j.store.acquire(ctx, p)
				if err != nil {
					if ctx.Err() != nil || pacerRefused(err) {
						return nil //nolint:nilerr // the run is over
					}
					return err
				}
				waited := time.Since(start)
				status, err := upstream.call()
				r.Release()
				if err != nil {
					return err
				}
				sum.note(waited, status, &o)
			}
			return nil
		})
	}
	return map[string]*tally{j.Crews[0].Tenant: &sum.tally}, g.Wait()
}

// crowd is an upstream that refuses a call while too many run. Each runs for a random time. It learns that a caller
// is gone when the connection breaks.
type crowd struct {
	most              int
	shortest, longest time.Duration
	deaf              string  // it runs the calls of this process to their ends, whether it is gone or not
	rates             *strict // what else it enforces; nil for nothing

	mu      sync.Mutex
	running int
	came    []time.Time
	no      int
	levels  []level
}

// A level is how many calls ran from an instant on.
type level struct {
	at      time.Time
	running int
}

func (u *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	took, ok := u.enter()
	if !ok {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	defer u.leave()
	if u.rates != nil {
		u.rates.ServeHTTP(w, r)
	}
	gone := r.Context().Done()
	if u.deaf != "" && r.FormValue("process") == u.deaf {
		gone = nil
	}
	timer := time.NewTimer(took)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-gone:
	}
}

func (u *crowd) enter() (took time.Duration, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.running >= u.most {
		u.no++
		return 0, false
	}
	u.came = append(u.came, time.Now())
	u.change(1)
	return u.shortest + rand.N(u.longest-u.shortest), true
}

func (u *crowd) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.change(-1)
}

func (u *crowd) change(by int) {
	u.running += by
	u.levels = append(u.levels, level{time.Now(), u.running})
}

// times lets calls that come from now on run for a random time between these.
func (u *crowd) times(shortest, longest time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.shortest, u.longest = shortest, longest
}

// arrived returns how many calls have come.
func (u *crowd) arrived() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.came)
}

// busy returns which part of the permits was taken between two instants, on average over time.
func (u *crowd) busy(from, to time.Time) float64 {
	sum := 0.0
	for i, l := range u.levels {
		end := to
		if i+1 < len(u.levels) && u.levels[i+1].at.Before(to) {
			end = u.levels[i+1].at
		}
		if l.at.Before(from) {
			l.at = from
		}
		if end.After(l.at) {
			sum += float64(l.running) * end.Sub(l.at).Seconds()
		}
	}
	return sum / to.Sub(from).Seconds() / float64(u.most)
}

// full returns how long after an instant all permits were taken for the first time.
func (u *crowd) full(from time.Time) time.Duration {
	for _, l := range u.levels {
		if l.running == u.most && l.at.After(from) {
			return l.at.Sub(from)
		}
	}
	return time.Hour
}

// requireFree fails the test if the store knows of a running or waiting call.
func (p *played) requireFree(t *testing.T) {
	t.Helper()
	status := p.look(fleets[p.job.Fleet][0])
	require.EqualValues(t, permits, status.Remaining, "permits that are free when all is over")
	require.Zero(t, status.Queued, "queued calls when all is over")
}

// 4 processes × 32 goroutines against an upstream that refuses the 26th call at once: never a refusal, since no timer decides
// about a permit, and all permits are free in the end. Measured: calls of 10 ms to 2 s, and at least 97 % of the permits are taken,
// on average over time.
func TestFleetKeepsItsPermitsBusy(t *testing.T) {
	upstream := &crowd{most: permits, shortest: 10 * time.Millisecond, longest: 2 * time.Second}
	j := job{Fleet: "permits", Task: "hold", Duration: 13 * time.Second}
	p := play(t, upstream, j, crewed(crew{Tenant: "x", Goroutines: 32}))
	require.Zero(t, upstream.no, "refusals")
	requireTruth(t, p)
	p.requireFree(t)
	start := upstream.came[0]
	busy := upstream.busy(start.Add(j.Duration/6), start.Add(j.Duration-time.Second))
	measure.Judge(t, p.late, tolerated, fmt.Sprintf("%d calls, %.2f %% of the permits busy, longest wait %v", len(upstream.came), 100*busy, slices.Max(p.sum["x"].Waits)), busy >= 0.97)
}

// The same, and two of the four processes are killed. The upstream sees at once that the calls of one are gone, and
// runs those of the other to their ends. Never a refusal, all permits are taken again when the leases have run out, and none is
// lost or counted twice. Measured: that takes a second.
func TestFleetWhoseProcessesAreKilledInFlight(t *testing.T) {
	const margin = time.Second
	upstream := &crowd{most: permits, shortest: 10 * time.Millisecond, longest: 2 * time.Second, deaf: "1"}
	var killed time.Time
	j := job{Fleet: "leases", Task: "hold", Duration: 2 * patience, Doomed: 2, Reported: true, meanwhile: func(s *scene) {
		time.Sleep(5 * time.Second)
		killed = time.Now()
		for _, p := range s.processes[:2] {
			_ = p.Process.Kill()
		}
		time.Sleep(9 * time.Second)
	}}
	p := play(t, upstream, j, crewed(crew{Tenant: "x", Goroutines: 32}))
	require.Zero(t, upstream.no, "refusals")
	require.Empty(t, early(p.calls()))
	p.requireFree(t)
	end := upstream.came[0].Add(13 * time.Second)
	before := upstream.busy(upstream.came[0].Add(2*time.Second), killed)
	meanwhile := upstream.busy(killed, killed.Add(briefLease+margin))
	after := upstream.busy(killed.Add(briefLease+margin), end)
	var seconds []string
	for at := killed; at.Before(end); at = at.Add(time.Second) {
		seconds = append(seconds, fmt.Sprintf("%.0f", 100*upstream.busy(at, at.Add(time.Second))))
	}
	measure.Judge(t, p.late, tolerated, fmt.Sprintf("busy %.2f %% before, %.2f %% until %v after, then %.2f %%; per second since %v; all permits taken after %v",
		100*before, 100*meanwhile, briefLease+margin, 100*after, seconds, upstream.full(killed.Add(100*time.Millisecond))), before >= 0.97 && after >= 0.97)
}

// 25 at once, 50 a second and 1,000 a minute in one stack, most of which another job has spent. All three hold, and the minute is used up.
//
// Measured: each of them is used up when it is its turn. First the permits: calls of 0.75 s could be 33.3 a second. A permit is given up to
// 40 ms before its slot, so at least 750 of 790 ms are used, which is 94.9 %. Then the second: calls of 0.2 s could be 125, and one in 20.5
// ms is 97.6 % of 50 a second. In the end the minute.
func TestFleetStacksPermitsOnRates(t *testing.T) {
	slow, spent := 150, 500
	rates := newStrict(upstreamtest.Sliding(1000, time.Minute), upstreamtest.Sliding(50, time.Second))
	upstream := &crowd{most: permits, shortest: 500 * time.Millisecond, longest: time.Second, rates: rates}
	j := job{
		Fleet: "stacked", Task: "hold", Duration: 15 * time.Second,
	}
	j.before = func(s *scene) { spend(t, s, rates, spent) }
	j.meanwhile = func(*scene) {
		for begin := time.Now(); upstream.arrived() < slow && time.Since(begin) < j.Duration; {
			time.Sleep(10 * time.Millisecond)
		}
		upstream.times(100*time.Millisecond, 300*time.Millisecond)
	}
	p := play(t, upstream, j, crewed(crew{Tenant: "x", Goroutines: 32}))
	require.Zero(t, upstream.no, "refusals: no timer decides about a permit, so no machine is too busy for it")
	left := int64(1000 - spent)
	requireTruth(t, p, fiftyASecond, rule{name: "what the minute has left", kind: anyWindow, n: left, period: time.Minute})
	p.requireFree(t)
	n := len(upstream.came)
	busy := upstream.busy(upstream.came[0].Add(time.Second), upstream.came[min(slow, n)-1])
	// Long calls are over a second later.
	from, _ := slices.BinarySearchFunc(upstream.came, upstream.came[min(slow, n)-1].Add(time.Second), time.Time.Compare)
	rate := float64(n-1-from) / upstream.came[n-1].Sub(upstream.came[min(from, n-1)]).Seconds()
	measure.Judge(t, p.late, tolerated, fmt.Sprintf("%d calls of %d that the minute has left; first %.2f %% of the permits busy, then %.2f/s of 50/s; %d times 429 for a rate",
		n, left, 100*busy, rate, rates.Refused()), rates.Refused() == 0 && busy >= 0.94 && rate >= 0.95*50 && n >= int(left)*99/100)
}

// spend makes another job's call, which only the minute counts, and as many for the upstream.
func spend(t *testing.T, s *scene, rates *strict, n int) {
	t.Helper()
	store, err := redisstore.New(s.server.Client())
	require.NoError(t, err)
	p, err := pacer.New(pacer.Config{Upstream: s.job.upstream(), Store: store, Policies: s.job.policies(), StoreTimeout: patience})
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.Wait(t.Context(), pacer.CostOf("minute", int64(n)), pacer.CostOf("second", 0), pacer.CostOf("permits", 0), pacer.MaxWait(0)))
	both := rates.Limits
	rates.SetLimits(both[0])
	for range n {
		require.True(t, rates.Spend(nil))
	}
	rates.SetLimits(both...)
}

// pass takes turns with another process to have the only permit, and reports to the upstream when it had it.
func pass(ctx context.Context, p *pacer.Pacer, j *job) (map[string]*tally, error) {
	if len(j.Crews) == 0 {
		return nil, nil //nolint:nilnil // it is not one of the two
	}
	upstream := newCaller(j)
	for ctx.Err() == nil {
		r, err := p.Acquire(ctx)
		if err != nil {
			if ctx.Err() != nil || pacerRefused(err) {
				return nil, nil //nolint:nilerr,nilnil // the run is over, and the upstream knows everything
			}
			return nil, err
		}
		from := time.Now()
		time.Sleep(20 * time.Millisecond) // the call: the other one comes to wait meanwhile
		to := time.Now()
		r.Release()
		turn := upstream.with("from", strconv.FormatInt(from.UnixNano(), 10)).with("to", strconv.FormatInt(to.UnixNano(), 10))
		if _, err := turn.call(); err != nil {
			return nil, err
		}
	}
	return nil, nil //nolint:nilnil // the upstream knows everything
}

// baton is an upstream that records which process had the only permit, and when.
type baton struct {
	mu    sync.Mutex
	turns []turn
}

type turn struct {
	process  string
	from, to int64
}

func (u *baton) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := turn{process: r.FormValue("process")}
	one.from, _ = strconv.ParseInt(r.FormValue("from"), 10, 64)
	one.to, _ = strconv.ParseInt(r.FormValue("to"), 10, 64)
	u.turns = append(u.turns, one)
}

// Two processes and one permit: never two have it, and each gets it from the other. Measured: the time from Release in one of
// them until Acquire returns in the other.
func TestFleetPassesAPlaceOn(t *testing.T) {
	upstream := &baton{}
	j := job{Fleet: "one", Task: "pass", Duration: 4 * time.Second}
	p := play(t, upstream, j, func(process int) []crew { return make([]crew, map[bool]int{true: 1}[process < 2]) })
	slices.SortFunc(upstream.turns, func(a, b turn) int { return int(a.from - b.from) })
	var passes []time.Duration
	for i := 1; i < len(upstream.turns); i++ {
		last, next := upstream.turns[i-1], upstream.turns[i]
		require.GreaterOrEqual(t, next.from, last.to, "two have the only permit")
		if last.process != next.process {
			passes = append(passes, time.Duration(next.from-last.to))
		}
	}
	require.NotEmpty(t, passes)
	require.EqualValues(t, 1, p.look(fleets["one"][0]).Remaining, "permits that are free when all is over")
	slow := p99(passes) // which sorts them
	measure.Judge(t, p.late, tolerated, fmt.Sprintf("%d times: p50 %v, p99 %v", len(passes), passes[len(passes)/2], slow), len(passes) >= 50 && passes[len(passes)/2] <= 20*time.Millisecond)
}

package redisstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

// The fleet tests run this test binary again, as processes of a fleet, against an upstream that shares no
// code with the engine.

const workerEnv = "HEADWAY_TEST_WORKER"

func TestMain(m *testing.M) {
	if job := os.Getenv(workerEnv); job != "" {
		if err := work(job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// skew is what the fleet allows for: a timer that is late, and a request that is fast.
const skew = 25 * time.Millisecond

// fleets are the policies of each scenario. Processes find them by name.
var fleets = map[string][]policies.Policy{
	"sliding": {policies.AtMost(50, time.Second).Skew(skew)},
	"tenants": {policies.AtMost(100, time.Second).Skew(skew), policies.AtMost(10, time.Second).Skew(skew).Per("tenant")},
	"window":  {policies.Fixed(300, 10*time.Second).Skew(2 * skew), policies.AtMost(60, time.Second).Skew(skew)},
	"pauses":  {policies.PerSecond(20).Per("tenant")},
	"halved":  {policies.AtMost(50, time.Second).Skew(skew).Adaptive(policies.Adaptation{})},
	"killed":  {policies.PerSecond(100)},
	"quota":   {policies.Sliding(5000, 24*time.Hour).Named("daily"), policies.AtMost(300, time.Second)},
	"places":  {policies.InFlight(25)},
	"leases":  {policies.InFlight(25).Lease(briefLease)},
	"stacked": {
		policies.InFlight(25).Named("places"),
		policies.AtMost(50, time.Second).Skew(skew).Named("second"),
		policies.Sliding(1000, time.Minute).Named("minute"),
	},
	"one":    {policies.InFlight(1)},
	"lanes":  {policies.PerSecond(100).Burst(10).Lane("batch", 80)},
	"shares": {policies.PerSecond(100).Burst(5).Fair("tenant")},
}

// crew is some goroutines of a process that call for one tenant.
type crew struct {
	Tenant     string
	Goroutines int
	Every      time.Duration // each goroutine offers one call so often; 0: as fast as it may
}

type job struct {
	Fleet    string
	Redis    string
	URL      string
	Duration time.Duration
	Crews    []crew
	Process  int
	HTTP     bool      // call through the transport, in place of Wait
	Errand   string    // what the processes do, by its name in errands; "": they pace their crews
	Begin    time.Time // when the errand begins, for all processes
	Doomed   int       // how many processes are killed on the way

	meanwhile func(*redistest.Server, []*exec.Cmd) // what happens while they run
}

// tally is what one crew of one process saw.
type tally struct {
	Offered, Went, Refused int
	Waits                  []time.Duration
}

func work(spec string) error {
	var j job
	if err := json.Unmarshal([]byte(spec), &j); err != nil {
		return err
	}
	// Every second process has a client that is punctual: see Store.Punctual.
	rdb := redis.NewClient(&redis.Options{Addr: j.Redis, ContextTimeoutEnabled: j.Process%2 == 0})
	defer rdb.Close()
	store, err := redisstore.New(rdb)
	if err != nil {
		return err
	}
	p, err := pacer.New(pacer.Config{Upstream: "fleet", Store: store, Policies: fleets[j.Fleet]})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.Duration)
	defer cancel()
	defer p.Close()
	if do := errands[j.Errand]; do != nil {
		tallies, err := do(ctx, p, &j)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(tallies)
	}
	base := &http.Transport{MaxIdleConnsPerHost: 100}
	client := &http.Client{Transport: base}
	wait := func(ctx context.Context, tenant string) error { return p.Wait(ctx, pacer.Scope("tenant", tenant)) }
	if j.HTTP {
		rt, err := transport.New(p, transport.WithBase(base), transport.WithProfile(quotas))
		if err != nil {
			return err
		}
		client.Transport = rt
		wait = func(context.Context, string) error { return nil }
	}
	var mu sync.Mutex
	tallies := make(map[string]*tally)
	var g errgroup.Group
	for _, c := range j.Crews {
		sum := &tally{}
		tallies[c.Tenant] = sum
		for i := range c.Goroutines {
			g.Go(func() error {
				if c.Every > 0 {
					time.Sleep(c.Every * time.Duration(i) / time.Duration(c.Goroutines))
				}
				for due := time.Now(); ctx.Err() == nil; due = due.Add(c.Every) {
					if c.Every > 0 {
						time.Sleep(time.Until(due))
					}
					start := time.Now()
					if left, _ := ctx.Deadline(); c.Every > 0 && left.Sub(start) < time.Second {
						return nil // what is offered now has no time to wait
					}
					mu.Lock()
					sum.Offered++
					mu.Unlock()
					switch err := wait(ctx, c.Tenant); {
					case ctx.Err() != nil || pacerRefused(err):
						return nil //nolint:nilerr // the run is over
					case err != nil:
						return err
					}
					waited := time.Since(start)
					req, err := http.NewRequest(http.MethodGet, j.URL+"?tenant="+c.Tenant+"&process="+strconv.Itoa(j.Process), nil)
					if err != nil {
						return err
					}
					if j.HTTP {
						req = req.WithContext(ctx)
					}
					resp, err := client.Do(req)
					switch {
					case j.HTTP && (ctx.Err() != nil || errors.Is(err, pacer.ErrNotYet)):
						return nil //nolint:nilerr // the run or the quota is over
					case err != nil:
						return err
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					mu.Lock()
					sum.Waits = append(sum.Waits, waited)
					if resp.StatusCode == http.StatusOK {
						sum.Went++
					} else {
						sum.Refused++
					}
					mu.Unlock()
				}
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(tallies)
}

// pacerRefused: at the end of a run no slot is left before the deadline.
func pacerRefused(err error) bool {
	le, ok := errors.AsType[*pacer.LimitError](err)
	return ok && le.Deadline
}

// strict is an upstream that enforces limits by itself: at most n calls in any window of a length, or in each
// window of the clock.
type strict struct {
	mu     sync.Mutex
	limits []strictLimit
	went   []time.Time
	no     int
}

type strictLimit struct {
	n         int
	period    time.Duration
	fixed     bool // windows of the clock
	perTenant bool
	seen      map[string][]time.Time
}

func (s *strict) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for i := range s.limits {
		l := &s.limits[i]
		if l.seen == nil {
			l.seen = make(map[string][]time.Time)
		}
		key := ""
		if l.perTenant {
			key = r.FormValue("tenant")
		}
		old := func(t time.Time) bool {
			if l.fixed {
				return t.UnixNano()/int64(l.period) != now.UnixNano()/int64(l.period)
			}
			return now.Sub(t) >= l.period
		}
		l.seen[key] = slices.DeleteFunc(l.seen[key], old)
		if len(l.seen[key]) >= l.n {
			s.no++
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
	}
	for i := range s.limits {
		l := &s.limits[i]
		key := ""
		if l.perTenant {
			key = r.FormValue("tenant")
		}
		l.seen[key] = append(l.seen[key], now)
	}
	s.went = append(s.went, now)
}

// run starts processes of a fleet and returns what they saw, by tenant.
func run(t *testing.T, upstream http.Handler, fleet string, d time.Duration, crews func(process int) []crew) map[string]tally {
	t.Helper()
	return play(t, upstream, job{Fleet: fleet, Duration: d}, crews)
}

func play(t *testing.T, upstream http.Handler, j job, crews func(process int) []crew) map[string]tally {
	t.Helper()
	server := httptest.NewServer(upstream)
	defer server.Close()
	redisServer := redistest.Start(t)
	sum := make(map[string]tally)
	var mu sync.Mutex
	var g errgroup.Group
	var processes []*exec.Cmd
	for i := range 4 {
		j.Redis, j.URL, j.Process, j.Crews = redisServer.Addr, server.URL, i, crews(i)
		spec, err := json.Marshal(j)
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), workerEnv+"="+string(spec))
		cmd.Stderr = os.Stderr
		var out bytes.Buffer
		cmd.Stdout = &out
		require.NoError(t, cmd.Start())
		processes = append(processes, cmd)
		g.Go(func() error {
			switch err := cmd.Wait(); {
			case err != nil && i < j.Doomed:
				return nil
			case err != nil:
				return err
			}
			var part map[string]tally
			if err := json.Unmarshal(out.Bytes(), &part); err != nil {
				return fmt.Errorf("%w: %.200s", err, out.Bytes())
			}
			mu.Lock()
			defer mu.Unlock()
			for tenant, p := range part {
				all := sum[tenant]
				all.Offered += p.Offered
				all.Went += p.Went
				all.Refused += p.Refused
				all.Waits = append(all.Waits, p.Waits...)
				sum[tenant] = all
			}
			return nil
		})
	}
	if j.meanwhile != nil {
		j.meanwhile(redisServer, processes)
	}
	require.NoError(t, g.Wait())
	return sum
}

// atBest runs a measurement up to three times and passes if one is good: a machine that is busy elsewhere
// delays single calls by more than any skew, an engine that is wrong does so each time.
func atBest(t *testing.T, measure func() (figures string, good bool)) {
	t.Helper()
	for try := 1; ; try++ {
		figures, good := measure()
		t.Logf("try %d: %s", try, figures)
		if good {
			return
		}
		if try == 3 {
			t.Fatalf("three tries, none good")
		}
	}
}

func p99(waits []time.Duration) time.Duration {
	slices.Sort(waits)
	if len(waits) == 0 {
		return 0
	}
	return waits[len(waits)*99/100]
}

// 4 processes × 16 goroutines against a strict upstream of 50 calls per sliding second: no 429, and at least
// 97 % of what it allows.
func TestFleetAgainstASlidingSecond(t *testing.T) { //nolint:paralleltest // it measures
	atBest(t, func() (string, bool) {
		upstream := &strict{limits: []strictLimit{{n: 50, period: time.Second}}}
		run(t, upstream, "sliding", 8*time.Second, func(int) []crew { return []crew{{Tenant: "x", Goroutines: 16}} })
		n := len(upstream.went)
		rate := float64(n-1) / upstream.went[n-1].Sub(upstream.went[0]).Seconds()
		return fmt.Sprintf("%d calls, %.2f/s of 50/s, %d times 429", n, rate, upstream.no), upstream.no == 0 && rate >= 0.97*50
	})
}

// 100/s shared, 10/s per tenant, one greedy tenant with 90 % of the goroutines: nine light ones lose nothing.
func TestFleetWithAGreedyTenant(t *testing.T) { //nolint:paralleltest // it measures
	atBest(t, func() (string, bool) {
		upstream := &strict{limits: []strictLimit{{n: 100, period: time.Second}, {n: 10, period: time.Second, perTenant: true}}}
		sum := run(t, upstream, "tenants", 8*time.Second, func(process int) []crew {
			crews := []crew{{Tenant: "greedy", Goroutines: 81}}
			for i := range 9 {
				if i%4 == process {
					// Four goroutines that offer 9 calls a second together: within the tenant's limit.
					crews = append(crews, crew{Tenant: "light" + strconv.Itoa(i), Goroutines: 4, Every: 4 * time.Second / 9})
				}
			}
			return crews
		})
		var light tally
		for tenant, x := range sum {
			if tenant != "greedy" {
				light.Offered += x.Offered
				light.Went += x.Went
				light.Waits = append(light.Waits, x.Waits...)
			}
		}
		served, slow := float64(light.Went)/float64(light.Offered), p99(light.Waits)
		return fmt.Sprintf("light tenants: %d offered, %.2f %% served, p99 wait %v; greedy: %d; %d times 429", light.Offered, 100*served, slow, sum["greedy"].Went, upstream.no),
			upstream.no == 0 && served >= 0.99 && slow < time.Second && sum["greedy"].Went >= 70
	})
}

// 300 per 10-second window of the clock and 60 per sliding second: no 429, and at least 97 % of a whole window used.
func TestFleetAgainstAFixedWindow(t *testing.T) { //nolint:paralleltest // it measures
	atBest(t, func() (string, bool) {
		upstream := &strict{limits: []strictLimit{{n: 300, period: 10 * time.Second, fixed: true}, {n: 60, period: time.Second}}}
		const period = 10 * time.Second
		// From the middle of one window to the end of the next: the fleet runs across a turn with a full line.
		now := time.Now()
		end := now.Truncate(period).Add(2 * period)
		run(t, upstream, "window", end.Sub(now), func(int) []crew { return []crew{{Tenant: "x", Goroutines: 16}} })
		whole := 0
		for _, at := range upstream.went {
			if at.Truncate(period).Equal(end.Add(-period)) {
				whole++
			}
		}
		return fmt.Sprintf("%d calls of 300 in the whole window, %d times 429", whole, upstream.no), upstream.no == 0 && whole >= 291
	})
}

//go:build measure

package simulate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/cmd/headway/internal/simulate"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport/upstreamtest"
)

// Predictions are measured here: this test binary runs again, as the processes of a fleet, against an upstream that enforces limits by
// itself.

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

const (
	// length is how long a fleet is measured, after it has warmed up.
	length    = 8 * time.Second
	processes = 4
	warmUp    = 2 * time.Second
	// storeTimeout is longer than any machine should keep Redis from answering.
	storeTimeout = 30 * time.Second
	// skew is what a fleet on a busy machine has to allow for: a timer that is late, and a request that is fast.
	skew = 25 * time.Millisecond
)

// fleets are the policies of each fleet. Processes find them by name.
var fleets = map[string][]policies.Policy{
	"strict":  {policies.AtMost(50, time.Second)},
	"skewed":  {policies.AtMost(50, time.Second).Skew(skew)},
	"tenants": {policies.AtMost(100, time.Second).Skew(skew), policies.AtMost(10, time.Second).Skew(skew).Per("tenant")},
}

// A job is what one process does.
type job struct {
	Fleet, Redis, URL string
	Begin             time.Time
	Length            time.Duration
	Crews             []crew
}

// A reported is the report of one process at its end.
type reported struct {
	Late  measure.Lateness
	Drift int64 // by how many µs the wall clock and the clock of timers have parted
	Alone int64 // how often it lost the store, and had it back
	Went  []went
}

// A went is a call of a tenant that started at an instant, and was allowed to between its slot and the end of its slack. All are in µs.
type went struct {
	Tenant          string
	Slot, Slack, At int64
}

// A crew is workers of one process that call for one tenant.
type crew struct {
	Tenant  string
	Workers int
	Every   time.Duration // each makes a call so often; 0: one after the other
	After   time.Duration // the first one begins so much later
}

func work(spec string) error {
	var j job
	if err := json.Unmarshal([]byte(spec), &j); err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: j.Redis, ContextTimeoutEnabled: true})
	defer rdb.Close()
	store, err := redisstore.New(rdb)
	if err != nil {
		return err
	}
	var alone atomic.Int64
	p, err := pacer.New(pacer.Config{
		Upstream: "fleet", Store: store, Policies: fleets[j.Fleet],
		StoreTimeout: storeTimeout, // so that no process of a busy machine paces locally, which is not simulated
		Hooks:        []*hooks.Set{{Failover: func(hooks.Failover) { alone.Add(1) }}},
	})
	if err != nil {
		return err
	}
	defer p.Close()
	ctx, cancel := context.WithDeadline(context.Background(), j.Begin.Add(warmUp+j.Length))
	defer cancel()
	timers, began := measure.Watch(), time.Now()
	c := caller{pacer: p, url: j.URL, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	if err := c.run(ctx, &j); err != nil {
		return err
	}
	drift := time.Since(began.Round(0)) - time.Since(began) // of the wall clock
	return json.NewEncoder(os.Stdout).Encode(reported{timers.Stop(), drift.Abs().Microseconds(), alone.Load(), c.went})
}

// A caller makes the calls of one process.
type caller struct {
	pacer  *pacer.Pacer
	url    string
	client *http.Client

	mu   sync.Mutex
	went []went
}

func (c *caller) run(ctx context.Context, j *job) error {
	var g errgroup.Group
	for _, crew := range j.Crews {
		for i := range crew.Workers {
			g.Go(func() error {
				due := j.Begin.Add(crew.After + crew.Every*time.Duration(i)/time.Duration(crew.Workers))
				for ; ctx.Err() == nil; due = due.Add(crew.Every) {
					time.Sleep(time.Until(due))
					if err := c.call(ctx, crew.Tenant); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	return g.Wait()
}

// call makes one call when it may go, unless the run is over.
func (c *caller) call(ctx context.Context, tenant string) error {
	requested := time.Now()
	r, err := c.pacer.Acquire(ctx, pacer.Scope("tenant", tenant))
	at := time.Now()
	if le, ok := errors.AsType[*pacer.LimitError](err); err != nil && (ctx.Err() != nil || ok && errors.Is(le, context.DeadlineExceeded)) {
		return nil
	}
	if err != nil {
		return err
	}
	defer r.Release()
	slot, slack := inside.Slot(r)
	c.mu.Lock()
	c.went = append(c.went, went{tenant, int64(slot), slack.Microseconds(), at.UnixMicro()})
	c.mu.Unlock()
	resp, err := c.client.Get(c.url + "?tenant=" + tenant + "&waited=" + strconv.FormatInt(int64(at.Sub(requested)), 10))
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.Body.Close()
}

// A judge is a strict upstream.
type judge struct {
	upstreamtest.Upstream

	// Of what came in the time that counts.
	no    int
	calls map[string]int
	waits map[string][]time.Duration

	mu       sync.Mutex
	late     measure.Lateness // of the timers of the latest process
	reported []reported       // by the processes
}

func newJudge(limits ...upstreamtest.Limit) *judge {
	return &judge{Upstream: upstreamtest.Upstream{Limits: limits}, calls: make(map[string]int), waits: make(map[string][]time.Duration)}
}

// count counts what came since an instant, for the length of a run.
func (u *judge) count(from time.Time) {
	for _, c := range u.Calls() {
		if c.At.Before(from) || !c.At.Before(from.Add(length)) {
			continue
		}
		if !c.Admitted {
			u.no++
			continue
		}
		tenant := c.Request.FormValue("tenant")
		waited, _ := strconv.ParseInt(c.Request.FormValue("waited"), 10, 64)
		u.calls[tenant]++
		u.waits[tenant] = append(u.waits[tenant], time.Duration(waited))
	}
}

// play runs a fleet against an upstream.
func play(t *testing.T, u *judge, fleet string, crews func(process int) []crew) {
	t.Helper()
	server := httptest.NewServer(u)
	defer server.Close()
	begin := time.Now().Add(300 * time.Millisecond)
	redisServer := redistest.Start(t)
	timers := measure.Watch()
	var g errgroup.Group
	for i := range processes {
		spec, err := json.Marshal(job{Fleet: fleet, Redis: redisServer.Addr, URL: server.URL, Begin: begin, Length: length, Crews: crews(i)})
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), workerEnv+"="+string(spec))
		var out, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &stderr
		g.Go(func() error {
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%w: %s", err, stderr.Bytes())
			}
			var one reported
			err := json.Unmarshal(out.Bytes(), &one)
			u.mu.Lock()
			defer u.mu.Unlock()
			u.reported, u.late = append(u.reported, one), measure.Max(u.late, one.Late)
			return err
		})
	}
	err := g.Wait()
	u.late = measure.Max(u.late, timers.Stop())
	u.count(begin.Add(warmUp))
	require.NoError(t, err)
	requireConformance(t, fleets[fleet], u.reported)
}

// predict simulates a fleet in the time that is measured.
func predict(t *testing.T, fleet string, loads ...simulate.Load) *simulate.Result {
	t.Helper()
	plan := simulate.DefaultPlan()
	plan.Policies, plan.Loads, plan.For = fleets[fleet], loads, simulate.Duration(warmUp+length)
	r, err := simulate.Run(t.Context(), plan)
	require.NoError(t, err)
	require.InDelta(t, 1, r.Chart.Every, 0)
	return r
}

// afterWarmUp returns the calls per second that are predicted for the time that is measured.
func afterWarmUp(r *simulate.Result) float64 {
	sum := 0.0
	for _, n := range r.Chart.Admitted[int(warmUp.Seconds()):] {
		sum += n
	}
	return sum / length.Seconds()
}

// judgeFleet compares measurements with predictions, and requires that the upstream refused nothing. A machine whose timers are later than
// the skew cannot keep the limit.
func judgeFleet(t *testing.T, u *judge, skew time.Duration, figures string, good bool) {
	t.Helper()
	measure.Judge(t, u.late, skew, fmt.Sprintf("%s; %d times 429", figures, u.no), good && u.no == 0)
}

func off(predicted, measured float64) float64 { return math.Abs(predicted-measured) / measured }

func quantile(waits []time.Duration, q float64) float64 {
	if len(waits) == 0 { // on a machine that is too slow
		return math.NaN()
	}
	slices.Sort(waits)
	return waits[int(q*float64(len(waits)-1))].Seconds()
}

// 4 processes × 16 goroutines against an upstream that is strict at 50 per sliding second: the simulation predicts the calls within 2 %.
func TestPredictsAFleet(t *testing.T) {
	for fleet, skew := range map[string]time.Duration{"strict": 10 * time.Millisecond, "skewed": skew} {
		t.Run(fleet, func(t *testing.T) {
			load := simulate.DefaultLoad()
			load.Processes, load.Workers, load.CallTime = processes, 16, simulate.Duration(time.Millisecond)
			r := predict(t, fleet, load)
			predicted := afterWarmUp(r)
			require.Positive(t, predicted)
			u := newJudge(upstreamtest.Sliding(50, time.Second))
			play(t, u, fleet, func(int) []crew { return []crew{{Tenant: "tenant", Workers: 16}} })
			rate, median := float64(u.calls["tenant"]+u.no)/length.Seconds(), quantile(u.waits["tenant"], 0.5)
			judgeFleet(t, u, skew, fmt.Sprintf("%.2f/s predicted, %.2f/s measured: %.2f %% off; waits p50 %.3f s and %.3f s",
				predicted, rate, 100*off(predicted, rate), r.Waits.P50, median),
				off(predicted, rate) <= 0.02 && off(r.Waits.P50, median) <= 0.05)
		})
	}
}

// 100/s shared and 10/s per tenant, where one tenant has 81 goroutines in each process and nine others offer 9 calls a
// second each.
func TestPredictsAGreedyTenant(t *testing.T) {
	const greedy, light = 81, 9
	workers, arrivals := simulate.DefaultLoad(), simulate.DefaultLoad()
	workers.Name, workers.Processes, workers.Workers, workers.CallTime = "greedy", processes, greedy, simulate.Duration(time.Millisecond)
	arrivals.Name, arrivals.Rate, arrivals.Steady, arrivals.Tenants = "light", light*light, true, light
	r := predict(t, "tenants", workers, arrivals)
	predicted := afterWarmUp(r)
	require.Positive(t, predicted)
	u := newJudge(upstreamtest.Sliding(100, time.Second), upstreamtest.Sliding(10, time.Second).Per(func(r *http.Request) string { return r.FormValue("tenant") }))
	play(t, u, "tenants", func(process int) []crew {
		crews := []crew{{Tenant: "greedy", Workers: greedy}}
		for i := range light {
			if i%processes == process {
				crews = append(crews, crew{
					Tenant: "light-" + strconv.Itoa(i), Workers: 4, Every: 4 * time.Second / light, After: time.Duration(i) * time.Second / (light * light),
				})
			}
		}
		return crews
	})
	all := u.no
	var waits []time.Duration
	for tenant, n := range u.calls {
		all += n
		if tenant != "greedy" {
			waits = append(waits, u.waits[tenant]...)
		}
	}
	rate, own := float64(all)/length.Seconds(), float64(u.calls["greedy"])/length.Seconds()
	judgeFleet(t, u, skew, fmt.Sprintf("%.2f/s predicted, %.2f/s measured: %.2f %% off; the greedy one %.2f/s and %.2f/s; waits of the others p50 %.1f ms and %.1f ms, p99 %.1f ms and %.1f ms",
		predicted, rate, 100*off(predicted, rate), r.Loads[0].Goodput, own,
		1e3*r.Loads[1].Waits.P50, 1e3*quantile(waits, 0.5), 1e3*r.Loads[1].Waits.P99, 1e3*quantile(waits, 0.99)),
		off(predicted, rate) <= 0.02 && off(r.Loads[0].Goodput, own) <= 0.03)
}

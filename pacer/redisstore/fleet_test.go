package redisstore_test

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/headway-go/headway/pacer/internal/measure"
	"github.com/headway-go/headway/pacer/internal/redistest"
	"github.com/headway-go/headway/policies"
)

// The fleet tests run this test binary again, as processes of a fleet, against an upstream that shares no
// code with the engine. As tests of truth they are short: a referee judges the slots and when calls went. With
// -tags measure they are long, one after the other, and also judge what the upstream refuses and how much of its limits is
// used.

const workerEnv = "HEADWAY_TEST_WORKER"

// parallel is how many tests run at a time, unless the command line says: most of them wait most of the time.
const parallel = "12"

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // tests lose stores on purpose
	redis.SetLogger(&clientLines)
	if job := os.Getenv(workerEnv); job != "" {
		if err := work(job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", parallel)
	}
	goleak.VerifyTestMain(redistest.Sharing(m))
}

// skew is what the fleet allows for: a timer that is late, and a request that is fast.
const skew = 25 * time.Millisecond

// fleetSize is how many processes a fleet has.
const fleetSize = 4

// patience is for how long a patient process waits for its store, and tests for what is bound to come.
const patience = time.Minute

// fleets are the policies of each scenario. Processes find them by name.
var fleets = map[string][]policies.Policy{
	"sliding": {policies.AtMost(50, time.Second).Skew(skew)},
	"tenants": {policies.AtMost(100, time.Second).Skew(skew), policies.AtMost(10, time.Second).Skew(skew).Per("tenant")},
	"window":  {policies.Fixed(300, 10*time.Second).Skew(2 * skew), policies.AtMost(60, time.Second).Skew(skew)},
	"brief":   {policies.Fixed(40, time.Second).Skew(2 * skew), policies.AtMost(60, time.Second).Skew(skew)},
	"pauses":  {policies.PerSecond(20).Per("tenant")},
	"halved":  {policies.AtMost(50, time.Second).Skew(skew).Adaptive(policies.Adaptation{})},
	"killed":  {policies.PerSecond(100)},
	"quota":   {policies.Sliding(5000, 24*time.Hour).Named("daily"), policies.AtMost(300, time.Second)},
	"permits": {policies.InFlight(25)},
	"leases":  {policies.InFlight(25).Lease(briefLease)},
	"stacked": {
		policies.InFlight(25).Named("permits"),
		policies.AtMost(50, time.Second).Skew(skew).Named("second"),
		policies.Sliding(1000, time.Minute).Named("minute"),
	},
	"one":    {policies.InFlight(1)},
	"lanes":  {policies.PerSecond(100).Burst(10).Lane("batch", 80)},
	"shares": {policies.PerSecond(100).Burst(5).Fair("tenant")},
}

// The rules of those fleets, by definition.
var (
	fiftyASecond = rule{name: "50 in any second", kind: anyWindow, n: 50, period: time.Second}
	sixtyASecond = rule{name: "60 in any second", kind: anyWindow, n: 60, period: time.Second}
)

// crew is some goroutines of a process that call for one tenant.
type crew struct {
	Tenant     string
	Goroutines int
	Every      time.Duration // each goroutine offers one call so often; 0: as fast as it may
}

// tolerated is how late a timer may have been for what a strict upstream refuses to be judged: later ones use up the skew.
const tolerated = skew / 2

// 4 processes × 16 goroutines at 50 calls per sliding second: never a 51st. Measured: no 429 of a strict upstream, and at
// least 97 % of what it allows.
func TestFleetAgainstASlidingSecond(t *testing.T) {
	together(t)
	upstream := &strict{limits: []strictLimit{{n: 50, period: time.Second}}}
	j := job{Fleet: "sliding", Duration: measure.Length(4*time.Second, 8*time.Second), Patient: !measure.On}
	p := play(t, upstream, j, crewed(crew{Tenant: "x", Goroutines: 16}))
	requireTruth(t, p, fiftyASecond)
	rate := upstream.rate()
	measure.Judge(t, p.late, tolerated, fmt.Sprintf("%d calls, %.2f/s of 50/s, %d times 429", len(upstream.went), rate, upstream.no),
		upstream.no == 0 && rate >= 0.97*50)
}

// 100/s shared, 10/s per tenant, one greedy tenant with 90 % of the goroutines: neither limit is broken, for any tenant, and
// the light ones go although the greedy one waits. Measured: nine light ones lose nothing.
func TestFleetWithAGreedyTenant(t *testing.T) {
	together(t)
	upstream := &strict{limits: []strictLimit{{n: 100, period: time.Second}, {n: 10, period: time.Second, perTenant: true}}}
	j := job{Fleet: "tenants", Duration: measure.Length(4*time.Second, 8*time.Second), Patient: !measure.On}
	p := play(t, upstream, j, func(process int) []crew {
		crews := []crew{{Tenant: "greedy", Goroutines: 81}}
		for i := range 9 {
			if i%4 == process {
				// Four goroutines that offer 9 calls a second together: within the tenant's limit.
				crews = append(crews, crew{Tenant: "light" + strconv.Itoa(i), Goroutines: 4, Every: 4 * time.Second / 9})
			}
		}
		return crews
	})
	requireTruth(t, p, rule{name: "100 in any second", kind: anyWindow, n: 100, period: time.Second},
		rule{name: "10 in any second of tenant ", kind: anyWindow, n: 10, period: time.Second, perTenant: true})
	var light tally
	for tenant, x := range p.sum {
		if tenant != "greedy" {
			light.Offered += x.Offered
			light.Went += x.Went + x.Refused
			light.Waits = append(light.Waits, x.Waits...)
		}
	}
	served, slow := float64(light.Went)/float64(light.Offered), p99(light.Waits)
	measure.Judge(t, p.late, tolerated, fmt.Sprintf("light tenants: %d offered, %.2f %% served, p99 wait %v; greedy: %d; %d times 429", light.Offered, 100*served, slow, p.sum["greedy"].Went, upstream.no),
		upstream.no == 0 && served >= 0.99 && slow < time.Second && p.sum["greedy"].Went >= 70)
}

// A window of the clock and 60 per sliding second: neither is broken, across the turns of windows with a full line. Measured:
// 300 per ten seconds; no 429, and at least 97 % of a whole window used.
func TestFleetAgainstAFixedWindow(t *testing.T) {
	together(t)
	period, n := measure.Length(time.Second, 10*time.Second), measure.Length(40, 300)
	upstream := &strict{limits: []strictLimit{{n: n, period: period, fixed: true}, {n: 60, period: time.Second}}}
	// From the middle of one window to the end of the next: the fleet runs across a turn with a full line.
	now := time.Now()
	end := now.Truncate(period).Add(measure.Length(6*time.Second, 20*time.Second))
	j := job{Fleet: measure.Length("brief", "window"), Until: end, Patient: !measure.On}
	p := play(t, upstream, j, crewed(crew{Tenant: "x", Goroutines: 16}))
	requireTruth(t, p, sixtyASecond, rule{name: "a window of the clock", kind: clockWindow, n: int64(n), period: period})
	whole := len(slices.DeleteFunc(slices.Clone(upstream.went), func(at time.Time) bool { return !at.Truncate(period).Equal(end.Add(-period)) }))
	measure.Judge(t, p.late, tolerated, fmt.Sprintf("%d calls of %d in the whole window, %d times 429", whole, n, upstream.no),
		upstream.no == 0 && whole >= n*97/100)
}

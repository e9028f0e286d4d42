//go:build measure

package redisstore_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport/upstreamtest"
)

// fleets are the policies of each scenario. Processes find them by name.
var fleets = map[string][]policies.Policy{
	"sliding": {policies.AtMost(50, time.Second).Skew(skew)},
	"tenants": {policies.AtMost(100, time.Second).Skew(skew), policies.AtMost(10, time.Second).Skew(skew).Per("tenant")},
	"window":  {policies.Fixed(300, 10*time.Second).Skew(2 * skew), policies.AtMost(60, time.Second).Skew(skew)},
	"pauses":  {policies.PerSecond(20).Per("tenant")},
	"halved":  {policies.AtMost(50, time.Second).Skew(skew).Adaptive(policies.Adaptation{})},
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

// crew is some goroutines of a process that call for one tenant.
type crew struct {
	Tenant     string
	Goroutines int
	Every      time.Duration // each goroutine offers one call so often; 0: as fast as it may
}

// tolerated is the latest timer with which the refusals of a strict upstream are judged: later ones use up the skew.
const tolerated = skew / 2

// 4 processes × 16 goroutines at 50 calls per sliding second: never a 51st. Measured: no 429 of a strict upstream, and at least 97 % of
// what it allows.
func TestFleetAgainstASlidingSecond(t *testing.T) {
	upstream := newStrict(upstreamtest.Sliding(50, time.Second))
	j := job{Fleet: "sliding", Duration: 8 * time.Second}
	p := play(t, upstream, j, crewed(crew{Tenant: "x", Goroutines: 16}))
	requireTruth(t, p, fiftyASecond)
	rate := upstream.rate()
	measure.Judge(t, p.late, tolerated, fmt.Sprintf("%d calls, %.2f/s of 50/s, %d times 429", upstream.Admitted(), rate, upstream.Refused()),
		upstream.Refused() == 0 && rate >= 0.97*50)
}

// 100/s shared, 10/s per tenant, one greedy tenant with 90 % of the goroutines: neither limit is broken, for any tenant, and
// the light ones go although the greedy one waits. Measured: nine light ones lose nothing.
func TestFleetWithAGreedyTenant(t *testing.T) {
	upstream := newStrict(upstreamtest.Sliding(100, time.Second), upstreamtest.Sliding(10, time.Second).Per(func(r *http.Request) string { return r.FormValue("tenant") }))
	j := job{Fleet: "tenants", Duration: 8 * time.Second}
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
	measure.Judge(t, p.late, tolerated, fmt.Sprintf("light tenants: %d offered, %.2f %% served, p99 wait %v; greedy: %d; %d times 429", light.Offered, 100*served, slow, p.sum["greedy"].Went, upstream.Refused()),
		upstream.Refused() == 0 && served >= 0.99 && slow < time.Second && p.sum["greedy"].Went >= 70)
}

// A window of the clock and 60 per sliding second: neither is broken, across the turns of windows with a full line. Measured:
// 300 per ten seconds; no 429, and at least 97 % of a whole window used.
func TestFleetAgainstAFixedWindow(t *testing.T) {
	period, n := 10*time.Second, 300
	upstream := newStrict(upstreamtest.Fixed(n, period), upstreamtest.Sliding(60, time.Second))
	// From the middle of one window to the end of the next: the fleet runs across a turn with a full line.
	now := time.Now()
	end := now.Truncate(period).Add(20 * time.Second)
	j := job{Fleet: "window", Until: end}
	p := play(t, upstream, j, crewed(crew{Tenant: "x", Goroutines: 16}))
	requireTruth(t, p, rule{name: "60 in any second", kind: anyWindow, n: 60, period: time.Second}, rule{name: "a window of the clock", kind: clockWindow, n: int64(n), period: period})
	whole := len(slices.DeleteFunc(upstream.came(true), func(at time.Time) bool { return !at.Truncate(period).Equal(end.Add(-period)) }))
	measure.Judge(t, p.late, tolerated, fmt.Sprintf("%d calls of %d in the whole window, %d times 429", whole, n, upstream.Refused()),
		upstream.Refused() == 0 && whole >= n*97/100)
}

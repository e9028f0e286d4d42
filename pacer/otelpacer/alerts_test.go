package otelpacer_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/internal/testing/faulty"
	"github.com/headway-go/headway/pacer/otelpacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/airtable"
	"github.com/headway-go/headway/policies/anthropic"
	"github.com/headway-go/headway/policies/atlassian"
	"github.com/headway-go/headway/policies/github"
	"github.com/headway-go/headway/policies/google"
	"github.com/headway-go/headway/policies/hubspot"
	"github.com/headway-go/headway/policies/intercom"
	"github.com/headway-go/headway/policies/msgraph"
	"github.com/headway-go/headway/policies/notion"
	"github.com/headway-go/headway/policies/okta"
	"github.com/headway-go/headway/policies/openai"
	"github.com/headway-go/headway/policies/salesforce"
	"github.com/headway-go/headway/policies/shopify"
	"github.com/headway-go/headway/policies/slack"
	"github.com/headway-go/headway/policies/specs"
	"github.com/headway-go/headway/policies/stripe"
	"github.com/headway-go/headway/policies/twilio"
	"github.com/headway-go/headway/policies/zendesk"
)

// An alert is a rule of the documentation, and what Prometheus has scraped of a registry to evaluate it.
type alert struct {
	name, expr string
	pending    time.Duration // its "for"
	since      map[string]time.Time
	scrapes    []scraped
}

// A scraped is what a registry had at a time, by the names and labels of the series.
type scraped struct {
	at  time.Time
	all map[string]series
}

// alerts returns the rules of the documentation.
func alerts(t *testing.T) (all []*alert) {
	t.Helper()
	text, err := os.ReadFile(docs + "/alerts.yaml")
	require.NoError(t, err)
	for _, rule := range strings.Split(string(text), "- alert: ")[1:] {
		name, rest, _ := strings.Cut(rule, "\n")
		rest, _, found := strings.Cut(rest, "annotations:")
		require.True(t, found, rule)
		expr, pending, _ := strings.Cut(rest, "for:")
		one := &alert{name: name, since: make(map[string]time.Time)}
		one.expr = strings.Join(strings.Fields(strings.NewReplacer("expr:", "", "|\n", "").Replace(expr)), " ")
		if pending, _, _ = strings.Cut(pending, "#"); strings.TrimSpace(pending) != "" {
			one.pending, err = time.ParseDuration(strings.TrimSpace(pending))
			require.NoError(t, err)
		}
		all = append(all, one)
	}
	return all
}

func alertNamed(t *testing.T, name string) *alert {
	t.Helper()
	all := alerts(t)
	i := slices.IndexFunc(all, func(a *alert) bool { return a.name == name })
	require.NotEqual(t, -1, i, name)
	return all[i]
}

// series are labels and a value.
type series struct {
	name   string
	labels map[string]string
	value  float64
}

func (s *series) key(by []string) string {
	values := make([]string, len(by))
	for i, name := range by {
		values[i] = s.labels[name]
	}
	return strings.Join(values, " ")
}

// scrape remembers what a registry has now.
func (a *alert) scrape(t *testing.T, registry *prometheus.Registry) {
	t.Helper()
	now := scraped{time.Now(), make(map[string]series)}
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, one := range f.GetMetric() {
			labels := make(map[string]string)
			for _, l := range one.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			add := func(name, le string, value float64) {
				s := series{name, maps.Clone(labels), value}
				if le != "" {
					s.labels["le"] = le
				}
				now.all[fmt.Sprint(name, s.labels)] = s
			}
			if h := one.GetHistogram(); h != nil {
				for _, b := range h.GetBucket() {
					add(f.GetName()+"_bucket", fmt.Sprint(b.GetUpperBound()), float64(b.GetCumulativeCount()))
				}
				add(f.GetName()+"_bucket", fmt.Sprint(math.Inf(1)), float64(h.GetSampleCount()))
			} else {
				add(f.GetName(), "", one.GetGauge().GetValue()+one.GetCounter().GetValue())
			}
		}
	}
	a.scrapes = append(a.scrapes, now)
}

// comparison is a term of a rule, such as `max by (a, b) (metric{c="d"}) > 1`. Rules have no other form, except "unless on (a)" and "or"
// between two.
var comparison = regexp.MustCompile(`^(?:histogram_quantile\(([\d.]+), )?(max|sum) by \(([^()]*)\) \((?:(rate|increase)\()?(\w+)(?:\{(\w+)="([^"]*)"\})?` +
	`(?:\[(\w+)\])?(?: unless (\w+) offset (\w+))?\)+ > ([\d.]+)$`)

// compare evaluates a comparison.
func (a *alert) compare(t *testing.T, expr string) (above []series) {
	t.Helper()
	m := comparison.FindStringSubmatch(expr)
	require.NotNil(t, m, expr)
	least, err := strconv.ParseFloat(m[11], 64)
	require.NoError(t, err)
	by, groups := strings.Split(m[3], ", "), make(map[string]*series)
	for id, s := range a.scrapes[len(a.scrapes)-1].all {
		if s.name != m[5] || m[6] != "" && s.labels[m[6]] != m[7] {
			continue
		}
		if m[4] != "" {
			s.value = a.increase(t, id, m[8])
		}
		if m[10] != "" {
			require.Equal(t, m[5], m[9])
			before := a.before(t, m[10])
			if _, there := before[len(before)-1].all[id]; there {
				continue
			}
		}
		switch g := groups[s.key(by)]; {
		case g == nil:
			g = &series{"", make(map[string]string), s.value}
			for _, name := range by {
				g.labels[name] = s.labels[name]
			}
			groups[s.key(by)] = g
		case m[2] == "sum":
			g.value += s.value
		default:
			g.value = max(g.value, s.value)
		}
	}
	if m[1] != "" {
		part, err := strconv.ParseFloat(m[1], 64)
		require.NoError(t, err)
		groups = quantiles(t, part, slices.DeleteFunc(by, func(name string) bool { return name == "le" }), groups)
	}
	for _, g := range groups {
		if g.value > least {
			above = append(above, *g)
		}
	}
	return above
}

// before returns the scrapes until some time ago, and an empty one first.
func (a *alert) before(t *testing.T, ago string) []scraped {
	t.Helper()
	d, err := time.ParseDuration(ago)
	require.NoError(t, err)
	all := []scraped{{}}
	for _, one := range a.scrapes {
		if time.Since(one.at) >= d { //realtime: the tests of the alerts run in virtual time
			all = append(all, one)
		}
	}
	return all
}

// increase returns by how much a counter grew within a range. As for Prometheus, one that is new did not grow before it was first scraped.
func (a *alert) increase(t *testing.T, id, within string) (sum float64) {
	t.Helper()
	last := math.Inf(1)
	for _, one := range a.scrapes[len(a.before(t, within))-1:] {
		if s, there := one.all[id]; there {
			sum, last = sum+max(0, s.value-last), s.value
		}
	}
	return sum
}

// quantiles returns a quantile of each histogram; groups are their buckets.
func quantiles(t *testing.T, part float64, by []string, groups map[string]*series) map[string]*series {
	t.Helper()
	bound := func(s *series) float64 {
		le, err := strconv.ParseFloat(s.labels["le"], 64)
		require.NoError(t, err)
		return le
	}
	buckets := make(map[string][]*series)
	for _, g := range groups {
		buckets[g.key(by)] = append(buckets[g.key(by)], g)
	}
	all := make(map[string]*series)
	for key, some := range buckets {
		slices.SortFunc(some, func(a, b *series) int { return cmp.Compare(bound(a), bound(b)) })
		rank, from, below := part*some[len(some)-1].value, 0.0, 0.0
		for _, b := range some {
			if to := bound(b); b.value >= rank && b.value > 0 && !math.IsInf(to, 1) {
				all[key] = &series{"", b.labels, from + (to-from)*(rank-below)/(b.value-below)}
				break
			}
			from, below = bound(b), b.value
		}
	}
	return all
}

// fires evaluates the rule, as Prometheus does now and then, and returns the policies that it fires for, or upstreams.
func (a *alert) fires(t *testing.T, registry *prometheus.Registry) (firing []string) {
	t.Helper()
	a.scrape(t, registry)
	var all []series
	for either := range strings.SplitSeq(a.expr, " or ") {
		terms := strings.Split(either, " unless on (")
		some := a.compare(t, terms[0])
		for _, term := range terms[1:] {
			on, expr, _ := strings.Cut(term, ") ")
			by, not := strings.Split(on, ", "), a.compare(t, expr)
			some = slices.DeleteFunc(some, func(s series) bool {
				return slices.ContainsFunc(not, func(other series) bool { return s.key(by) == other.key(by) })
			})
		}
		all = append(all, some...)
	}
	since := make(map[string]time.Time)
	for i := range all {
		about := cmp.Or(all[i].labels["headway_policy"], all[i].labels["headway_upstream"])
		if since[about] = a.since[about]; since[about].IsZero() {
			since[about] = time.Now()
		}
		if time.Since(since[about]) >= a.pending && !slices.Contains(firing, about) { //realtime: the tests of the alerts run in virtual time
			firing = append(firing, about)
		}
	}
	a.since = since
	return firing
}

// vendorStacks are the limits that users of the vendors' packages start with.
func vendorStacks() map[string][]policies.Policy {
	return map[string][]policies.Policy{
		"airtable": airtable.Limits(), "anthropic": anthropic.Limits(50, 30_000, 8_000), "atlassian": append(atlassian.Limits(), atlassian.AppQuota()),
		"github": github.Limits(github.User), "google": google.Limits(600, 60), "hubspot": hubspot.Limits(hubspot.Starter, time.UTC),
		"intercom": intercom.Limits(), "msgraph": msgraph.Limits(msgraph.Small), "notion": notion.Limits(),
		"okta": append(okta.Limits(600), okta.Concurrent(okta.WorkforceIdentity)), "openai": append(openai.Limits(60, 90_000), openai.RequestsPerDay(1_000)),
		"salesforce": salesforce.Limits(salesforce.Enterprise, 50), "shopify": shopify.Limits(shopify.Standard), "slack": slack.Limits(),
		"stripe": append(stripe.Limits(stripe.Live), stripe.Concurrent(100)), "twilio": append(twilio.Limits(20), twilio.Concurrent(100)),
		"zendesk": zendesk.Limits(zendesk.SuiteTeam),
	}
}

// A fleet that spends 97 % of any one limit of a vendor's stack for a while gets an alert for that limit.
func TestNearlySpentLimitsRaiseAnAlert(t *testing.T) {
	t.Parallel()
	for vendor, stack := range vendorStacks() {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			for i := range stack {
				synctest.Test(t, func(t *testing.T) { nearlySpend(t, stack, i) })
			}
		})
	}
}

// nearlySpend spends 97 % of one limit of a stack for as long as the alert needs, and requires that it fires for that limit.
func nearlySpend(t *testing.T, stack []policies.Policy, target int) {
	t.Helper()
	telemetry, registry := newExporter(t, otelpacer.Config{})
	p := newPacer(t, nil, stack...)
	defer p.Close()
	stop, err := telemetry.Observe(p)
	require.NoError(t, err)
	defer stop()
	rule, name, spec := alertNamed(t, "HeadwayQuotaNearlySpent"), stack[target].Name(), stack[target].Spec()
	require.Empty(t, rule.fires(t, registry))
	var opts []pacer.Option
	var scopes []pacer.ScopeOption
	for i, one := range stack {
		for _, scope := range one.Scopes() {
			if i == target || !one.IsOptional() {
				opts, scopes = append(opts, pacer.Scope(scope, "x")), append(scopes, pacer.Scope(scope, "x"))
			}
		}
		if i != target && one.Spec().Algorithm != specs.Concurrency {
			opts = append(opts, pacer.CostOf(one.Name(), 0))
		}
	}
	call := func(cost int64) *pacer.Reservation {
		with := slices.Clip(opts)
		if cost > 0 {
			with = append(with, pacer.CostOf(name, cost))
		}
		r, err := p.Acquire(t.Context(), with...)
		require.NoError(t, err)
		return r
	}
	left := func() int64 {
		s, err := p.Status(t.Context(), scopes...)
		require.NoError(t, err)
		for i := range s.Policies {
			if s.Policies[i].Policy.Name() == name {
				return s.Policies[i].Remaining
			}
		}
		return 0
	}
	if spec.Algorithm == specs.Concurrency {
		for range (97*spec.Limit + 99) / 100 {
			defer call(0).Release()
		}
	}
	began, due := time.Now(), 0.0
	isQuota := spec.Algorithm == specs.Window || spec.Limit*spec.Interval >= (10*time.Minute).Microseconds()
	for n := range int(rule.pending/(10*time.Second)) + 20 {
		switch {
		case spec.Algorithm == specs.Concurrency:
		case isQuota:
			if cost := left() - spec.Limit*3/100; cost > 0 {
				call(cost).Release()
			}
		default:
			for due += 10 * 0.97 * float64(time.Second.Microseconds()) / float64(spec.Interval); due >= 1; {
				cost := min(int64(due), spec.Limit)
				call(cost).Release()
				due -= float64(cost)
			}
		}
		if n%3 == 0 && slices.Contains(rule.fires(t, registry), name) {
			return
		}
		time.Sleep(time.Until(began.Add(time.Duration(n+1) * 10 * time.Second)))
	}
	require.Fail(t, "no alert", "%s: %s", stack[target], strings.Join(scrape(registry), "\n"))
}

// A pause of a single key raises the alert for pauses, and not the one for limits that are nearly spent.
func TestAPauseOfAKeyRaisesAnAlert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		telemetry, registry := newExporter(t, otelpacer.Config{})
		p := newPacer(t, nil, policies.Daily(100, time.UTC).Per("tenant").Named("daily"))
		defer p.Close()
		stop, err := telemetry.Observe(p)
		require.NoError(t, err)
		defer stop()
		paused, spent := alertNamed(t, "HeadwayPaused"), alertNamed(t, "HeadwayQuotaNearlySpent")
		require.Empty(t, paused.fires(t, registry)) // from memory, what goes is counted from the first look on
		for i := range 3 {
			tenant := pacer.Scope("tenant", fmt.Sprint(i))
			require.NoError(t, p.Wait(t.Context(), tenant))
			if i == 1 {
				require.NoError(t, p.Report(t.Context(), policies.Feedback{Refused: true, Wait: time.Hour, Policies: []string{"daily"}}, tenant))
			}
		}
		for range 21 {
			require.Empty(t, spent.fires(t, registry))
			require.Empty(t, paused.fires(t, registry))
			time.Sleep(30 * time.Second)
			if time.Since(paused.since["daily"]) >= paused.pending {
				break
			}
		}
		require.Equal(t, []string{"daily"}, paused.fires(t, registry))
		require.Empty(t, spent.fires(t, registry))
	})
}

// A stated wait of over an hour raises an alert at once: of a policy, or of the whole upstream if it fits none.
func TestALongPauseRaisesAnAlert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		telemetry, registry := newExporter(t, otelpacer.Config{})
		p := newPacer(t, nil, policies.PerSecond(10).Named("api"))
		defer p.Close()
		stop, err := telemetry.Observe(p)
		require.NoError(t, err)
		defer stop()
		rule := alertNamed(t, "HeadwayPausedForHours")
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Source: "Retry-After", Wait: time.Hour, Policies: []string{"api"}}))
		require.Empty(t, rule.fires(t, registry))
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Source: "Retry-After", Wait: 81654 * time.Second, Policies: []string{"api"}}))
		require.Equal(t, []string{"api"}, rule.fires(t, registry))
		require.NoError(t, fleet.Of(p).Resume(t.Context()))
		require.Empty(t, rule.fires(t, registry))
		require.NoError(t, p.Report(t.Context(), policies.Feedback{Remaining: policies.Reported(0), Limit: policies.Reported(5000), Reset: 5 * time.Hour}))
		require.Equal(t, []string{"crm"}, rule.fires(t, registry))
		time.Sleep(4 * time.Hour)
		require.Empty(t, rule.fires(t, registry))
	})
}

// fireWithin requires that an alert fires for something within some time, and not before all of its "for" is over.
func (a *alert) fireWithin(t *testing.T, registry *prometheus.Registry, about string, most time.Duration, meanwhile func()) {
	t.Helper()
	began := time.Now()
	require.Empty(t, a.fires(t, registry))
	for time.Since(began) < most { //realtime: the tests of the alerts run in virtual time
		meanwhile()
		time.Sleep(30 * time.Second) //realtime: the tests of the alerts run in virtual time
		synctest.Wait()
		if slices.Equal([]string{about}, a.fires(t, registry)) {
			require.GreaterOrEqual(t, time.Since(began), a.pending) //realtime: the tests of the alerts run in virtual time
			return
		}
	}
	require.Fail(t, "no alert", "%s: %s", a.name, strings.Join(scrape(registry), "\n"))
}

// silent requires that an alert that fires stops within some time, or that one that does not fire keeps silent.
func (a *alert) silent(t *testing.T, registry *prometheus.Registry, after, during time.Duration, meanwhile func()) {
	t.Helper()
	for began := time.Now(); time.Since(began) < after+during; { //realtime: the tests of the alerts run in virtual time
		meanwhile()
		time.Sleep(30 * time.Second) //realtime: the tests of the alerts run in virtual time
		synctest.Wait()
		if firing := a.fires(t, registry); time.Since(began) > after { //realtime: the tests of the alerts run in virtual time
			require.Empty(t, firing)
		}
	}
}

// observed returns a Pacer whose hooks and state a registry has.
func observed(t *testing.T, c *pacer.Config) (*pacer.Pacer, *otelpacer.Telemetry, *prometheus.Registry) {
	t.Helper()
	telemetry, registry := newExporter(t, otelpacer.Config{})
	c.Upstream, c.Hooks, c.Jitter, c.Logger = "crm", []*hooks.Set{telemetry.Hooks()}, pacer.NoJitter, slog.New(slog.DiscardHandler)
	p, err := pacer.New(*c)
	require.NoError(t, err)
	stop, err := telemetry.Observe(p)
	require.NoError(t, err)
	t.Cleanup(func() {
		stop()
		require.NoError(t, p.Close())
	})
	return p, telemetry, registry
}

// A process that is without its store for a minute raises an alert, until the store is back.
func TestALostStoreRaisesAnAlert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := faulty.New()
		p, _, registry := observed(t, &pacer.Config{Store: shared, Processes: 1, Policies: []policies.Policy{policies.PerSecond(1)}})
		call := func() { require.NoError(t, p.Wait(t.Context())) }
		rule := alertNamed(t, "HeadwayWithoutStore")
		rule.silent(t, registry, 0, 5*time.Minute, call)
		shared.Suffer(faulty.Faults{All: faulty.ErrDown})
		rule.fireWithin(t, registry, "crm", 3*time.Minute, call)
		shared.Suffer(faulty.Faults{})
		rule.silent(t, registry, time.Minute, 5*time.Minute, call)
	})
}

// Waits that come near the longest that is allowed raise an alert; shorter ones do not.
func TestLongWaitsRaiseAnAlert(t *testing.T) {
	t.Parallel()
	for wait, alarming := range map[time.Duration]bool{20 * time.Second: false, 55 * time.Second: true} {
		synctest.Test(t, func(t *testing.T) {
			p, _, registry := observed(t, &pacer.Config{Policies: []policies.Policy{policies.Rate(1, wait).Burst(1)}, MaxWait: time.Minute})
			ctx, cancel := context.WithCancel(t.Context())
			var caller sync.WaitGroup
			defer caller.Wait()
			defer cancel()
			caller.Go(func() {
				for p.Wait(ctx) == nil {
				}
			})
			rule := alertNamed(t, "HeadwayWaitsNearMaxWait")
			if !alarming {
				rule.silent(t, registry, 0, 30*time.Minute, func() {})
				return
			}
			rule.fireWithin(t, registry, "crm", 30*time.Minute, func() {})
		})
	}
}

// A single refusal raises an alert for ten minutes.
func TestARefusalRaisesAnAlert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, _, registry := observed(t, &pacer.Config{Policies: []policies.Policy{policies.Daily(1, time.UTC)}})
		rule := alertNamed(t, "HeadwayRefusals")
		require.NoError(t, p.Wait(t.Context()))
		rule.silent(t, registry, 0, 20*time.Minute, func() {})
		for range 2 { // the first one of its kind makes the series
			rule.fireWithin(t, registry, "daily", 30*time.Second, func() { require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet) })
			rule.silent(t, registry, 11*time.Minute, 20*time.Minute, func() {})
		}
	})
}

// Missing figures raise an alert: of a fleet whose state cannot be read, and of too many events.
func TestMissingFiguresRaiseAnAlert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, telemetry, registry := observed(t, &pacer.Config{Policies: []policies.Policy{policies.PerSecond(1)}})
		rule := alertNamed(t, "HeadwayNotObserved")
		rule.silent(t, registry, 0, 20*time.Minute, func() {})
		rule.fireWithin(t, registry, "", time.Minute, func() { telemetry.Hooks().Dropped(1) })
		rule.silent(t, registry, 11*time.Minute, 20*time.Minute, func() {})
		closed := newPacer(t, nil)
		require.NoError(t, closed.Close())
		stop, err := telemetry.Observe(closed)
		require.NoError(t, err)
		rule.fireWithin(t, registry, "crm", 5*time.Minute, func() {})
		stop()
		rule.silent(t, registry, 11*time.Minute, 20*time.Minute, func() {})
	})
}

// Every alert of the documentation is evaluated by one of these tests, or by TestPrometheusSeesTheStore.
func TestAllAlertsAreTested(t *testing.T) {
	t.Parallel()
	var names []string
	for _, a := range alerts(t) {
		names = append(names, a.name)
	}
	require.Equal(t, []string{
		"HeadwayPaused", "HeadwayPausedForHours", "HeadwayQuotaNearlySpent", "HeadwayWithoutStore", "HeadwayWaitsNearMaxWait", "HeadwayRefusals", "HeadwayProcessesDisagree",
		"HeadwayNotObserved",
	}, names)
}

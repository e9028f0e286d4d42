package otelpacer_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
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
	"github.com/headway-go/headway/policies/stripe"
	"github.com/headway-go/headway/policies/twilio"
	"github.com/headway-go/headway/policies/zendesk"
)

// An alert is a rule of the documentation.
type alert struct {
	name, expr string
	pending    time.Duration // its "for"
	since      map[string]time.Time
}

// alerts returns the rules of the documentation.
func alerts(t *testing.T) (all []*alert) {
	t.Helper()
	text, err := os.ReadFile(docs + ".md")
	require.NoError(t, err)
	_, rules, found := strings.Cut(string(text), "```yaml\n")
	require.True(t, found)
	rules, _, _ = strings.Cut(rules, "```")
	for _, rule := range strings.Split(rules, "- alert: ")[1:] {
		name, rest, _ := strings.Cut(rule, "\n")
		rest, _, found = strings.Cut(rest, "annotations:")
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

// comparison is `max by (a, b) (metric{c="d"}) > 1`: rules that are evaluated here have no other form, but for "unless on (a)" between two.
var comparison = regexp.MustCompile(`^(max|sum) by \(([^()]*)\) \((\w+)(?:\{(\w+)="([^"]*)"\})?\) > ([\d.]+)$`)

// compare evaluates a comparison by what a registry has.
func compare(t *testing.T, registry *prometheus.Registry, expr string) (above []series) {
	t.Helper()
	m := comparison.FindStringSubmatch(expr)
	require.NotNil(t, m, expr)
	least, err := strconv.ParseFloat(m[6], 64)
	require.NoError(t, err)
	families, err := registry.Gather()
	require.NoError(t, err)
	by, groups := strings.Split(m[2], ", "), make(map[string]*series)
	for _, f := range families {
		for _, one := range f.GetMetric() {
			s := series{make(map[string]string), one.GetGauge().GetValue() + one.GetCounter().GetValue()}
			for _, l := range one.GetLabel() {
				s.labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() != m[3] || m[4] != "" && s.labels[m[4]] != m[5] {
				continue
			}
			switch g := groups[s.key(by)]; {
			case g == nil:
				groups[s.key(by)] = &s
			case m[1] == "sum":
				g.value += s.value
			default:
				g.value = max(g.value, s.value)
			}
		}
	}
	for _, g := range groups {
		if g.value > least {
			above = append(above, *g)
		}
	}
	return above
}

// fires evaluates the rule, as Prometheus does now and then, and returns the policies that it fires for.
func (a *alert) fires(t *testing.T, registry *prometheus.Registry) (firing []string) {
	t.Helper()
	terms := strings.Split(a.expr, " unless on (")
	all := compare(t, registry, terms[0])
	for _, term := range terms[1:] {
		on, expr, _ := strings.Cut(term, ") ")
		by, not := strings.Split(on, ", "), compare(t, registry, expr)
		all = slices.DeleteFunc(all, func(s series) bool {
			return slices.ContainsFunc(not, func(other series) bool { return s.key(by) == other.key(by) })
		})
	}
	since := make(map[string]time.Time)
	for i := range all {
		policy := all[i].labels["headway_policy"]
		if since[policy] = a.since[policy]; since[policy].IsZero() {
			since[policy] = time.Now()
		}
		if time.Since(since[policy]) >= a.pending { //realtime: the tests of the alerts run in virtual time
			firing = append(firing, policy)
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
	for i, one := range stack {
		for _, scope := range one.Scopes() {
			if i == target || !one.IsOptional() {
				opts = append(opts, pacer.Scope(scope, "x"))
			}
		}
		if i != target && one.Spec().Algorithm != policies.Concurrency {
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
		s, err := p.Status(t.Context(), opts...)
		require.NoError(t, err)
		for i := range s.Policies {
			if s.Policies[i].Policy.Name() == name {
				return s.Policies[i].Remaining
			}
		}
		return 0
	}
	if spec.Algorithm == policies.Concurrency {
		for range (97*spec.Limit + 99) / 100 {
			defer call(0).Release()
		}
	}
	began, due := time.Now(), 0.0
	isQuota := spec.Algorithm == policies.Window || spec.Limit*spec.Interval >= (10*time.Minute).Microseconds()
	for n := range int(rule.pending/(10*time.Second)) + 20 {
		switch {
		case spec.Algorithm == policies.Concurrency:
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

package browsertest_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/page"
	"github.com/headway-go/headway/policies"
)

// hostile is a tenant that would like to be a script.
const hostile = `<script>window.hacked=1</script><img src=x onerror="window.hacked=1">`

// underLoad returns a pacer with callers that keep its rate busy, until the test ends.
func underLoad(t *testing.T) *pacer.Pacer {
	t.Helper()
	p, err := pacer.New(pacer.Config{Upstream: "zendesk", Policies: []policies.Policy{
		policies.PerSecond(20).Burst(2).Named("peak"), policies.Daily(100_000, time.UTC).Named("daily"),
		policies.PerSecond(5).Per("tenant").Named("tenant"),
	}})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	for _, tenant := range []string{"acme", "globex", "initech", "umbrella", hostile, "hooli"} {
		for range 2 {
			callers.Go(func() {
				ctx := pacer.With(ctx, pacer.Scope("tenant", tenant))
				for ctx.Err() == nil {
					if err := p.Wait(ctx, pacer.MaxWait(pacer.Forever)); err != nil && !errors.Is(err, context.Canceled) {
						return
					}
				}
			})
		}
	}
	t.Cleanup(func() {
		stop()
		callers.Wait()
		require.NoError(t, p.Close())
	})
	return p
}

// mount serves a page for p, and returns its address.
func mount(t *testing.T, p *pacer.Pacer, intervene bool) string {
	t.Helper()
	h, err := page.New(page.Config{Operators: []*fleet.Operator{fleet.Of(p)}, Intervene: intervene})
	require.NoError(t, err)
	url := serve(t, h)
	t.Cleanup(func() { require.NoError(t, h.Close()) }) // before the server, which waits for its streams
	return url
}

// inked counts the pixels of the first chart's right half that are not transparent, and adds up where they are.
const inked = `(() => {
	const canvas = document.querySelector('[data-policy="peak"] .chart.main canvas');
	const copy = document.createElement("canvas");
	copy.width = canvas.width / 2;
	copy.height = canvas.height;
	const pen = copy.getContext("2d", { willReadFrequently: true });
	pen.drawImage(canvas, -copy.width, 0);
	const { data } = pen.getImageData(0, 0, copy.width, copy.height);
	let sum = 0;
	for (let i = 3; i < data.length; i += 4) if (data[i] > 0) sum += i % 65521;
	return sum;
})()`

func TestChartsMove(t *testing.T) {
	t.Parallel()
	url := mount(t, underLoad(t), false)
	b := newTab(t, 1240, 900)
	b.open(url)
	b.until(`document.querySelectorAll(".policy").length === 3 && document.querySelectorAll("canvas").length >= 10`)
	seen := map[int64]bool{}
	require.Eventually(t, func() bool {
		seen[value[int64](b, inked)] = true
		return len(seen) >= 4
	}, patience, 200*time.Millisecond, "the pixels of the chart do not change")
	b.until(`parseFloat(document.querySelector('[data-policy="peak"] .caption b').textContent) > 0`)
	require.Equal(t, "zendesk · Headway", value[string](b, `document.title`))
	b.until(`document.getElementById("binding").textContent === "Calls wait for peak."`)
	require.NotEmpty(t, value[string](b, `document.querySelector('[data-policy="peak"] .chart.main').getAttribute("aria-label")`))
}

// A policy that keeps a margin shows it on its card.
func TestTheMarginShows(t *testing.T) {
	t.Parallel()
	p, err := pacer.New(pacer.Config{Upstream: "zendesk", Policies: []policies.Policy{policies.AtMost(50, time.Second).Named("peak")}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	b := newTab(t, 1240, 900)
	b.open(mount(t, p, false))
	b.until(`document.querySelector('[data-policy="peak"] .text').textContent.startsWith("at most 50")`)
	call, err := p.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, call.Report(t.Context(), policies.Feedback{Refused: true, Wait: time.Second}))
	b.until(`/; margin \d+ ms$/.test(document.querySelector('[data-policy="peak"] .text').textContent)`)
}

// A pause is shown: within a second, where the machine is not busy.
func TestPauseShowsWithinASecond(t *testing.T) {
	t.Parallel()
	p := underLoad(t)
	url := mount(t, p, false)
	b := newTab(t, 1240, 900)
	b.open(url)
	require.True(t, value[bool](b, `document.querySelector('[data-policy="peak"] .badge.paused').hidden`))
	require.NoError(t, p.Report(t.Context(), policies.Feedback{Policies: []string{"peak"}, Wait: 30 * time.Minute}, pacer.Scope("tenant", "acme")))
	b.showsPause()
	require.Contains(t, value[string](b, `document.querySelector('[data-policy="peak"] .badge.paused').textContent`), "paused for")
	b.until(`document.getElementById("why").dataset.state === "paused"`) // once the calls that wait are known to wait for this policy
	require.NoError(t, fleet.Of(p).Resume(t.Context(), pacer.Scope("tenant", "acme")))
	b.until(`document.querySelector('[data-policy="peak"] .badge.paused').hidden`)
}

func TestReadOnlyPageHasNoButtons(t *testing.T) {
	t.Parallel()
	b := newTab(t, 1240, 900)
	b.open(mount(t, underLoad(t), false))
	require.Zero(t, value[int](b, `document.querySelectorAll("button, input, form").length`))
	require.Contains(t, value[string](b, `document.getElementById("foot").textContent`), "This page is read-only.")
}

func TestInterveningPausesForReal(t *testing.T) {
	t.Parallel()
	p := underLoad(t)
	b := newTab(t, 1240, 900)
	b.open(mount(t, p, true))
	b.run(chromedp.Click(`#actions button[aria-label="Pause zendesk"]`), chromedp.WaitVisible(`#ask[open]`))
	require.Equal(t, "for", value[string](b, `document.activeElement.name`), "the first thing to say has the focus")

	// The dialog shows the server's refusal. The browser notes the refusal in its console, too.
	b.run(chromedp.SetValue(`#ask input[name="for"]`, "1000h"), chromedp.Click(`#ask button[type="submit"]`))
	b.until(`document.querySelector("#ask .error").textContent.includes("must be at most 744h0m0s")`)
	require.NotEmpty(t, b.forgive("400"))

	b.run(chromedp.SetValue(`#ask input[name="for"]`, "20m"), chromedp.Click(`#ask button[type="submit"]`))
	b.until(`!document.getElementById("ask").open && document.getElementById("said").textContent === "Paused the upstream for 20m0s."`)
	status, err := p.Status(t.Context(), pacer.Scope("tenant", "acme"))
	require.NoError(t, err)
	require.InDelta(t, 18, status.PausedFor.Minutes(), 2)
	b.until(`document.getElementById("binding").textContent === "The whole upstream is paused."`)

	b.run(chromedp.Click(`#actions button[aria-label="Resume zendesk"]`), chromedp.Click(`#ask button[type="submit"]`))
	b.until(`document.getElementById("why").dataset.state !== "paused"`)

	// A policy per tenant requires a tenant.
	b.run(chromedp.Click(`[data-policy="tenant"] .actions button`), chromedp.WaitVisible(`#ask[open] input[name="tenant"]`),
		chromedp.SendKeys(`#ask input[name="tenant"]`, "hooli"))
	require.Equal(t, "30s", value[string](b, `document.querySelector('#ask input[name="for"]').value`), "what is offered")
	b.run(chromedp.SetValue(`#ask input[name="for"]`, "30m"), chromedp.Click(`#ask button[type="submit"]`))
	b.until(`document.getElementById("said").textContent === "Paused tenant for tenant=hooli for 30m0s."`)
	status, err = p.Status(t.Context(), pacer.Scope("tenant", "hooli"))
	require.NoError(t, err)
	require.Zero(t, status.PausedFor)
	for i := range status.Policies {
		one := &status.Policies[i]
		require.Equal(t, one.Policy.Name() == "tenant", one.PausedFor > 25*time.Minute, one.Policy.Name())
	}
}

func TestKeyboard(t *testing.T) {
	t.Parallel()
	b := newTab(t, 1240, 900)
	b.open(mount(t, underLoad(t), true))
	b.run(chromedp.KeyEvent(kb.Tab))
	require.Equal(t, "skip", value[string](b, `document.activeElement.className`), "the skip link comes first")
	reached := map[string]bool{}
	for range 40 {
		b.run(chromedp.KeyEvent(kb.Tab))
		reached[value[string](b, `document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent`)] = true
		if reached["Processes"] {
			break
		}
	}
	for _, name := range []string{"zendesk", "Pause zendesk", "Resume zendesk", "Reset zendesk", "Pause peak", "Pause daily", "Busiest keys", "Processes"} {
		require.True(t, reached[name], "Tab does not reach %q, but %v", name, reached)
	}
	b.run(chromedp.Focus(`#actions button[aria-label="Reset zendesk"]`), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(`#ask[open]`))
	require.NotEqual(t, "none", value[string](b, `getComputedStyle(document.activeElement).outlineStyle`), "the focus is seen")
	b.run(chromedp.KeyEvent(kb.Escape))
	b.until(`!document.getElementById("ask").open`)
	require.Equal(t, "Reset zendesk", value[string](b, `document.activeElement.getAttribute("aria-label")`), "the focus is back where it was")
}

func TestHostileTenantIsHarmless(t *testing.T) {
	t.Parallel()
	source := &fixture{hostile: true}
	b := newTab(t, 1240, 900)
	b.open(serveSource(t, source))
	b.until(`document.querySelectorAll("#busiest tbody tr").length > 0`)
	require.Contains(t, value[string](b, `document.getElementById("busiest").textContent`), "tenant="+hostile, "it is shown as it is")
	require.Contains(t, value[string](b, `document.getElementById("processes").textContent`), hostile)
	require.Zero(t, value[int](b, `document.querySelectorAll("main script, main img").length`))
	require.Equal(t, "undefined", value[string](b, `typeof window.hacked`))
}

// The allowances that the upstream stated are shown with their end and their header, as text, while they hold; and the learned limits, with
// their header.
func TestAllowancesShow(t *testing.T) {
	t.Parallel()
	source := &fixture{}
	b := newTab(t, 1240, 900)
	b.open(serveSource(t, source))
	b.until(`document.querySelectorAll("#processes tbody tr").length === 4`)
	require.True(t, value[bool](b, `document.getElementById("left-section").hidden`))
	more := func(s *fleet.Snapshot) {
		s.PausedFor, s.PausedBy = 81654*time.Second, "Retry-After"
		s.Allowances = []pacer.Allowance{
			{For: 81654 * time.Second, Source: "Retry-After"}, {Policy: "tenant", Scope: "tenant=" + hostile, Left: 12, Free: 9, For: 90 * time.Second, Source: hostile},
		}
		s.Callers = []fleet.Caller{{Name: hostile, Policy: "account", Cost: 1234}}
		s.Learned = []fleet.Learned{
			{Name: "60", Limit: 60, Window: time.Minute, Source: "X-RateLimit", Readings: 1234, Since: time.Now()}, {Reset: time.Hour, Readings: 1, Source: hostile},
		}
	}
	source.more.Store(&more)
	b.until(`!document.getElementById("left-section").hidden && !document.getElementById("learned-section").hidden`)
	require.Regexp(t, `^No call starts for 22 h 40 min, until .+ \(Retry-After\)\.$`, value[string](b, `document.getElementById("because").textContent`))
	rows := `[...document.querySelectorAll("#left tbody tr")].map((r) => [...r.cells].map((c) => c.textContent).join("|"))`
	require.Regexp(t, `^upstream\|0\|0\|for 22 h 40 min, until .+ \(Retry-After\)$`, value[string](b, rows+`[0]`))
	require.Contains(t, value[string](b, rows+`[1]`), "tenant · tenant="+hostile+"|12|9|for 90 s, until ")
	learned := strings.ReplaceAll(rows, "#left", "#learned")
	require.Regexp(t, `^limit-60: at most 60 in any 1m, in 100 buckets\|–\|1,234\|.+\|X-RateLimit$`, value[string](b, learned+`[0]`))
	require.Regexp(t, `^upstream\|1 h\|1\|.+\|`+regexp.QuoteMeta(hostile)+`$`, value[string](b, learned+`[1]`))
	require.Equal(t, hostile+"|account|1,234", value[string](b, strings.ReplaceAll(rows, "#left", "#callers")+`[0]`))
	require.Equal(t, "undefined", value[string](b, `typeof window.hacked`))
	source.more.Store(nil)
	b.until(`document.getElementById("left-section").hidden && document.getElementById("learned-section").hidden`)
}

// Settings by hand and disagreements are shown as text, while they last.
func TestSettingsAndDisagreementsShow(t *testing.T) {
	t.Parallel()
	source := &fixture{}
	b := newTab(t, 1240, 900)
	b.open(serveSource(t, source))
	b.until(`document.querySelectorAll("#processes tbody tr").length === 4`)
	require.True(t, value[bool](b, `document.getElementById("disagree").hidden && document.getElementById("set").hidden`))
	require.Equal(t, "worker-1/311", value[string](b, `document.querySelector("#processes tbody th").textContent`))
	more := func(s *fleet.Snapshot) {
		s.VersionCount = 2
		s.Disagreements = []fleet.Disagreement{
			{Policy: "peak", ScopesDiffer: true, Sides: []fleet.Side{
				{Text: "peak: 10 per 1s", Processes: 3, Names: []string{"worker-1/311", hostile}},
				{Text: "peak: 20 per 1s", Processes: 1, Names: []string{"worker-3/314"}},
			}},
			{Policy: "daily", Sides: []fleet.Side{{Text: "daily: 5 daily (UTC)", Processes: 1, Names: []string{"a"}}, {Processes: 1, Names: []string{"b"}}}},
		}
		s.Settings = &fleet.Settings{
			At: s.At, Policies: &fleet.Setting{Text: "peak: 10 per 1s, per tenant" + strings.Repeat("\nfor \"acme\": 5 per 1s", 26)},
			Limits: []fleet.Setting{{Policy: "tenant", Scope: "tenant=" + hostile, Text: "tenant: 5 per 1s, per tenant", Until: s.At.Add(2 * time.Hour)}},
		}
		s.SetLimits = 3
		s.Processes[0].Version, s.Processes[0].Source = "5f0c", "set at noon"
	}
	source.more.Store(&more)
	b.until(`!document.getElementById("disagree").hidden && !document.getElementById("set").hidden`)
	list := func(id string) string {
		return value[string](b, `[document.querySelector("#`+id+` p"), ...document.querySelectorAll("#`+id+` li")].map((n) => n.textContent).join("|")`)
	}
	require.Equal(t, "Processes disagree: 2 versions of the policies are in use. This is normal during a rolling deployment, and for a minute after a change."+
		"|worker-1/311, "+hostile+" and 1 more have peak: 10 per 1s; "+
		"worker-3/314 has peak: 20 per 1s: these are separate accounts, because their scopes differ"+
		"|a has daily: 5 daily (UTC); b has no policy daily", list("disagree"))
	require.Equal(t, "Set by hand, for every process:|Policies: peak: 10 per 1s, per tenant"+strings.Repeat("; for \"acme\": 5 per 1s", 23)+"; 3 more lines|"+
		"tenant="+hostile+": tenant: 5 per 1s, per tenant, for 2 h|2 more limits", list("set"))
	require.Equal(t, "worker-1/311 · 5f0c · policies set at noon", value[string](b, `document.querySelector("#processes tbody th").textContent`))
	require.Equal(t, "undefined", value[string](b, `typeof window.hacked`))
	source.more.Store(nil)
	b.until(`document.getElementById("disagree").hidden && document.getElementById("set").hidden`)
}

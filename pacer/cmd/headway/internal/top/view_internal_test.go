package top

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/policies"
)

// The view fills a terminal of any size, and no line is wider than it.
func TestViewFitsAnySize(t *testing.T) {
	t.Parallel()
	for width := 1; width <= 200; width += 3 {
		for _, height := range []int{1, 2, 4, 7, 12, 24, 50} {
			for _, mode := range []mode{watching, helping, pausing, resuming} {
				m := drawn(t, width, height, termenv.ANSI256)
				m.mode = mode
				lines := strings.Split(m.View(), "\n")
				require.Len(t, lines, height, "%dx%d", width, height)
				for _, line := range lines {
					require.LessOrEqual(t, ansi.StringWidth(line), width, "%dx%d: %q", width, height, line)
				}
			}
		}
	}
}

// At 80×24 everything important is there, and at 40 columns the waiting calls and the pauses.
func TestViewAt80And40Columns(t *testing.T) {
	t.Parallel()
	text := show(t, drawn(t, 80, 24, termenv.Ascii)).Text()
	for _, want := range []string{
		"zendesk: 3 processes pace it, 54 calls wait", "14:05:12, counted until 2s ago", "binding: account, 38 calls wait for it",
		"POLICY", "PACE", "LIMIT", "USED", "LEFT", "QUEUED", "WAITING", "PAUSED", "MINUTE",
		"account       11.4/s     11.7/s", "11.4/s     50k/1d", "25 at once", "tenant         9.1/s        2/s ███████", "41s",
		"at most 700 in any 1m", "used 98 % · next 86ms · charged ahead 9", "BUSIEST KEYS", "tenant=acme tenant",
		"q quit   p pause   r resume   ↑↓ choose   ? help",
	} {
		require.Contains(t, text, want)
	}
	narrow := show(t, drawn(t, 40, 24, termenv.Ascii)).Text()
	require.Contains(t, narrow, "account       11.4/s      38        -")
	require.Contains(t, narrow, "exports          0/s       4      41s")
	require.NotContains(t, narrow, "LIMIT")
}

// The margin of a policy is shown with its state, and when a window will be spent.
func TestViewOfAMargin(t *testing.T) {
	t.Parallel()
	m := drawn(t, 120, 24, termenv.Ascii)
	require.NotContains(t, m.View(), "margin")
	m.snapshot.Policies[0].Margin = 17 * time.Millisecond
	require.Contains(t, m.View(), "charged ahead 9 · margin 17ms")
	m.snapshot.Policies[0].Gone = 90 * time.Minute
	require.Contains(t, m.View(), "charged ahead 9 · at this pace, gone at "+m.snapshot.At.Add(90*time.Minute).Format(time.TimeOnly)+" · margin 17ms")
}

// Without colours only text is written, and a character marks the choice.
func TestViewWithoutColours(t *testing.T) {
	t.Parallel()
	m := drawn(t, 80, 24, termenv.Ascii)
	m.move(1)
	require.NotContains(t, m.View(), "\x1b")
	require.Contains(t, m.View(), "▸ account")
	require.Contains(t, drawn(t, 80, 24, termenv.ANSI256).View(), "\x1b[")
}

// An error is shown with how old the rest is, and texts of a store or a process cannot steer the terminal.
func TestViewOfAnError(t *testing.T) {
	t.Parallel()
	m := drawn(t, 100, 24, termenv.Ascii)
	m.err = errors.New("dial tcp: refused\x1b[2J")
	m.now = func() time.Time { return m.seen.Add(12 * time.Second) }
	m.snapshot.Processes[0].Name = "evil\x1b[2J"
	m.snapshot.TopKeys[0].Scope = "tenant=\x1b]0;x\a"
	view := m.View()
	require.NotContains(t, view, "\x1b")
	require.Contains(t, view, "state of 12s ago, still trying: dial tcp: refused?[2J")
	require.Contains(t, view, "evil?[2J")
}

// With --by caller, what callers spent is in the place of the busiest keys.
func TestViewByCaller(t *testing.T) {
	t.Parallel()
	m := drawn(t, 100, 30, termenv.Ascii)
	m.ByCaller = true
	m.snapshot.Callers = []fleet.Caller{{Name: "sync/contacts\x1b", Policy: "account", Cost: 412}}
	view := m.View()
	require.NotContains(t, view, "BUSIEST")
	require.Regexp(t, `CALLERS +MINUTE`, view)
	require.Regexp(t, `sync/contacts\? account +412`, view)
}

// More policies than lines: those around the chosen one show.
func TestViewScrolls(t *testing.T) {
	t.Parallel()
	m := drawn(t, 80, 12, termenv.Ascii)
	m.snapshot.Policies = nil
	for i := range 40 {
		p := policies.PerSecond(5).Named(fmt.Sprintf("p%02d", i))
		m.snapshot.Policies = append(m.snapshot.Policies, fleet.Policy{PolicyStatus: pacer.PolicyStatus{Policy: p}, Shown: true})
	}
	require.Contains(t, m.View(), " upstream ")
	require.NotContains(t, m.View(), "p20")
	m.chosen = "p20"
	require.Contains(t, m.View(), "▸ p20")
	require.NotContains(t, m.View(), " upstream ")
	m.move(-22)
	require.Contains(t, m.View(), "▸ p39")
}

func TestViewOfAnUpstreamWithoutPolicies(t *testing.T) {
	t.Parallel()
	m := drawn(t, 80, 24, termenv.Ascii)
	m.snapshot = &fleet.Snapshot{Upstream: "zendesk", PausedFor: 90 * time.Second, Alive: 1, At: m.snapshot.At, Counted: m.snapshot.At}
	require.Contains(t, m.View(), "paused: the whole upstream, for 1m30s, until 14:06:42")
	require.NotContains(t, m.View(), "disagree")
	m.snapshot.PausedBy, m.snapshot.Allowances = "Retry-After", []pacer.Allowance{{Left: 3, For: time.Second, Source: "X-Limit"}, {Policy: "other", Left: 4}}
	require.Contains(t, m.View(), "paused: the whole upstream, for 1m30s, until 14:06:42 (Retry-After)\nsaid to be left 3 for 1s, until 14:05:13 (X-Limit)\n")
	m.snapshot.VersionCount = 2
	require.Contains(t, m.View(), "\nprocesses disagree: 2 versions of the policies are in use: see headway status\n")
}

func TestCharts(t *testing.T) {
	t.Parallel()
	filled, rest := bar(0.5, 10)
	require.Equal(t, []string{"█████", "·····"}, []string{filled, rest})
	filled, rest = bar(0.33, 10)
	require.Equal(t, []string{"███▎", "······"}, []string{filled, rest})
	filled, rest = bar(7, 3)
	require.Equal(t, []string{"███", ""}, []string{filled, rest})
	filled, rest = bar(-1, 3)
	require.Equal(t, []string{"", "···"}, []string{filled, rest})
	require.Equal(t, []float64{1.5, 3.5}, fit([]float64{1, 2, 3, 4}, 2))
	require.Equal(t, []float64{1, 1, 2, 2}, fit([]float64{1, 2}, 4))
	require.Equal(t, []float64{0, 0}, fit(nil, 2))
	require.Equal(t, []string{" ▁▄▇"}, chart([]float64{0, 0.01, 5, 10}, 10, 1))
	require.Equal(t, []string{"  ▄█", " ███"}, chart([]float64{0, 4, 6, 8}, 8, 2))
	require.Equal(t, []string{"  "}, chart([]float64{0, 0}, 0, 1))
}

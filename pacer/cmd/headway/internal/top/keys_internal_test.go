package top

import (
	"context"
	"errors"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/muesli/termenv"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
)

// A pause is one that was requested.
type pause struct {
	d     time.Duration
	names []string
}

// operator notes what is done.
type operator struct {
	snapshot *fleet.Snapshot
	err      error
	looks    int
	paused   []pause
	resumed  int
	scopes   int // how many scopes the last intervention had
}

func (o *operator) Snapshot(context.Context, ...pacer.ScopeOption) (*fleet.Snapshot, error) {
	o.looks++
	return o.snapshot, o.err
}

func (o *operator) Pause(_ context.Context, d time.Duration, names []string, opts ...pacer.ScopeOption) error {
	o.paused, o.scopes = append(o.paused, pause{d, names}), len(opts)
	return o.err
}

func (o *operator) Resume(_ context.Context, opts ...pacer.ScopeOption) error {
	o.resumed, o.scopes = o.resumed+1, len(opts)
	return o.err
}

func started(t *testing.T) (*model, *operator) {
	t.Helper()
	m := drawn(t, 100, 30, termenv.Ascii)
	op := &operator{snapshot: scene()}
	m.Connect = func(context.Context) (Operator, error) { return op, op.err }
	return m, op
}

// press sends keys, and runs their commands until there are no more.
func press(t *testing.T, m *model, keys ...string) {
	t.Helper()
	for _, k := range keys {
		msg := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(k)}
		for kind, name := range map[tea.KeyType]string{
			tea.KeyEnter: "enter", tea.KeyEsc: "esc", tea.KeyDown: "down", tea.KeyUp: "up", tea.KeyTab: "tab", tea.KeyBackspace: "backspace",
		} {
			if k == name {
				msg = tea.KeyMsg{Type: kind}
			}
		}
		_, cmd := m.Update(msg)
		for cmd != nil {
			_, cmd = m.Update(cmd())
		}
	}
}

func TestPauseOfTheWholeUpstream(t *testing.T) {
	t.Parallel()
	m, op := started(t)
	m.Scopes = []pacer.ScopeOption{pacer.Scope("tenant", "acme")}
	press(t, m, "p")
	require.Contains(t, m.View(), "Pause all of zendesk for how long?")
	press(t, m, "9", "X", "enter")
	require.Contains(t, m.View(), `"9" is not a duration`)
	require.Empty(t, op.paused)
	press(t, m, "backspace", "10m", "enter")
	require.Equal(t, []pause{{d: 10 * time.Minute}}, op.paused)
	require.Zero(t, op.scopes, "scopes would narrow it")
	require.Contains(t, m.View(), "paused all of zendesk for 10m")
	require.Equal(t, 1, op.looks, "what was done shows at once")
}

func TestPauseOfAPolicy(t *testing.T) {
	t.Parallel()
	m, op := started(t)
	press(t, m, "down", "tab", "tab", "up", "p", "q", "esc")
	require.Empty(t, op.paused, "q was typed, and esc leaves")
	press(t, m, "p", "30s", "enter")
	require.Equal(t, []string{"day"}, op.paused[0].names)

	m.chosen = "tenant"
	press(t, m, "p")
	require.Contains(t, m.View(), "to pause one, start top with --scope tenant=VALUE")
	require.Equal(t, watching, m.mode)
}

func TestResumeAsks(t *testing.T) {
	t.Parallel()
	m, op := started(t)
	press(t, m, "r", "n")
	require.Zero(t, op.resumed)
	require.Contains(t, m.View(), "nothing was resumed")
	press(t, m, "r")
	require.Contains(t, m.View(), "Lift all pauses of zendesk?")
	press(t, m, "y")
	require.Equal(t, 1, op.resumed)
	require.Contains(t, m.View(), "resumed zendesk")
}

func TestHelpAndQuit(t *testing.T) {
	t.Parallel()
	m, _ := started(t)
	press(t, m, "?")
	require.Contains(t, m.View(), "WAITING  calls that wait")
	press(t, m, "x")
	require.NotContains(t, m.View(), "calls that wait because")
	for _, k := range []tea.KeyMsg{{Type: tea.KeyRunes, Runes: []rune("q")}, {Type: tea.KeyCtrlC}} {
		_, cmd := m.Update(k)
		require.Equal(t, tea.Quit(), cmd())
	}
}

// A store that fails is shown, and tried again at the next tick; one that hangs is not called twice.
func TestStoreErrors(t *testing.T) {
	t.Parallel()
	m, op := started(t)
	op.err = errors.New("out of reach")
	look := m.look()
	require.Nil(t, m.look(), "one look at a time")
	m.Update(look())
	require.Contains(t, m.View(), "still trying: out of reach")
	require.Contains(t, m.View(), "account", "what was known stays")
	press(t, m, "r", "y")
	require.Contains(t, m.View(), "failed: out of reach")
	op.err = nil
	m.Update(m.look()())
	require.Contains(t, m.View(), "failed: out of reach", "until the next key")
	require.NotContains(t, m.View(), "still trying")
}

// A chosen policy stays chosen when policies come and go.
func TestChosenPolicyStays(t *testing.T) {
	t.Parallel()
	m, op := started(t)
	m.chosen = "exports"
	op.snapshot.Policies = op.snapshot.Policies[2:]
	m.Update(m.look()())
	require.Contains(t, m.View(), "▸ exports")
	op.snapshot.Policies = op.snapshot.Policies[1:]
	m.Update(m.look()())
	require.Contains(t, m.View(), "▸ upstream")
}

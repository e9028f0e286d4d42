package top

import (
	"context"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/report"
	"github.com/headway-go/headway/pacer/fleet"
)

// mode is what keys are for.
type mode uint8

const (
	watching mode = iota
	helping
	pausing  // somebody types for how long
	resuming // a question is open
)

// model is the state of the view.
type model struct {
	Config

	ctx    context.Context //nolint:containedctx // bubbletea's commands take none
	styles styles

	width, height int
	snapshot      *fleet.Snapshot
	seen          time.Time // when fleet came
	err           error     // why there was none since
	looking       bool      // a look is under way
	chosen        string    // the policy that keys are about; "" for the whole upstream
	mode          mode
	input         string // what was typed
	wrong         string // what is wrong with it
	message       string // what an intervention has done
	now           func() time.Time
}

func newModel(ctx context.Context, c Config, s styles) *model {
	return &model{Config: c, ctx: ctx, styles: s, snapshot: c.Snapshot, seen: time.Now(), width: 80, height: 24, now: time.Now}
}

// Messages to the model.
type (
	tickMsg     struct{}
	snapshotMsg struct {
		snapshot *fleet.Snapshot
		err      error
	}
	doneMsg string
)

// Init implements [tea.Model].
func (m *model) Init() tea.Cmd { return tick() }

func tick() tea.Cmd {
	return tea.Tick(refresh, func(time.Time) tea.Msg { return tickMsg{} })
}

// Update implements [tea.Model].
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tickMsg:
		return m, tea.Batch(tick(), m.look())
	case snapshotMsg:
		m.looking, m.err = false, msg.err
		if msg.err == nil {
			m.snapshot, m.seen = msg.snapshot, m.now()
		}
	case doneMsg:
		m.message = string(msg)
		return m, m.look()
	case tea.KeyMsg:
		return m, m.key(msg)
	}
	return m, nil
}

// look returns a command that reads the upstream, unless one is running.
func (m *model) look() tea.Cmd {
	if m.looking {
		return nil
	}
	m.looking = true
	return func() tea.Msg {
		var f *fleet.Snapshot
		err := m.with(func(ctx context.Context, op Operator) (err error) {
			f, err = op.Snapshot(ctx, m.Scopes...)
			return err
		})
		return snapshotMsg{f, err}
	}
}

// act returns a command that intervenes, and shows that.
func (m *model) act(message string, f func(context.Context, Operator) error) tea.Cmd {
	return func() tea.Msg {
		if err := m.with(f); err != nil {
			return doneMsg("failed: " + report.Clean(err.Error()))
		}
		return doneMsg(message)
	}
}

// with calls f with an operator, within the timeout.
func (m *model) with(f func(context.Context, Operator) error) error {
	ctx, cancel := context.WithTimeout(m.ctx, m.Timeout)
	defer cancel()
	op, err := m.Connect(ctx)
	if err != nil {
		return err
	}
	return f(ctx, op)
}

// policy returns the chosen policy; nil for the whole upstream.
func (m *model) policy() *fleet.Policy {
	if i := m.row(); i > 0 {
		return &m.snapshot.Policies[i-1]
	}
	return nil
}

// row returns the chosen row: 0 is the whole upstream, also if the chosen policy has gone.
func (m *model) row() int {
	for i := range m.snapshot.Policies {
		if m.snapshot.Policies[i].Policy.Name() == m.chosen {
			return i + 1
		}
	}
	return 0
}

// move chooses another row.
func (m *model) move(by int) {
	n := len(m.snapshot.Policies) + 1
	row := ((m.row()+by)%n + n) % n
	m.chosen = ""
	if row > 0 {
		m.chosen = m.snapshot.Policies[row-1].Policy.Name()
	}
}

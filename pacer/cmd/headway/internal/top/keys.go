package top

import (
	"context"
	"fmt"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/report"
)

// key handles a key.
func (m *model) key(k tea.KeyMsg) tea.Cmd {
	if k.Type == tea.KeyCtrlC {
		return tea.Quit
	}
	switch m.mode {
	case pausing:
		return m.typed(k)
	case resuming:
		return m.answered(k)
	case helping:
		m.mode = watching
		if k.String() == "q" {
			return tea.Quit
		}
		return nil
	case watching:
		m.message = ""
	}
	switch k.String() {
	case "q", "esc":
		return tea.Quit
	case "down", "tab", "j":
		m.move(1)
	case "up", "shift+tab", "k":
		m.move(-1)
	case "?", "h":
		m.mode = helping
	case "p":
		m.askPause()
	case "r":
		m.mode = resuming
	}
	return nil
}

// target returns what is chosen, for people.
func (m *model) target() string {
	p := m.policy()
	switch {
	case p == nil:
		return "all of " + m.Upstream
	case p.Scope != "":
		return p.Policy.Name() + " for " + report.Scope(p.Scope)
	}
	return p.Policy.Name()
}

func (m *model) askPause() {
	if p := m.policy(); p != nil && report.PerKey(p) {
		m.message = fmt.Sprintf("%s is per %s: to pause one, start top with --scope %s=VALUE", p.Policy.Name(), p.Policy.Scopes()[0], p.Policy.Scopes()[0])
		return
	}
	m.mode, m.input, m.wrong = pausing, "", ""
}

// maxInput bounds a typed duration: no meaningful one is longer.
const maxInput = 16

// typed handles a key while a duration is typed.
func (m *model) typed(k tea.KeyMsg) tea.Cmd {
	switch k.String() {
	case "esc":
		m.mode = watching
	case "backspace":
		if n := len(m.input); n > 0 {
			m.input = m.input[:n-1]
		}
	case "enter":
		return m.pause()
	default:
		for _, r := range k.Runes {
			if (r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r == '.') && len(m.input) < maxInput {
				m.input += string(r)
			}
		}
	}
	return nil
}

// pause pauses the chosen policy for the typed duration.
func (m *model) pause() tea.Cmd {
	d, err := report.ParseDuration(m.input)
	if err != nil {
		m.wrong = err.Error()
		return nil
	}
	m.mode = watching
	what, scopes := m.target(), m.Scopes
	var names []string
	if p := m.policy(); p != nil {
		names = []string{p.Policy.Name()}
	} else {
		scopes = nil // a call without scopes is about the whole upstream
	}
	return m.act(fmt.Sprintf("paused %s for %s", what, report.Duration(d)), func(ctx context.Context, op Operator) error {
		return op.Pause(ctx, d, names, scopes...)
	})
}

// answered handles the answer to whether to resume.
func (m *model) answered(k tea.KeyMsg) tea.Cmd {
	m.mode = watching
	if k.String() != "y" && k.String() != "Y" {
		m.message = "nothing was resumed"
		return nil
	}
	return m.act("resumed "+m.Upstream, func(ctx context.Context, op Operator) error {
		return op.Resume(ctx, m.Scopes...)
	})
}

package top

import (
	"context"
	"io"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
)

// An Operator reads the upstream and intervenes. A *fleet.Operator is one.
type Operator interface {
	Snapshot(ctx context.Context, opts ...pacer.ScopeOption) (*fleet.Snapshot, error)
	Pause(ctx context.Context, d time.Duration, names []string, opts ...pacer.ScopeOption) error
	Resume(ctx context.Context, opts ...pacer.ScopeOption) error
}

// A Config sets what is shown, and where.
type Config struct {
	Upstream string
	Scopes   []pacer.ScopeOption // of the policies that have scopes
	Snapshot *fleet.Snapshot     // how it stands at the start
	Timeout  time.Duration       // of a look or an intervention
	ByCaller bool                // what callers spent, in place of the busiest keys

	// Connect is called before each reading and each intervention, for the policies that processes have then.
	Connect func(context.Context) (Operator, error)

	In  io.Reader
	Out io.Writer // a terminal
}

// refresh is how often the view looks.
const refresh = time.Second

// Run shows the view until the user quits it, or ctx ends.
func Run(ctx context.Context, c Config) error {
	m := newModel(ctx, c, newStyles(lipgloss.NewRenderer(c.Out)))
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(c.In), tea.WithOutput(c.Out), tea.WithAltScreen()).Run()
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it ended on request
	}
	return err
}

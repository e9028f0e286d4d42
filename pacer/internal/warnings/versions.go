package warnings

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/internal/telemetry"
)

// Intervals of the warning that processes have different policies.
const (
	disagreeFor    = 3 * time.Minute // what is over by then was a change on its way: all processes have reported again
	disagreesEvery = time.Hour
)

// disagreements are shared by all Pacers of the process.
var disagreements = telemetry.Throttle{Every: disagreesEvery, Most: maxWarnings} //nolint:gochecknoglobals // a log is the process's

// A Versions logs that the processes of an upstream have different policies. A nil one may be closed.
type Versions struct {
	log

	source func() string // who set the policies of this process; "" for itself

	mu    sync.Mutex
	since time.Time // when it was first seen that they differ; zero while they do not
}

// NewVersions returns the log of an upstream's processes. source returns who set the policies of this process; "" for itself. A nil logger
// is slog's default one at the time of a line.
func NewVersions(logger *slog.Logger, upstream string, source func() string) *Versions {
	l := &Versions{source: source}
	l.init(logger, upstream)
	return l
}

// Seen records how many different lists of policies processes have reported lately.
func (l *Versions) Seen(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n <= 1 {
		l.since = time.Time{}
		return
	}
	if l.since.IsZero() {
		l.since = time.Now()
	}
	if lasts := time.Since(l.since); !l.closed.Load() && lasts >= disagreeFor && disagreements.May(l.upstream) == 0 {
		l.write(func(logger *slog.Logger) { l.warn(logger, n, lasts) })
	}
}

func (l *Versions) warn(logger *slog.Logger, n int, lasts time.Duration) {
	from := l.source()
	if from == "" {
		from = "its code or file"
	}
	logger.LogAttrs(context.Background(), slog.LevelWarn, "headway: processes have different policies for this upstream", slog.String("upstream", l.upstream),
		slog.Int("versions", n), slog.Duration("for", lasts.Round(time.Second)), slog.String("policies", from),
		slog.String("check", "a rolling deployment ends this by itself; headway status shows who has which policies"))
}

// Close ends the log.
func (l *Versions) Close() {
	if l == nil {
		return
	}
	l.closed.Store(true)
}

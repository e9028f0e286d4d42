package warnings

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/pacer/internal/failover"
	"github.com/headway-go/headway/pacer/internal/telemetry"
)

// maxLines is the most lines that wait for a busy logger. Further ones are dropped, and counted.
const maxLines = 16

// A log writes lines in a goroutine of its own, so that neither a call nor a heartbeat waits for a logger.
type log struct {
	logger   *slog.Logger // nil for slog's default one at that time
	upstream string
	lines    telemetry.Queue
	closed   atomic.Bool
}

// init makes the log ready for use.
func (l *log) init(logger *slog.Logger, upstream string) {
	l.logger, l.upstream, l.lines.Most, l.lines.Dropped = logger, upstream, maxLines, l.dropped
}

// dropped writes a line about dropped lines.
func (l *log) dropped(n int64) {
	l.line(func(logger *slog.Logger) {
		logger.LogAttrs(context.Background(), slog.LevelWarn, "headway: the logger is too slow, lines were dropped",
			slog.String("upstream", l.upstream), slog.Int64("lines", n))
	})
}

// write schedules a line.
func (l *log) write(line func(*slog.Logger)) { l.lines.Add(func() { l.line(line) }) }

// line writes a line, unless the log is closed.
func (l *log) line(write func(*slog.Logger)) {
	logger := l.logger
	if logger == nil {
		logger = slog.Default()
	}
	if !l.closed.Load() {
		write(logger)
	}
}

// Intervals of warnings. They grow with the outage.
const (
	warnEvery   = time.Minute
	warnSeldom  = 10 * time.Minute
	maxWarnings = 1024 // upstreams with a remembered warning
)

// losses are shared by all Pacers of the process.
var losses = telemetry.Throttle{Every: warnEvery, Most: maxWarnings} //nolint:gochecknoglobals // a log is the process's

// A Store logs that the shared store is lost, or back, and long waits. A nil one logs nothing.
type Store struct {
	log

	outage string

	mu       sync.Mutex
	lost     bool
	since    time.Time
	loss     failover.Change
	back     failover.Change
	warned   int // warnings about the present loss
	returned int // returns that wait to be logged
	timer    *time.Timer
}

// NewStore returns the log of an upstream's store. outage describes how calls are treated meanwhile. A nil logger is slog's default one at
// the time of a line.
func NewStore(logger *slog.Logger, upstream, outage string) *Store {
	l := &Store{outage: outage}
	l.init(logger, upstream)
	return l
}

// Changed records a loss or a return.
func (l *Store) Changed(c failover.Change) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed.Load():
		return
	case c.Lost:
		if !l.lost {
			l.lost, l.warned, l.since = true, 0, time.Now()
		}
		l.loss = c
	default:
		if l.lost && l.warned > 0 {
			l.returned, l.back = 1, c
		}
		l.lost = false
	}
	l.speakIn(0)
}

// speakIn schedules speak. The caller holds mu.
func (l *Store) speakIn(d time.Duration) {
	if l.timer == nil {
		l.timer = time.AfterFunc(d, l.speak)
	} else {
		l.timer.Reset(d)
	}
}

// speak has logged the pending lines.
func (l *Store) speak() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return
	}
	if l.returned > 0 {
		l.returned = 0
		l.change(l.back)
	}
	if !l.lost {
		return
	}
	if again := losses.May(l.upstream); again > 0 {
		l.speakIn(again)
		return
	}
	loss := l.loss
	loss.For = time.Since(l.since)
	l.change(loss)
	l.speakIn(min(warnEvery<<min(l.warned, 10), warnSeldom))
	l.warned++
}

func (l *Store) change(c failover.Change) {
	l.write(func(logger *slog.Logger) { LogChange(logger, l.upstream, l.outage, c) })
}

// Close ends the log.
func (l *Store) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed.Store(true)
	if l.timer != nil {
		l.timer.Stop()
	}
}

// LogChange logs a loss or a return of an upstream's store. outage describes how calls are treated meanwhile.
func LogChange(logger *slog.Logger, upstream, outage string, c failover.Change) {
	ctx, attrs := context.Background(), []slog.Attr{slog.String("upstream", upstream)}
	switch {
	case !c.Lost:
		if c.For > 0 {
			attrs = append(attrs, slog.Duration("after", c.For))
		}
		if c.Dropped > 0 {
			attrs = append(attrs, slog.Int("dropped", c.Dropped))
		}
		logger.LogAttrs(ctx, slog.LevelInfo, "headway: the store is back", attrs...)
		return
	case c.Never, c.Processes == 0:
		attrs = append(attrs, slog.String("calls", "wait for it, unless Config.Processes or Config.Outage lets them go"), slog.String("check", "address, network, ACL"))
	default:
		attrs = append(attrs, slog.String("outage", outage), slog.Int("processes", c.Processes))
	}
	if lasts := c.For.Truncate(time.Second); lasts > 0 { // the first line of a loss comes with it
		attrs = append(attrs, slog.Duration("for", lasts))
	}
	text := "headway: the store is lost"
	if c.Never {
		text = "headway: the store has not answered since this process started"
	}
	logger.LogAttrs(ctx, slog.LevelWarn, text, append(attrs, slog.Any("error", c.Err))...)
}

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

// A Wait is one of over an hour that an upstream stated.
type Wait struct {
	Upstream, Policy, Scope string
	Source                  string        // where it was stated
	For                     time.Duration // from now
}

// Stated logs a wait.
func (l *Store) Stated(w Wait) {
	if l != nil {
		l.write(func(logger *slog.Logger) { LogWait(context.Background(), logger, w) })
	}
}

// LogWait logs a wait.
func LogWait(ctx context.Context, logger *slog.Logger, w Wait) {
	var attrs []slog.Attr
	for _, a := range [...]slog.Attr{
		slog.String("upstream", w.Upstream), slog.String("policy", w.Policy), slog.String("scope", w.Scope), slog.String("by", w.Source),
	} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	logger.LogAttrs(ctx, slog.LevelWarn, "headway: calls must wait for over an hour", append(attrs, slog.Duration("for", w.For),
		slog.Time("until", time.Now().Add(w.For)), slog.String("check", "headway status shows until when; headway resume ends it"))...)
}

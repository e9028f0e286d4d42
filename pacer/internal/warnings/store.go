package warnings

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/internal/failover"
	"github.com/headway-go/headway/pacer/internal/telemetry"
)

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

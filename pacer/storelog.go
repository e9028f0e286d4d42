package pacer

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/internal/failover"
	"github.com/headway-go/headway/pacer/internal/telemetry"
)

// Intervals of warnings. While the store is lost, they come the more rarely the longer that lasts.
const (
	warnEvery   = time.Minute
	warnSeldom  = 10 * time.Minute
	maxWarnings = 1024 // upstreams of which it is remembered when there was one
)

// warnings are of all Pacers of the process together.
var warnings = telemetry.Throttle{Every: warnEvery, Most: maxWarnings} //nolint:gochecknoglobals // a log is the process's

// A storeLog logs that the shared store is lost, or back. A line is written in a goroutine of its own, so that no call waits for a log.
type storeLog struct {
	logger   *slog.Logger // nil for slog's default one at that time
	upstream string
	outage   Outage

	mu       sync.Mutex
	closed   bool
	lost     bool
	since    time.Time
	loss     failover.Change
	back     failover.Change
	warned   int // so many warnings about the present loss
	returned int // so many returns are to be logged
	timer    *time.Timer
}

// changed takes note of a loss or a return.
func (l *storeLog) changed(c failover.Change) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
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

// speakIn has speak called. The caller holds mu.
func (l *storeLog) speakIn(d time.Duration) {
	if l.timer == nil {
		l.timer = time.AfterFunc(d, l.speak)
	} else {
		l.timer.Reset(d)
	}
}

// speak logs what is to be logged now.
func (l *storeLog) speak() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	logger := l.logger
	if logger == nil {
		logger = slog.Default()
	}
	h := hookLog{logger}
	if l.returned > 0 {
		l.returned = 0
		h.failover(l.event(l.back))
	}
	if !l.lost {
		return
	}
	if again := warnings.May(l.upstream); again > 0 {
		l.speakIn(again)
		return
	}
	loss := l.loss
	loss.For = time.Since(l.since)
	h.failover(l.event(loss))
	l.speakIn(min(warnEvery<<min(l.warned, 10), warnSeldom))
	l.warned++
}

// event returns a change as hooks receive it.
func (l *storeLog) event(c failover.Change) Failover { return failoverEvent(l.upstream, l.outage, c) }

// close ends the log.
func (l *storeLog) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
}

// failoverEvent returns a change as hooks receive it.
func failoverEvent(upstream string, outage Outage, c failover.Change) Failover {
	return Failover{Upstream: upstream, On: c.Lost, Never: c.Never, Outage: outage, Processes: c.Processes, For: c.For, Err: c.Err, Dropped: c.Dropped}
}

// failover logs a loss or a return of the store.
func (l hookLog) failover(f Failover) {
	ctx, attrs := context.Background(), of(f.Upstream, "", "")
	switch {
	case !f.On:
		level, attrs := slog.LevelInfo, append(attrs, slog.Duration("after", f.For))
		if f.Dropped > 0 {
			level, attrs = slog.LevelWarn, append(attrs, slog.Int("dropped", f.Dropped))
		}
		l.LogAttrs(ctx, level, "headway: the store is back", attrs...)
		return
	case f.Never:
		attrs = append(attrs, slog.String("calls", "wait for it, unless Config.Processes or Config.Outage lets them go"), slog.String("check", "address, network, ACL"))
	default:
		attrs = append(attrs, slog.String("outage", f.Outage.String()), slog.Int("processes", f.Processes))
	}
	if f.For > 0 {
		attrs = append(attrs, slog.Duration("for", f.For))
	}
	text := "headway: the store is lost"
	if f.Never {
		text = "headway: the store has not answered since this process started"
	}
	l.LogAttrs(ctx, slog.LevelWarn, text, append(attrs, slog.Any("error", f.Err))...)
}

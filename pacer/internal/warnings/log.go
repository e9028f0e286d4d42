package warnings

import (
	"context"
	"log/slog"
	"sync/atomic"

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

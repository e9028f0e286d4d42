package warnings

import (
	"context"
	"log/slog"
	"time"
)

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

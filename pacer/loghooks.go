package pacer

import (
	"context"
	"log/slog"
	"time"
)

// longSleep is from when on a sleep is told at level Info: who reads a log wonders why nothing happens. Where a limit binds, all
// calls sleep for a while, and nobody wants to read that.
const longSleep = 10 * time.Second

// LogHooks returns hooks that log what happens, by structured fields: upstream, policy, scope, and times as durations. Pauses,
// refusals, failures of the store and fallbacks are warnings; that they are over, and sleeps of ten seconds or more, are
// information; all else is at level Debug, places in line too. A nil logger is slog's default one at the time of the call.
func LogHooks(logger *slog.Logger) *Hooks {
	if logger == nil {
		logger = slog.Default()
	}
	l := hookLog{logger}
	return &Hooks{
		Sleeps: l.sleeps, Slept: l.slept, Goes: l.goes, Refused: l.refused, Paused: l.paused, Resumed: l.resumed,
		Heeded: l.heeded, Fallback: l.fallback, Asked: l.asked, Dropped: l.dropped,
	}
}

type hookLog struct{ *slog.Logger }

// of returns the fields that say which limit something is about.
func of(upstream, policy, scope string, more ...slog.Attr) []slog.Attr {
	attrs := []slog.Attr{slog.String("upstream", upstream)}
	if policy != "" {
		attrs = append(attrs, slog.String("policy", policy))
	}
	if scope != "" {
		attrs = append(attrs, slog.String("scope", scope))
	}
	return append(attrs, more...)
}

// levelOf returns the level at which a sleep of this length is told.
func levelOf(d time.Duration) slog.Level {
	if d >= longSleep {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func (l hookLog) sleeps(ctx context.Context, s Sleep) {
	attrs := of(s.Upstream, s.Policy, s.Scope, slog.Duration("wait", s.Wait), slog.Bool("paused", s.Paused))
	if s.InLine {
		l.LogAttrs(ctx, slog.LevelDebug, "headway: a call stands in line", append(attrs, slog.Int64("ahead", s.Ahead))...)
		return
	}
	l.LogAttrs(ctx, levelOf(s.Wait), "headway: a call waits", attrs...)
}

func (l hookLog) slept(ctx context.Context, s Slept) {
	attrs := of(s.Upstream, s.Policy, s.Scope, slog.Duration("waited", s.Took))
	if s.Err != nil {
		l.LogAttrs(ctx, levelOf(s.Took), "headway: a call that waited does not go", append(attrs, slog.Any("error", s.Err))...)
		return
	}
	l.LogAttrs(ctx, levelOf(s.Took), "headway: a call that waited goes", attrs...)
}

func (l hookLog) goes(ctx context.Context, g Going) {
	if g.Waited == 0 {
		l.LogAttrs(ctx, slog.LevelDebug, "headway: a call goes at once", of(g.Upstream, "", "", slog.Int64("cost", g.Cost))...)
	}
}

func (l hookLog) refused(ctx context.Context, r Refusal) {
	l.LogAttrs(ctx, slog.LevelWarn, "headway: a call is refused",
		of(r.Upstream, r.Policy, r.Scope, slog.Duration("wait", r.Wait), slog.Any("error", r.Err))...)
}

func (l hookLog) paused(p Pause) {
	l.LogAttrs(context.Background(), slog.LevelWarn, "headway: paused", of(p.Upstream, p.Policy, p.Scope, slog.Duration("for", p.For))...)
}

func (l hookLog) resumed(p Pause) {
	l.LogAttrs(context.Background(), slog.LevelInfo, "headway: resumed", of(p.Upstream, p.Policy, p.Scope)...)
}

func (l hookLog) heeded(ctx context.Context, h Heeding) {
	l.LogAttrs(ctx, slog.LevelDebug, "headway: the upstream said something", of(h.Upstream, h.Policy, h.Scope,
		slog.String("kind", h.Kind.String()), slog.Duration("for", h.For), slog.Int64("value", h.Value))...)
}

func (l hookLog) fallback(f Fallback) {
	attrs := of(f.Upstream, "", "", slog.String("outage", f.Outage.String()))
	if f.On {
		l.LogAttrs(context.Background(), slog.LevelWarn, "headway: the store is lost",
			append(attrs, slog.Int("processes", f.Processes), slog.Any("error", f.Err))...)
		return
	}
	l.LogAttrs(context.Background(), slog.LevelInfo, "headway: the store is back", append(attrs, slog.Duration("after", f.For))...)
}

func (l hookLog) asked(c StoreCall) {
	if c.Err != nil {
		l.LogAttrs(context.Background(), slog.LevelWarn, "headway: the store failed",
			of(c.Upstream, "", "", slog.String("operation", c.Op), slog.Duration("took", c.Took), slog.Any("error", c.Err))...)
	}
}

func (l hookLog) dropped(n int64) {
	l.LogAttrs(context.Background(), slog.LevelWarn, "headway: hooks are too slow, events were dropped", slog.Int64("events", n))
}

package pacer

import (
	"context"
	"log/slog"
	"time"

	"github.com/headway-go/headway/pacer/internal/failover"
	"github.com/headway-go/headway/pacer/internal/warnings"
	"github.com/headway-go/headway/pacer/store"
)

// longWait is the shortest wait that is logged at level Info, to explain in the log why nothing happens. Where a
// limit binds, all calls wait for a while, and a line for each would be noise.
const longWait = 10 * time.Second

// LogHooks returns hooks that log what happens, with structured fields: upstream, policy, scope, and times as durations. Pauses,
// refusals, failures of the store and failovers are logged at level Warn; the end of a pause or a failover, and waits of ten seconds or
// more, at level Info; everything else at level Debug, including positions in queues. If logger is nil, LogHooks uses slog's default
// logger at the time of the call. Losses of a shared store are logged without these hooks, too: see [Config].Logger.
func LogHooks(logger *slog.Logger) *Hooks {
	if logger == nil {
		logger = slog.Default()
	}
	l := hookLog{logger}
	return &Hooks{
		Waiting: l.waiting, WaitDone: l.waitDone, Admitted: l.admitted, Refused: l.refused, Observed: l.observed, NotObserved: l.notObserved,
		Paused: l.paused, Resumed: l.resumed,
		FeedbackApplied: l.feedbackApplied, Failover: l.failover, StoreRequest: l.storeRequest, Dropped: l.dropped,
		logsFailover: true,
	}
}

type hookLog struct{ *slog.Logger }

// of returns the fields that name the limit that an event is about.
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

// levelOf returns the level at which a wait of this length is logged.
func levelOf(d time.Duration) slog.Level {
	if d >= longWait {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func (l hookLog) waiting(ctx context.Context, s Waiting) {
	attrs := of(s.Upstream, s.Policy, s.Scope, slog.Duration("wait", s.Wait), slog.Bool("paused", s.Paused))
	if s.Queued {
		l.LogAttrs(ctx, slog.LevelDebug, "headway: a call is queued", append(attrs, slog.Int64("ahead", s.Ahead))...)
		return
	}
	l.LogAttrs(ctx, levelOf(s.Wait), "headway: a call waits", attrs...)
}

func (l hookLog) waitDone(ctx context.Context, s WaitDone) {
	attrs := of(s.Upstream, s.Policy, s.Scope, slog.Duration("waited", s.Took))
	if s.Err != nil {
		l.LogAttrs(ctx, levelOf(s.Took), "headway: a call that waited is not admitted", append(attrs, slog.Any("error", s.Err))...)
		return
	}
	l.LogAttrs(ctx, levelOf(s.Took), "headway: a call that waited goes", attrs...)
}

func (l hookLog) admitted(ctx context.Context, g Admitted) {
	if g.Waited == 0 {
		l.LogAttrs(ctx, slog.LevelDebug, "headway: a call starts at once", of(g.Upstream, "", "", slog.Int64("cost", g.Cost))...)
	}
}

func (l hookLog) refused(ctx context.Context, r Refusal) {
	l.LogAttrs(ctx, slog.LevelWarn, "headway: a call is refused",
		of(r.Upstream, r.Policy, r.Scope, slog.Duration("wait", r.Wait), slog.Any("error", r.Err))...)
}

func (l hookLog) observed(ctx context.Context, o Observed) {
	attrs := of(o.Upstream, o.Policy, o.Scope, slog.Duration("wait", o.Wait), slog.Bool("paused", o.Paused))
	switch {
	case o.Refused != nil:
		l.LogAttrs(ctx, slog.LevelInfo, "headway: an observed call would have been refused", append(attrs, slog.Any("error", o.Refused))...)
	case o.InFlight:
		l.LogAttrs(ctx, slog.LevelDebug, "headway: an observed call would have been queued", append(attrs, slog.Int64("running", o.Running))...)
	case o.Wait > 0:
		l.LogAttrs(ctx, levelOf(o.Wait), "headway: an observed call would have waited", attrs...)
	}
}

func (l hookLog) notObserved(n int64) {
	l.LogAttrs(context.Background(), slog.LevelWarn, "headway: calls went that were not observed", slog.Int64("calls", n))
}

func (l hookLog) paused(p Pause) {
	l.LogAttrs(context.Background(), slog.LevelWarn, "headway: paused", of(p.Upstream, p.Policy, p.Scope, slog.Duration("for", p.For))...)
}

func (l hookLog) resumed(p Pause) {
	l.LogAttrs(context.Background(), slog.LevelInfo, "headway: resumed", of(p.Upstream, p.Policy, p.Scope)...)
}

func (l hookLog) feedbackApplied(ctx context.Context, h FeedbackApplied) {
	if h.Kind == store.NoteStray {
		by := time.Duration(h.Value) * h.For / 1_000_000
		l.LogAttrs(ctx, slog.LevelDebug, "headway: a refusal widens the margin", of(h.Upstream, h.Policy, h.Scope, slog.Duration("by", by))...)
		return
	}
	l.LogAttrs(ctx, slog.LevelDebug, "headway: the upstream reported something", of(h.Upstream, h.Policy, h.Scope,
		slog.String("kind", h.Kind.String()), slog.Duration("for", h.For), slog.Int64("value", h.Value))...)
}

func (l hookLog) failover(f Failover) {
	warnings.LogChange(l.Logger, f.Upstream, f.Outage.String(),
		failover.Change{Lost: f.On, Never: f.Never, Processes: f.Processes, For: f.For, Err: f.Err, Dropped: f.Dropped})
}

func (l hookLog) storeRequest(c StoreRequest) {
	if c.Err != nil {
		l.LogAttrs(context.Background(), slog.LevelWarn, "headway: the store failed",
			of(c.Upstream, "", "", slog.String("operation", c.Op), slog.Duration("took", c.Took), slog.Any("error", c.Err))...)
	}
}

func (l hookLog) dropped(n int64) {
	l.LogAttrs(context.Background(), slog.LevelWarn, "headway: hooks are too slow, events were dropped", slog.Int64("events", n))
}

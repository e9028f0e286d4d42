package bench_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A target is what Headway is held to.
type target struct {
	what, want, got string
	met             bool

	// Of a target that judges timing: by how much the latest timer was late, and by how much it may be. With a later timer, the figure
	// depends more on the machine than on Headway, and is not judged.
	late, allows time.Duration
}

// most is a target that is met by no more than want.
func most(what string, want, got float64) target {
	return target{what: what, want: "≤ " + number(want), got: number(got), met: got <= want}
}

// least is a target that is met by no less than want.
func least(what string, want, got float64) target {
	return target{what: what, want: "≥ " + number(want), got: number(got), met: got >= want}
}

// exactly is a target that is met by nothing but want.
func exactly(what string, want, got float64) target {
	return target{what: what, want: "exactly " + number(want), got: number(got), met: got == want}
}

const (
	// calm is how late timers may be in the median round where medians of rounds are judged.
	calm = 2 * time.Millisecond
	// room is how late timers may be where calls are paced by [policies.AtMost]: its skew. A later call may be refused.
	room = 10 * time.Millisecond
)

// timed makes it a target that judges timing, with timers that were so late.
func (g target) timed(late, allows time.Duration) target {
	g.late, g.allows = late, allows
	return g
}

// judged reports whether the machine was good enough for the figure to mean something.
func (g target) judged() bool { return g.late <= g.allows }

// verdict returns whether the target is met.
func (g target) verdict() string {
	switch {
	case !g.judged():
		return "not judged: timers were " + short(g.late) + " late"
	case g.met:
		return "yes"
	}
	return "**no**"
}

// timers returns how late timers were, and may be; "–" of a target that does not judge timing.
func (g target) timers() string {
	if g.allows == 0 {
		return "–"
	}
	return short(g.late) + " (≤ " + short(g.allows) + ")"
}

func TestATargetIsJudgedOnGoodTimers(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		target          target
		timers, verdict string
	}{
		{most("x", 2, 2), "–", "yes"},
		{most("x", 2, 3), "–", "**no**"},
		{least("x", 2, 3).timed(2*ms, 2*ms), "2.0 ms (≤ 2.0 ms)", "yes"},
		{least("x", 2, 1).timed(0, 2*ms), "0.0 ms (≤ 2.0 ms)", "**no**"},
		{least("x", 2, 1).timed(3*ms, 2*ms), "3.0 ms (≤ 2.0 ms)", "not judged: timers were 3.0 ms late"},
		{exactly("x", 2, 2).timed(12*ms, room), "12 ms (≤ 10 ms)", "not judged: timers were 12 ms late"},
	} {
		require.Equal(t, c.timers, c.target.timers())
		require.Equal(t, c.verdict, c.target.verdict())
	}
}

package engine_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/pacer/internal/numbers"
	"github.com/headway-go/headway/policies/specs"
)

// flying is a call that was granted, and what the upstream answers; answer is nil until it has reached it.
type flying struct {
	charge engine.Charge
	answer *engine.Answered
}

// TestAnAllowanceAdmitsWhatIsLeft plays random histories of one window: calls are granted, given back, counted and answered in any order.
// While each answer states what is left, no call too many is granted once the first is answered, none is lost once all are, nothing goes
// before the reset when nothing is left, and only the gate holds calls after it. In half of the histories answers are lost, as when their
// process dies, and the store forgets: then there are at most as many calls too many as nobody knows of, and after 30 s none is lost.
func TestAnAllowanceAdmitsWhatIsLeft(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 41))
		quota, period := 1+rng.Int64N(60), []int64{20, 60, 600}[rng.IntN(3)]*numbers.Second
		a, now, limit := &engine.Allowance{}, epoch, &engine.Limit{Spec: &specs.Spec{Limit: specs.MaxLimit, First: rng.Int64N(4)}}
		end := now + period
		var counted, granted int64 // by the upstream; and by us, as far as it admitted them
		var calls []*flying
		said, faults, unknown, quiet := false, seed%2 == 1, int64(0), now
		for range 600 {
			now += rng.Int64N(40_000)
			if faults && rng.IntN(50) == 0 {
				now, unknown = now+rng.Int64N(12*numbers.Second), unknown+int64(len(calls)) // which may be taken for lost
			}
			if now >= end-numbers.Second {
				break
			}
			if faults && rng.IntN(100) == 0 {
				*a, said, quiet = engine.Allowance{}, false, now
				unknown += 2 * int64(len(calls)) // whose answers also count for others, and may be older than what was known
				for _, c := range calls {
					if c.answer != nil {
						unknown += max(0, c.answer.Left-quota+counted)
					}
				}
			}
			var waits, done []*flying
			for _, c := range calls {
				if c.answer == nil {
					waits = append(waits, c)
				} else {
					done = append(done, c)
				}
			}
			switch k := rng.IntN(20); {
			case k < 10:
				p := a.Earliest(limit, now, now, 1, 0)
				require.GreaterOrEqual(t, p.At, now)
				if p.At > now {
					break // nobody waits here
				}
				c, _ := a.Commit(limit, now, p, 1)
				if rng.IntN(10) == 0 {
					a.Cancel(nil, now, c)
					break
				}
				granted++
				if faults && !said {
					unknown++
				}
				calls = append(calls, &flying{charge: c})
				if limit.Spec.First > 0 && !faults {
					require.True(t, said || granted <= limit.Spec.First+(now-epoch)/numbers.Apart, "seed %d: too many before an answer", seed)
				}
				if said {
					require.LessOrEqual(t, granted, quota+unknown, "seed %d: a call too many", seed)
				}
			case k < 15 && len(waits) > 0:
				c := waits[rng.IntN(len(waits))]
				good := counted < quota
				if good {
					counted++
				} else {
					granted--
				}
				c.answer = &engine.Answered{Slot: c.charge.From, Cost: c.charge.To, Left: quota - counted, Reset: end - now, Refused: !good}
			case len(done) > 0:
				c := done[rng.IntN(len(done))]
				for i := range calls {
					if calls[i] == c {
						calls = append(calls[:i], calls[i+1:]...)
						break
					}
				}
				if faults && rng.IntN(5) == 0 {
					unknown, quiet = unknown+1, now
					break
				}
				a.Answer(limit, now, *c.answer)
				said = true
			}
			if !said {
				continue
			}
			in := a.Inspect(limit, now)
			require.LessOrEqual(t, in.Remaining, max(0, quota-granted+unknown), "seed %d", seed)
			if len(calls) == 0 && (!faults || now > quiet+3*numbers.Generation) {
				require.GreaterOrEqual(t, in.Remaining, max(0, quota-granted), "seed %d: lost, though all were answered", seed)
			}
			if in.Remaining == 0 {
				require.GreaterOrEqual(t, in.Next, in.Full, "seed %d: nothing is left", seed)
			}
			later := in.Full + rng.Int64N(60*numbers.Second)
			require.LessOrEqual(t, a.Earliest(limit, now, later, 1, 0).At, max(later, in.Full+in.Backlog*numbers.Apart), "seed %d: held after the reset", seed)
		}
	}
}

// When there is more again, calls that were ahead are open. One that gives its slot back makes room, though there are new calls ahead.
func TestASlotOfBeforeTheTurnIsGivenBack(t *testing.T) {
	t.Parallel()
	const second = numbers.Second
	a, limit := &engine.Allowance{}, &engine.Limit{Spec: &specs.Spec{Limit: specs.MaxLimit}}
	commit := func(now, slot int64) engine.Charge {
		c, _ := a.Commit(limit, now, engine.Placement{At: slot}, 1)
		c.Made = now
		return c
	}
	a.Answer(limit, epoch, engine.Answered{Slot: epoch, Left: 0, Reset: 10 * second})
	first, far := commit(epoch+1, epoch+10*second), commit(epoch+1, epoch+25*second)
	now := epoch + 11*second
	a.Answer(limit, now, engine.Answered{Slot: first.From, Cost: 1, Left: 1, Reset: 10 * second})
	commit(now, epoch+30*second)
	require.Greater(t, a.Earliest(limit, now, now, 1, 0).At, now, "the far call is open")
	a.Cancel(limit, now, far)
	require.Equal(t, now, a.Earliest(limit, now, now, 1, 0).At)
}

// A slot that was granted in the instant of an answer, and before it, is given back as one that has become too early.
func TestASlotOfTheInstantOfAnAnswerIsGivenBack(t *testing.T) {
	t.Parallel()
	a, limit := &engine.Allowance{}, &engine.Limit{Spec: &specs.Spec{Limit: specs.MaxLimit}}
	a.Answer(limit, epoch, engine.Answered{Slot: epoch, Left: 0, Reset: 10 * numbers.Second})
	now := epoch + 100_000
	c, _ := a.Commit(limit, now, engine.Placement{At: epoch + 10*numbers.Second}, 1)
	c.Made = now
	a.Answer(limit, now, engine.Answered{Slot: now, Left: 1, Reset: 10 * numbers.Second})
	require.Greater(t, a.Earliest(limit, now, now, 1, 0).At, now)
	require.True(t, a.Cancel(limit, now, c), "a call that found no room may go")
	require.Equal(t, now, a.Earliest(limit, now, now, 1, 0).At)
}

// Calls that wait hold slots, move when an answer changes what is left or when there is more, and go. Once all are answered or have given up,
// the whole rest is free, whatever happened in between.
func TestAnAllowanceLosesNothing(t *testing.T) {
	t.Parallel()
	stated := 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 42))
		a, now, limit := &engine.Allowance{}, epoch, &engine.Limit{Spec: &specs.Spec{Limit: specs.MaxLimit}}
		var waits, gone []engine.Charge
		commit := func() {
			p := a.Earliest(limit, now, now, 1, 0)
			if rng.IntN(8) == 0 { // another limit holds it back
				p.At += rng.Int64N(60 * numbers.Second)
			}
			c, _ := a.Commit(limit, now, p, 1)
			c.Made = now
			if p.At <= now {
				gone = append(gone, c)
			} else {
				waits = append(waits, c)
			}
		}
		answer := func(i int, left, reset int64) {
			c := gone[i]
			gone = slices.Delete(gone, i, i+1)
			a.Answer(limit, now, engine.Answered{Slot: c.From, Cost: 1, Left: left, Reset: reset})
		}
		for range 150 { // calls that are not answered are forgotten after 10 s
			now += 1 + rng.Int64N(100_000)
			for i, c := range slices.Backward(waits) { // those whose slots have come
				if c.From <= now {
					gone, waits = append(gone, c), slices.Delete(waits, i, i+1)
				}
			}
			switch k := rng.IntN(10); {
			case k < 4:
				commit()
			case k < 7 && len(gone) > 0:
				answer(rng.IntN(len(gone)), rng.Int64N(4), (1+rng.Int64N(3))*numbers.Second+rng.Int64N(2)*50_000)
			case len(waits) > 0: // it moves
				i := rng.IntN(len(waits))
				a.Cancel(limit, now, waits[i])
				waits = slices.Delete(waits, i, i+1)
				commit()
			}
		}
		for _, c := range waits {
			a.Cancel(limit, now, c)
		}
		for len(gone) > 0 {
			now++
			answer(0, 3, 10*numbers.Second)
		}
		if in := a.Inspect(limit, now); now < in.Full {
			require.Equal(t, in.Pace, in.Remaining, "seed %d", seed)
			require.Zero(t, in.Backlog, "seed %d", seed)
			stated++
		}
	}
	require.Greater(t, stated, 1000)
}

package engine_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/luascripts/numbers"
	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/policies"
)

// flying is a call that was granted, and what the upstream answers; answer is nil until it has reached it.
type flying struct {
	charge engine.Charge
	answer *engine.Answered
}

// TestAnAllowanceAdmitsWhatIsLeft plays random histories of one window: calls are granted, given back, counted and answered in any order. As
// long as each answer says what is left, no call too many is granted once the first is answered, none is lost once all are, nothing goes
// before the reset when nothing is left, and nothing is held after it but by the gate.
func TestAnAllowanceAdmitsWhatIsLeft(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 41))
		quota, period := 1+rng.Int64N(60), []int64{20, 60, 600}[rng.IntN(3)]*numbers.Second
		a, now, limit := &engine.Allowance{}, epoch, &engine.Limit{Spec: &policies.Spec{Limit: policies.MaxLimit, First: rng.Int64N(4)}}
		end := now + period
		var counted, granted int64 // by the upstream; and by us, as far as it admitted them
		var calls []*flying
		said := false
		for range 600 {
			if now += rng.Int64N(40_000); now >= end-numbers.Second {
				break
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
				calls = append(calls, &flying{charge: c})
				if limit.Spec.First > 0 {
					require.True(t, said || granted <= limit.Spec.First+(now-epoch)/numbers.Apart, "seed %d: too many before an answer", seed)
				}
				if said {
					require.LessOrEqual(t, granted, quota, "seed %d: a call too many", seed)
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
				a.Answer(limit, now, *c.answer)
				said = true
			}
			if !said {
				continue
			}
			in := a.Inspect(limit, now)
			require.LessOrEqual(t, in.Remaining, max(0, quota-granted), "seed %d", seed)
			if len(calls) == 0 {
				require.Equal(t, max(0, quota-granted), in.Remaining, "seed %d: lost, though all were answered", seed)
			}
			if in.Remaining == 0 {
				require.GreaterOrEqual(t, in.Next, in.Full, "seed %d: nothing is left", seed)
			}
			later := in.Full + rng.Int64N(60*numbers.Second)
			require.LessOrEqual(t, a.Earliest(limit, now, later, 1, 0).At, max(later, in.Full+in.Backlog*numbers.Apart), "seed %d: held after the reset", seed)
		}
	}
}

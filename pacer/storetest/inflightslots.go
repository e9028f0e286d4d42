package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// permitSlotCases are about calls that need a slot and a permit.
func permitSlotCases() []Case {
	return []Case{
		{"inflight/cancel", "a call that is given back has no permit and no slot any more", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permitsOf(1)}, rateBeside())
			a, b := s.newCall(), s.newCall()
			g := s.goes(st, a)
			s.Cancel(st, g)
			s.expect(st, 0, 1, 0)
			g = s.goes(st, b)
			s.At(1 * ms)
			c := s.newCall()
			s.stands(st, c, 0)
			s.Cancel(st, g)
			s.Cancel(st, g)
			s.goes(st, c)
			s.stands(st, s.newCall(), 0)
		}},
		{"inflight/far", "a call whose slot is far away takes its permit when the slot comes, and leaves it to others until then", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permitsOf(1)}, Key{Policy: policies.Every(time.Second).Named("every")})
			a, b := s.newCall(), s.newCall()
			s.goes(st, a)
			g := s.far(st, b, time.Second)
			s.release(st, a)
			s.expect(st, 0, 1, 0)
			other := s.Stack(Key{Policy: permitsOf(1)})
			c := s.newCall()
			s.At(100 * ms)
			s.goes(other, c)
			s.release(other, c)
			s.Set(g.At - store.Instant(permitAhead.Microseconds()))
			g = s.Ask(st, *s.holding(b, g))
			if !g.OK || Since(g.At) != time.Second || !hasPermits(&st, &g) {
				s.t.Fatalf("got %+v, want the slot at 1s, and the permit", g)
			}
			s.stands(other, s.newCall(), 0)
			s.far(st, s.newCall(), 2*time.Second) // the slot was charged once
		}},
		{"inflight/far/taken", "if the permits are taken when the slot comes, the slot is given back, and the call stands before those that first asked later", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permitsOf(1)}, Key{Policy: policies.Every(time.Second).Named("every")})
			other := s.Stack(Key{Policy: permitsOf(1)})
			a, b, c, d := s.newCall(), s.newCall(), s.newCall(), s.newCall()
			s.goes(st, a)
			s.At(1 * ms)
			g := s.far(st, b, time.Second)
			s.At(500 * ms)
			s.stands(other, c, 0)
			s.Set(g.At - store.Instant(permitAhead.Microseconds()))
			s.stands(st, s.holding(b, g), 0)
			if next := s.Status(st).Limits[1].Next; Since(next) != time.Second {
				s.t.Fatalf("the rate's next slot is %v, want 1s: nobody has it", Since(next))
			}
			s.stands(other, c, 1)
			s.At(990 * ms)
			s.stands(st, d, 2)
			s.release(st, a)
			s.stands(other, c, 1)
			s.stands(st, d, 2)
			g = s.Ask(st, *b)
			if !g.OK || Since(g.At) != time.Second || !hasPermits(&st, &g) {
				s.t.Fatalf("got %+v, want the slot at 1s, and the permit", g)
			}
		}},
		{"inflight/far/exact", "a call that asks for its permit keeps its slot, also behind starts that nobody remembers", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permitsOf(8)}, Key{Policy: policies.AtMost(4, time.Second).Skew(0).Burst(3).Named("exact")})
			s.Report(st, store.Note{Kind: store.NoteClaim, Limit: 1, Charge: store.Charge{From: int64(Epoch) - 100_000, To: int64(Epoch)}})
			s.goes(st, s.newCall())
			a, b := s.newCall(), s.newCall()
			g := s.far(st, a, 250*ms)
			s.far(st, b, 500*ms)
			s.Set(g.At - store.Instant(permitAhead.Microseconds()))
			again := s.Ask(st, *s.holding(a, g))
			if !again.OK || again.At != g.At || !hasPermits(&st, &again) || again.Charges[1].From != g.Charges[1].From {
				s.t.Fatalf("got %+v, want the slot that the call had", again)
			}
			s.far(st, s.newCall(), 750*ms)
		}},
		{"inflight/cannot-wait", "a call that cannot wait is refused if all permits are taken, and nothing is written", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permitsOf(1)}, rateBeside())
			a, b := s.newCall(), s.newCall()
			s.goes(st, a)
			before := fmt.Sprint(s.Status(st))
			b.MaxWait = 0
			if g := s.Ask(st, *b); g.OK || g.Queued || g.Binds != 0 {
				t.Fatalf("got %+v, want a refusal because of the permits", g)
			}
			if after := fmt.Sprint(s.Status(st)); after != before {
				t.Fatalf("status %s, was %s", after, before)
			}
			s.release(st, a)
			s.goes(st, b)
		}},
		{"inflight/refused", "a call whose slot is beyond its MaxWait is refused, and has no permit", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permitsOf(3)}, Key{Policy: policies.Every(20 * ms).Named("every")})
			s.goes(st, s.newCall())
			for _, wait := range []time.Duration{0, 10 * ms} {
				c := s.newCall()
				c.MaxWait = wait
				if g := s.Ask(st, *c); g.OK || g.Queued || g.Binds != 1 || g.Wait() != 20*ms {
					t.Fatalf("got %+v, want a refusal because of the rate", g)
				}
			}
			s.expect(st, 0, 2, 0)
		}},
	}
}

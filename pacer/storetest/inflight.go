package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// inFlightCases are about calls that run at once.
func inFlightCases() []Case {
	permits := func(n int64) policies.Policy { return policies.InFlight(n).Named("flights") }
	rate := policies.PerSecond(10).Burst(5).Named("rate")
	one := func(name, rule string, test func(t testing.TB, s *Session, st store.Stack)) Case {
		return Case{"inflight/" + name, rule, func(t testing.TB, s *Session) { test(t, s, s.Stack(Key{Policy: permits(1)})) }}
	}
	return []Case{
		{"inflight/queue", "who finds all permits taken is queued, and is charged nothing", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permits(2)}, Key{Policy: rate})
			a, b, c := s.newCall(), s.newCall(), s.newCall()
			s.goes(st, a)
			s.goes(st, b)
			before := s.Status(st).Limits[1]
			g := s.stands(st, c, 0)
			if g.Binds != 0 {
				t.Fatalf("limit %d binds, want the permits", g.Binds)
			}
			if after := s.Status(st).Limits[1]; after != before || after.Remaining != 3 {
				t.Fatalf("the rate is %+v, was %+v: 3 left of it", after, before)
			}
			s.release(st, a)
			s.goes(st, c)
			s.expect(st, 1, 2, 0)
		}},
		one("order", "the permit of a call that is over goes to the first in the queue, no matter which asks first", func(_ testing.TB, s *Session, st store.Stack) {
			running := s.newCall()
			s.goes(st, running)
			var line []*store.Call
			for i := range 5 { // the later, the smaller the ID: it is when they asked that counts
				c := s.newCall()
				c.ID = firstID + 900 - int64(i)
				s.At(time.Duration(i+1) * ms)
				s.stands(st, c, int64(i))
				line = append(line, c)
			}
			for len(line) > 0 {
				s.Set(s.now + 1000)
				s.release(st, running)
				for i := len(line) - 1; i > 0; i-- {
					s.stands(st, line[i], int64(i))
				}
				newcomer := s.newCall()
				s.stands(st, newcomer, int64(len(line)))
				s.release(st, newcomer)
				s.goes(st, line[0])
				running, line = line[0], line[1:]
			}
		}),
		one("order/together", "those who ask at the same time go in the order in which they ask", func(_ testing.TB, s *Session, st store.Stack) {
			running := s.newCall()
			s.goes(st, running)
			calls := make([]store.Call, 20)
			for i := range calls {
				calls[i] = *s.newCall()
				calls[i].ID = firstID + 900 - int64(i)
			}
			for i, g := range append(s.AskAll(st, calls[:10]...), s.AskAll(st, calls[10:]...)...) {
				if !g.Queued || g.Ahead != int64(i) {
					s.t.Fatalf("number %d got %+v, want to queue behind %d", i, g, i)
				}
			}
			for i := range calls {
				s.release(st, running)
				for j := len(calls) - 1; j > i; j-- {
					s.stands(st, &calls[j], int64(j-i))
				}
				s.goes(st, &calls[i])
				running = &calls[i]
			}
		}),
		one("since", "who was queued, and was forgotten, has its position in the queue again", func(_ testing.TB, s *Session, st store.Stack) {
			a, b, c := s.newCall(), s.newCall(), s.newCall()
			s.goes(st, a)
			s.At(1 * ms)
			s.stands(st, b, 0)
			s.At(2 * ms)
			s.stands(st, c, 1)
			s.release(st, b)
			s.stands(st, c, 0)
			s.stands(st, b, 0)
			s.stands(st, c, 1)
		}),
		{"inflight/cancel", "a call that is given back has no permit and no slot any more", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permits(1)}, Key{Policy: rate})
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
		{"inflight/lease", "a lease that is not renewed runs out after its length, not a microsecond before", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permits(1).Lease(2 * time.Second)})
			s.goes(st, s.newCall())
			s.At(1500 * ms)
			b := s.newCall()
			s.stands(st, b, 0)
			s.At(2*time.Second - time.Microsecond)
			s.stands(st, b, 0)
			s.At(2 * time.Second)
			s.goes(st, b)
			s.stands(st, s.newCall(), 0)
		}},
		{"inflight/renew", "a lease that is renewed counts from then on", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permits(1).Lease(2 * time.Second)})
			a, b := s.newCall(), s.newCall()
			s.goes(st, a)
			for _, at := range []time.Duration{1500 * ms, 3 * time.Second, 3500 * ms} {
				s.At(at)
				s.renew(st, a)
				s.expect(st, 0, 0, 0)
			}
			s.At(4600 * ms)
			s.stands(st, b, 0)
			s.At(5500*ms - time.Microsecond)
			s.stands(st, b, 0)
			s.At(5500 * ms)
			s.goes(st, b)
		}},
		{"inflight/renew-late", "a lease that has run out counts again when it is renewed", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permits(1).Lease(2 * time.Second)})
			a, b, c := s.newCall(), s.newCall(), s.newCall()
			s.goes(st, a)
			s.At(2 * time.Second)
			s.goes(st, b)
			s.At(2500 * ms)
			s.renew(st, a)
			s.stands(st, c, 0)
			s.release(st, b)
			s.stands(st, c, 0)
			s.release(st, a)
			s.goes(st, c)
		}},
		one("release/twice", "a call that is over twice gives back its permit once", func(_ testing.TB, s *Session, st store.Stack) {
			a, b, c := s.newCall(), s.newCall(), s.newCall()
			s.release(st, a) // it has none yet
			s.goes(st, a)
			s.release(st, a, a)
			s.expect(st, 0, 1, 0)
			s.goes(st, b)
			s.release(st, a)
			s.expect(st, 0, 0, 0)
			s.stands(st, c, 0)
		}),
		one("again", "a call that has its permit already keeps it, and takes no other", func(_ testing.TB, s *Session, st store.Stack) {
			a, b := s.newCall(), s.newCall()
			s.goes(st, a)
			s.stands(st, b, 0)
			s.goes(st, a)
			s.release(st, a)
			s.goes(st, b)
		}),
		one("leave", "who leaves the queue makes room for those behind", func(_ testing.TB, s *Session, st store.Stack) {
			a, b, c := s.newCall(), s.newCall(), s.newCall()
			s.goes(st, a)
			s.stands(st, b, 0)
			s.stands(st, c, 1)
			s.expect(st, 0, 0, 2)
			s.release(st, b)
			s.expect(st, 0, 0, 1)
			s.release(st, a)
			s.goes(st, c)
		}),
		one("dead", "nobody waits behind one that does not ask again in time", func(_ testing.TB, s *Session, st store.Stack) {
			a, dead, c := s.newCall(), s.newCall(), s.newCall()
			s.goes(st, a)
			until := s.stands(st, dead, 0).At + 1_000_000
			s.At(1 * ms)
			s.stands(st, c, 1)
			s.release(st, a)
			s.stands(st, c, 1) // it is not taken for dead as yet
			for s.now < until-1 {
				s.Set(min(until-1, s.now+300_000))
				if g := s.Ask(st, *c); g.OK {
					return // the dead one was called, and did not come
				}
			}
			s.Set(until)
			s.goes(st, c)
		}),
		one("late", "one that asks again when it is told to keeps its position in the queue", func(_ testing.TB, s *Session, st store.Stack) {
			a, b, c := s.newCall(), s.newCall(), s.newCall()
			s.goes(st, a)
			s.stands(st, b, 0)
			s.At(1 * ms)
			s.stands(st, c, 1)
			again := [2]store.Instant{s.now, s.now}
			for s.now < Epoch+10_000_000 {
				i := 0
				if again[1] < again[0] {
					i = 1
				}
				s.Set(max(s.now, again[i]))
				again[i] = s.stands(st, []*store.Call{b, c}[i], int64(i)).At
				s.renew(st, a)
			}
			s.expect(st, 0, 0, 2)
		}),
		{"inflight/far", "a call whose slot is far away takes its permit when the slot comes, and leaves it to others until then", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permits(1)}, Key{Policy: policies.Every(time.Second).Named("every")})
			a, b := s.newCall(), s.newCall()
			s.goes(st, a)
			g := s.far(st, b, time.Second)
			s.release(st, a)
			s.expect(st, 0, 1, 0)
			other := s.Stack(Key{Policy: permits(1)})
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
			st := s.Stack(Key{Policy: permits(1)}, Key{Policy: policies.Every(time.Second).Named("every")})
			other := s.Stack(Key{Policy: permits(1)})
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
		{"inflight/cannot-wait", "a call that cannot wait is refused if all permits are taken, and nothing is written", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permits(1)}, Key{Policy: rate})
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
			st := s.Stack(Key{Policy: permits(3)}, Key{Policy: policies.Every(20 * ms).Named("every")})
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
		{"inflight/all-or-nothing", "a call that finds one kind of permits taken holds none of another", func(_ testing.TB, s *Session) {
			shared, own := Key{Policy: permits(3)}, Key{Policy: policies.InFlight(1).Named("own"), Scope: "x"}
			st := s.Stack(shared, own)
			a, b := s.newCall(), s.newCall()
			s.goes(st, a)
			if g := s.stands(st, b, 0); g.Binds != 1 {
				s.t.Fatalf("limit %d binds, want its own", g.Binds)
			}
			s.expect(st, 0, 2, 0)
			others := s.Stack(shared)
			s.goes(others, s.newCall())
			s.goes(others, s.newCall())
			c := s.newCall()
			s.stands(others, c, 0)
			s.release(others, c)
			s.release(st, a)
			s.goes(st, b)
		}},
		{"inflight/batch", "calls that ask together get what they would have got one after the other", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permits(2)}, Key{Policy: rate})
			grants := s.AskAll(st, *s.newCall(), *s.newCall(), *s.newCall(), *s.newCall())
			for i, g := range grants {
				if g.OK != (i < 2) || g.Queued != (i >= 2) || g.Queued && g.Ahead != int64(i-2) {
					t.Fatalf("call %d got %+v", i, g)
				}
			}
			s.expect(st, 0, 0, 2)
			s.expect(st, 1, 3, 0)
		}},
		{"inflight/cost", "a call takes one permit, whatever it costs", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permits(2)}, Key{Policy: rate})
			c := s.newCall()
			c.Cost = 4
			s.goes(st, c)
			s.expect(st, 0, 1, 0)
			s.expect(st, 1, 1, 0)
		}},
		{"inflight/longer-than", "only calls that have run for long count, and no call goes while there are as many as may be", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permits(2).LongerThan(10 * time.Second).Lease(time.Minute)})
			var run []*store.Call
			begin := func() {
				s.t.Helper()
				run = append(run, s.newCall())
				s.goes(st, run[len(run)-1])
			}
			for range 5 {
				begin()
			}
			s.At(10*time.Second - time.Microsecond)
			begin()
			s.expect(st, 0, 2, 0)
			s.At(10 * time.Second)
			waits, other := s.newCall(), s.newCall()
			s.stands(st, waits, 0)
			s.stands(st, other, 1)
			s.release(st, run[:3]...)
			s.stands(st, waits, 0)
			s.release(st, run[3])
			s.goes(st, other) // there is room for any number
			s.goes(st, waits)
			begin()
		}},
		{"inflight/longer-than/began", "a call that is renewed counts from when it began", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permits(1).LongerThan(10 * time.Second).Lease(4 * time.Second)})
			a := s.newCall()
			s.goes(st, a)
			for _, at := range []time.Duration{3 * time.Second, 6 * time.Second, 9 * time.Second} {
				s.At(at)
				s.renew(st, a)
			}
			s.At(10 * time.Second)
			s.stands(st, s.newCall(), 0)
			s.At(20 * time.Second)
			s.expect(st, 0, 1, 0)
			s.renew(st, a) // not known any more: its owner says when it began
			s.stands(st, s.newCall(), 0)
		}},
		{"inflight/pause", "nothing takes a permit while it is paused", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permits(2)}, Key{Policy: rate})
			s.Report(st, store.Note{Kind: store.NotePause, For: time.Second})
			a, b, c := s.newCall(), s.newCall(), s.newCall()
			c.MaxWait = 500 * ms
			if g := s.Ask(st, *c); g.OK || g.Queued || !g.Paused || g.Binds != 0 || Since(g.At) != time.Second {
				t.Fatalf("got %+v, want a refusal because of the pause", g)
			}
			g := s.far(st, a, time.Second)
			if !g.Paused || g.Binds != 0 {
				t.Fatalf("got %+v, want the pause to bind", g)
			}
			in := s.expect(st, 0, 0, 0)
			if Since(in.Paused) != time.Second || Since(in.Next) != time.Second {
				t.Fatalf("status %+v, want a pause until 1s", in)
			}
			s.Report(st, store.Note{Kind: store.NoteResume})
			s.goes(st, b)
			s.At(970 * ms)
			if g = s.Ask(st, *s.holding(a, g)); !g.OK || Since(g.At) != time.Second || !hasPermits(&st, &g) {
				t.Fatalf("got %+v, want the slot at 1s, and the permit", g)
			}
		}},
		{"inflight/upstream-paused", "nothing takes a permit while the whole upstream is paused", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permits(2)})
			s.Pause(s.Stack(), time.Second)
			g := s.far(st, s.newCall(), time.Second)
			if g.Binds != store.BindsUpstream {
				s.t.Fatalf("got %+v, want the upstream's pause to bind", g)
			}
			s.expect(st, 0, 2, 0)
		}},
		{"inflight/learn", "fewer calls run for as long as the upstream says so", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permits(5)})
			learn := func(n int64, d time.Duration, changed int) {
				t.Helper()
				if got := s.Report(st, store.Note{Kind: store.NoteLearn, Value: n, For: d}); got != changed {
					t.Fatalf("learning %d made %d differences, want %d", n, got, changed)
				}
			}
			a, b, c := s.newCall(), s.newCall(), s.newCall()
			s.goes(st, a)
			s.goes(st, b)
			learn(9, time.Minute, 0) // the upstream cannot raise a limit
			learn(2, 3*time.Second, 1)
			learn(2, 3*time.Second, 0)
			s.stands(st, c, 0)
			if in := s.expect(st, 0, 0, 1); in.Pace != 2 {
				t.Fatalf("pace %d, want 2", in.Pace)
			}
			learn(1, 3*time.Second, 1)
			s.release(st, a)
			s.stands(st, c, 0)
			s.release(st, b)
			s.goes(st, c)
			s.At(3 * time.Second)
			if in := s.expect(st, 0, 4, 0); in.Pace != 5 {
				t.Fatalf("pace %d, want 5", in.Pace)
			}
			for range 4 {
				s.goes(st, s.newCall())
			}
			s.stands(st, s.newCall(), 0)
		}},
		one("reset", "what is reset has all its permits", func(_ testing.TB, s *Session, st store.Stack) {
			s.goes(st, s.newCall())
			s.stands(st, s.newCall(), 0)
			s.Report(st, store.Note{Kind: store.NoteReset})
			s.expect(st, 0, 1, 0)
			s.goes(st, s.newCall())
		}),
		{"inflight/limit-changes-at-once", "a raised limit opens permits, and a lowered one closes them when their calls are over", func(_ testing.TB, s *Session) {
			two, four := s.Stack(Key{Policy: permits(2)}), s.Stack(Key{Policy: permits(4)})
			a, b, c := s.newCall(), s.newCall(), s.newCall()
			s.goes(two, a)
			s.goes(two, b)
			s.stands(two, c, 0)
			s.goes(four, c)
			s.release(two, a)
			d := s.newCall()
			s.stands(two, d, 0)
			s.release(two, b)
			s.goes(two, d)
		}},
		{"inflight/status", "Status tells how many may go, how many wait, and when a lease runs out", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permits(2).Lease(5 * time.Second)})
			check := func(remaining, line int64, next time.Duration) {
				t.Helper()
				if in := s.expect(st, 0, remaining, line); Since(in.Next) != next || in.Pace != 2 || in.Paused != 0 || in.Backlog != 0 {
					t.Fatalf("at %v: status %+v, want next at %v", Since(s.now), in, next)
				}
			}
			a, b := s.newCall(), s.newCall()
			check(2, 0, 0)
			s.goes(st, a)
			check(1, 0, 0)
			s.At(time.Second)
			s.goes(st, b)
			check(0, 0, 5*time.Second)
			s.stands(st, s.newCall(), 0)
			s.stands(st, s.newCall(), 1)
			check(0, 2, 5*time.Second)
			s.renew(st, a)
			check(0, 2, 6*time.Second)
			s.release(st, b)
			check(1, 2, 6*time.Second)
			s.At(30 * time.Second)
			check(2, 0, 30*time.Second)
		}},
		one("called", "a permit that is free again is said to the first in the queue", func(t testing.TB, s *Session, st store.Stack) {
			a, b, c := s.newCall(), s.newCall(), s.newCall()
			s.goes(st, a)
			s.stands(st, b, 0)
			s.stands(st, c, 1)
			s.calls(t, []int64{b.ID}, func() { s.release(st, a) })
			g := s.goes(st, b)
			s.calls(t, []int64{c.ID}, func() { s.Cancel(st, g) })
			s.goes(st, c)
		}),
		one("called/leaves", "who leaves the queue while there is a permit for it makes way for the next", func(t testing.TB, s *Session, st store.Stack) {
			a, b, c := s.newCall(), s.newCall(), s.newCall()
			s.goes(st, a)
			s.stands(st, b, 0)
			s.stands(st, c, 1)
			s.calls(t, []int64{b.ID, c.ID}, func() { // from the first on: a Cluster's nodes pass on late what was said before
				s.release(st, a)
				s.release(st, b)
			})
			s.goes(st, c)
		}),
		{"inflight/called/only", "nobody is called if there is no permit", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permits(2)})
			a, b, c := s.newCall(), s.newCall(), s.newCall()
			s.goes(st, a)
			s.goes(st, b)
			s.stands(st, c, 0)
			s.calls(t, nil, func() {
				s.release(st, s.newCall())
				s.Report(st, store.Note{Kind: store.NoteLearn, Value: 1, For: time.Minute})
				s.release(st, a)
			})
			s.calls(t, []int64{c.ID}, func() { s.release(st, b) })
		}},
	}
}

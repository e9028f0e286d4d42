package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// inFlightCases are about calls that run at once.
func inFlightCases() []Case {
	return slices.Concat(permitCases(), leaseCases(), permitSlotCases(), permitHeedCases())
}

// permitCases are about who gets a permit, in which order.
func permitCases() []Case {
	return []Case{
		{"inflight/queue", "who finds all permits taken is queued, and is charged nothing", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permitsOf(2)}, rateBeside())
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
		oneAtOnce("order", "the permit of a call that is over goes to the first in the queue, no matter which asks first", func(_ testing.TB, s *Session, st store.Stack) {
			running := s.newCall()
			s.goes(st, running)
			var line []*store.Call
			for i := range 5 { // the later, the smaller the ID: the time of the request counts
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
		oneAtOnce("order/together", "those who ask at the same time go in the order in which they ask", func(_ testing.TB, s *Session, st store.Stack) {
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
		oneAtOnce("since", "who was queued, and was forgotten, has its position in the queue again", func(_ testing.TB, s *Session, st store.Stack) {
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
		oneAtOnce("again", "a call that has its permit already keeps it, and takes no other", func(_ testing.TB, s *Session, st store.Stack) {
			a, b := s.newCall(), s.newCall()
			s.goes(st, a)
			s.stands(st, b, 0)
			s.goes(st, a)
			s.release(st, a)
			s.goes(st, b)
		}),
		oneAtOnce("leave", "who leaves the queue makes room for those behind", func(_ testing.TB, s *Session, st store.Stack) {
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
		oneAtOnce("dead", "nobody waits behind one that does not ask again in time", func(_ testing.TB, s *Session, st store.Stack) {
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
		oneAtOnce("late", "a call that retries in time keeps its position in the queue", func(_ testing.TB, s *Session, st store.Stack) {
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
		{"inflight/all-or-nothing", "a call that finds one kind of permits taken holds none of another", func(_ testing.TB, s *Session) {
			shared, own := Key{Policy: permitsOf(3)}, Key{Policy: policies.InFlight(1).Named("own"), Scope: "x"}
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
			st := s.Stack(Key{Policy: permitsOf(2)}, rateBeside())
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
			st := s.Stack(Key{Policy: permitsOf(2)}, rateBeside())
			c := s.newCall()
			c.Cost = 4
			s.goes(st, c)
			s.expect(st, 0, 1, 0)
			s.expect(st, 1, 1, 0)
		}},
		oneAtOnce("called", "a permit that is free again is said to the first in the queue", func(t testing.TB, s *Session, st store.Stack) {
			a, b, c := s.newCall(), s.newCall(), s.newCall()
			s.goes(st, a)
			s.stands(st, b, 0)
			s.stands(st, c, 1)
			s.calls(t, []int64{b.ID}, func() { s.release(st, a) })
			g := s.goes(st, b)
			s.calls(t, []int64{c.ID}, func() { s.Cancel(st, g) })
			s.goes(st, c)
		}),
		oneAtOnce("called/far", "a queued call that is called, and is a round trip of 200 ms away, goes before those behind it", func(t testing.TB, s *Session, st store.Stack) {
			a, b, c := s.newCall(), s.newCall(), s.newCall()
			s.goes(st, a)
			s.stands(st, b, 0)
			s.stands(st, c, 1)
			s.calls(t, []int64{b.ID}, func() { s.release(st, a) })
			s.At(200 * ms)
			s.stands(st, c, 1)
			s.goes(st, b)
		}),
		oneAtOnce("called/leaves", "who leaves the queue while there is a permit for it makes way for the next", func(t testing.TB, s *Session, st store.Stack) {
			a, b, c := s.newCall(), s.newCall(), s.newCall()
			s.goes(st, a)
			s.stands(st, b, 0)
			s.stands(st, c, 1)
			s.calls(t, []int64{b.ID, c.ID}, func() { // from the first on: a Cluster's nodes pass on old news late
				s.release(st, a)
				s.release(st, b)
			})
			s.goes(st, c)
		}),
		{"inflight/called/only", "nobody is called if there is no permit", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permitsOf(2)})
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

// permitsOf is a policy of so many permits.
func permitsOf(n int64) policies.Policy { return policies.InFlight(n).Named("flights") }

// oneAtOnce is a case about a limit of one call at once.
func oneAtOnce(name, rule string, test func(t testing.TB, s *Session, st store.Stack)) Case {
	return Case{"inflight/" + name, rule, func(t testing.TB, s *Session) { test(t, s, s.Stack(Key{Policy: permitsOf(1)})) }}
}

// rateBeside is another rate that binds calls.
func rateBeside() Key { return Key{Policy: policies.PerSecond(10).Burst(5).Named("rate")} }

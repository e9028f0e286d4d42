package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// permits returns a stack of a common limit and of some keys' permits.
func (s *Session) permits(limits ...int64) store.Stack {
	keys := []Key{{Policy: policies.PerSecond(1000).Burst(100).Named("common")}}
	for i, n := range limits {
		keys = append(keys, Key{Policy: permitsOf(n), Scope: fmt.Sprint("key", i)})
	}
	return s.Stack(keys...)
}

// anyKey returns a call by any key of such a stack.
func (s *Session) anyKey(st store.Stack) *store.Call {
	c := s.newCall()
	for i := 1; i < len(st.Limits); i++ {
		c.AnyOf = append(c.AnyOf, []int{0, i})
	}
	return c
}

// goesBy reserves a call that goes at once by a key, with its permit.
func (s *Session) goesBy(st store.Stack, c *store.Call, key int) store.Grant {
	s.t.Helper()
	g := s.goes(st, c)
	if g.Choice != key {
		s.t.Fatalf("at %v: call %d goes by %d, want %d", Since(s.now), c.ID-firstID, g.Choice, key)
	}
	return g
}

// standsFor reserves a call that is queued first for a key.
func (s *Session) standsFor(st store.Stack, c *store.Call, key int) {
	s.t.Helper()
	g := s.stands(st, c, 0)
	if g.Choice != key || g.Binds != key+1 {
		s.t.Fatalf("at %v: call %d got %+v, want to queue for %d", Since(s.now), c.ID-firstID, g, key)
	}
}

// choicePermitCases are about calls that may queue for the permits of one of their choices.
func choicePermitCases() []Case {
	return []Case{
		{"choices/permits/queue", "a call goes by a choice that has a permit, or is queued where the fewest have to come back for it, in proportion, and charged nothing", func(t testing.TB, s *Session) {
			st := s.permits(1, 2, 4)
			var running []*store.Call
			for _, key := range []int{0, 1, 1, 2, 2, 2, 2} {
				c := s.anyKey(st)
				s.goesBy(st, c, key)
				running = append(running, c)
			}
			s.At(time.Second)
			for i := range 21 {
				s.At(time.Second + time.Duration(i)*ms)
				c := s.anyKey(st)
				c.First = i % 3
				if g := s.Ask(st, *c); !g.Queued {
					t.Fatalf("got %+v, want to queue", g)
				}
			}
			for i, n := range []int64{3, 6, 12} {
				s.expect(st, i+1, 0, n)
			}
			s.expect(st, 0, 100, 0)
			s.release(st, running[0])
			s.expect(st, 1, 1, 3)
			if g := s.Ask(st, *s.anyKey(st)); !g.Queued || g.Choice != 0 {
				t.Fatalf("got %+v: the permit is for one of those that are queued, and its queue is the shortest now", g)
			}
		}},
		{"choices/permits/again", "a queued call that asks again goes by any choice that has a permit for it, and has left the queue", func(t testing.TB, s *Session) {
			st := s.permits(1, 1)
			a, b, c, d := s.anyKey(st), s.anyKey(st), s.anyKey(st), s.anyKey(st)
			s.goesBy(st, a, 0)
			s.goesBy(st, b, 1)
			s.At(1 * ms)
			s.standsFor(st, c, 0)
			s.At(2 * ms)
			s.standsFor(st, d, 1)
			s.release(st, d)
			s.calls(t, nil, func() { s.release(st, b) })
			s.goesBy(st, c, 1)
			s.expect(st, 1, 0, 0)
			s.expect(st, 2, 0, 0)
			s.calls(t, nil, func() { s.release(st, a) })
			s.expect(st, 1, 1, 0)
		}},
		{"choices/permits/called", "the permit of a choice goes to the first that stands for it, whom the store calls", func(t testing.TB, s *Session) {
			st := s.permits(1, 1)
			a, b, c, d := s.anyKey(st), s.anyKey(st), s.anyKey(st), s.anyKey(st)
			s.goesBy(st, a, 0)
			s.goesBy(st, b, 1)
			s.At(1 * ms)
			s.standsFor(st, c, 0)
			s.At(2 * ms)
			s.standsFor(st, d, 1)
			s.calls(t, []int64{d.ID}, func() { s.release(st, b) })
			d.First = 1
			s.goesBy(st, d, 1)
		}},
		{"choices/permits/slots", "a slot that is near is better than a queue, and the first in the queue asks in time for the next one", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.Every(100 * ms).Named("rate"), Scope: "a"}, Key{Policy: permitsOf(9), Scope: "a"}, Key{Policy: permitsOf(1), Scope: "b"})
			call := func() *store.Call {
				c := s.newCall()
				c.AnyOf = [][]int{{0, 1}, {2}}
				return c
			}
			goesBy := func(c *store.Call, choice int, want time.Duration) {
				g := s.Ask(st, *c)
				if !g.OK || g.Choice != choice || Since(g.At) != want || !hasPermits(&st, &g) {
					t.Fatalf("at %v: got %+v, want choice %d at %v", Since(s.now), g, choice, want)
				}
			}
			a, b, c, d := call(), call(), call(), call()
			goesBy(a, 0, 0)
			goesBy(b, 1, 0)
			s.At(50 * ms)
			if g := s.stands(st, c, 0); Since(g.At) != 90*ms || g.Choice != 1 {
				t.Fatalf("got %+v, want to ask again at 90ms", g)
			}
			s.At(51 * ms)
			if g := s.stands(st, d, 1); Since(g.At) < time.Second {
				t.Fatalf("got %+v: it is not the first", g)
			}
			s.At(90 * ms)
			s.calls(t, []int64{d.ID}, func() { goesBy(c, 0, 100*ms) })
			if g := s.stands(st, d, 0); Since(g.At) != 190*ms {
				t.Fatalf("got %+v, want to ask again at 190ms", g)
			}
		}},
		{"choices/permits/far", "if all slots are far, the call gets the nearest, and its permit when that comes, by any choice", func(t testing.TB, s *Session) {
			rate := policies.Every(time.Second).Named("rate")
			st := s.Stack(Key{Policy: rate, Scope: "a"}, Key{Policy: permitsOf(1), Scope: "a"}, Key{Policy: rate, Scope: "b"}, Key{Policy: permitsOf(1), Scope: "b"})
			call := func() *store.Call {
				c := s.newCall()
				c.AnyOf = [][]int{{0, 1}, {2, 3}}
				return c
			}
			a, b, c := call(), call(), call()
			s.goesBy(st, a, 0)
			s.At(100 * ms)
			s.goesBy(st, b, 1)
			g := s.far(st, c, time.Second)
			if g.Choice != 0 {
				t.Fatalf("choice %d, want 0", g.Choice)
			}
			s.Set(g.At - store.Instant(permitAhead.Microseconds()))
			waits := s.stands(st, s.holding(c, g), 0)
			if waits.Choice != 0 || s.Status(st).Limits[0].Backlog != 0 {
				t.Fatalf("got %+v, want to queue for the permit, and its slot given back", waits)
			}
			s.At(1100 * ms)
			s.release(st, b)
			s.goesBy(st, c, 1)
			s.expect(st, 1, 0, 0)
		}},
		{"choices/permits/paused", "a choice that is paused is passed over, also by a call that stands for it", func(_ testing.TB, s *Session) {
			st := s.permits(1, 1)
			a, b, c, d := s.anyKey(st), s.anyKey(st), s.anyKey(st), s.anyKey(st)
			for _, call := range []*store.Call{a, b, c, d} {
				call.AnyOf[0] = append(call.AnyOf[0], len(st.Limits))
			}
			st.Limits = append(st.Limits, s.Stack(left(Key{Policy: permitsOf(1), Scope: "key0"})).Limits...)
			s.goesBy(st, a, 0)
			s.goesBy(st, b, 1)
			s.standsFor(st, c, 0)
			s.Pause(st, time.Minute)
			s.release(st, a)
			s.standsFor(st, c, 1)
			s.expect(st, 1, 1, 0)
			s.release(st, b)
			s.goesBy(st, c, 1)
			s.standsFor(st, d, 1)
		}},
		{"choices/permits/refused", "a call that does not wait is charged nothing, and leaves its queue", func(t testing.TB, s *Session) {
			st := s.permits(1, 1)
			a, b, c := s.anyKey(st), s.anyKey(st), s.anyKey(st)
			s.goesBy(st, a, 0)
			s.goesBy(st, b, 1)
			s.At(time.Second)
			s.standsFor(st, c, 0)
			before := s.Status(st).Limits[0]
			c.MaxWait = 0
			if g := s.Ask(st, *c); g.OK || g.Queued || g.Binds != g.Choice+1 {
				t.Fatalf("got %+v, want a refusal by the permits of the choice", g)
			}
			s.expect(st, 1, 0, 0)
			if after := s.Status(st).Limits[0]; after != before {
				t.Fatalf("the rate is %+v, was %+v", after, before)
			}
		}},
		{"choices/permits/given-back", "what is given back comes back to the choice that was charged", func(_ testing.TB, s *Session) {
			st := s.permits(1, 1)
			a, b := s.anyKey(st), s.anyKey(st)
			s.goesBy(st, a, 0)
			g := s.goesBy(st, b, 1)
			s.Cancel(st, g)
			s.expect(st, 1, 0, 0)
			s.expect(st, 2, 1, 0)
		}},
		{"choices/permits/batch", "calls of one request are decided one after the other", func(t testing.TB, s *Session) {
			st := s.permits(1, 1, 2)
			var calls []store.Call
			for range 12 {
				calls = append(calls, *s.anyKey(st))
			}
			var choices []int
			for i, g := range s.AskAll(st, calls...) {
				if g.OK != (i < 4) || g.Queued != (i >= 4) {
					t.Fatalf("call %d got %+v: four go, and the others are queued", i, g)
				}
				choices = append(choices, g.Choice)
			}
			if want := []int{0, 1, 2, 2, 2, 0, 1, 2, 2, 0, 1, 2}; !slices.Equal(choices, want) {
				t.Fatalf("the choices are %v, want %v", choices, want)
			}
		}},
	}
}

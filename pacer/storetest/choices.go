package storetest

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// pooled returns a stack of a common limit and those of three credentials, and a call that any of these may bind.
func (s *Session) pooled(common, each policies.Policy) (store.Stack, store.Call) {
	keys := []Key{{Policy: common.Named("common")}}
	for _, id := range []string{"a", "b", "c"} {
		keys = append(keys, Key{Policy: each.Named("key"), Scope: id})
	}
	return s.Stack(keys...), store.Call{Cost: 1, MaxWait: store.Forever, AnyOf: [][]int{{0, 1}, {0, 2}, {0, 3}}}
}

// checkChoice checks that only the limits that bind a call are charged.
func (s *Session) checkChoice(c *store.Call, g *store.Grant) {
	s.t.Helper()
	if c.AnyOf == nil {
		if g.Choice != 0 {
			s.t.Fatalf("choice %d of a call that has none", g.Choice)
		}
		return
	}
	if g.Choice < 0 || g.Choice >= len(c.AnyOf) {
		s.t.Fatalf("choice %d of %d", g.Choice, len(c.AnyOf))
	}
	chosen := c.AnyOf[g.Choice]
	if g.Binds >= 0 && !slices.Contains(chosen, g.Binds) {
		s.t.Fatalf("limit %d binds a call that %v do", g.Binds, chosen)
	}
	for i, charge := range g.Charges {
		if charge != (store.Charge{}) && !slices.Contains(chosen, i) {
			s.t.Fatalf("limit %d charged a call that %v bind", i, chosen)
		}
	}
}

// choiceCases are about calls with choices of limits.
func choiceCases() []Case {
	return []Case{
		{"choices/nearest", "a call gets the choice with the nearest slot, and what all choices have in common binds it, too", func(t testing.TB, s *Session) {
			st, call := s.pooled(policies.PerSecond(10), policies.PerSecond(1).Burst(2))
			var went []int
			for i := range 6 {
				s.At(time.Duration(i) * 100 * ms)
				g := s.Ask(st, call)
				went = append(went, g.Choice)
				if g.Wait() != 0 {
					t.Fatalf("call %d goes in %v, want now: by now %v have gone", i, g.Wait(), went)
				}
			}
			if !slices.Equal(went, []int{0, 0, 1, 1, 2, 2}) {
				t.Fatalf("the calls went by %v", went)
			}
			if g := s.Ask(st, call); g.Choice != 0 || Since(g.At) != time.Second {
				t.Fatalf("choice %d at %v, want 0 at 1s", g.Choice, Since(g.At))
			}
		}},
		{"choices/uneven", "each choice is used for as much as it admits", func(t testing.TB, s *Session) {
			keys := []Key{{Policy: policies.PerSecond(10).Named("a")}, {Policy: policies.Fixed(5, time.Second).Named("b")}, {Policy: policies.PerSecond(1).Named("c")}}
			st, call := s.Stack(keys...), store.Call{Cost: 1, MaxWait: store.Forever, AnyOf: [][]int{{0}, {1}, {2}}}
			went := make([]int, 3)
			var last store.Instant
			for range 160 {
				g := s.Ask(st, call)
				went[g.Choice]++
				if g.At < last {
					t.Fatalf("a slot at %v was passed over", Since(g.At))
				}
				last = g.At
			}
			if !slices.Equal(went, []int{100, 50, 10}) || Since(last) < 9*time.Second || Since(last) >= 10*time.Second {
				t.Fatalf("%v calls went until %v, want 100, 50 and 10 within 10s", went, Since(last))
			}
		}},
		{"choices/first", "of choices with slots as near, a call gets the first one from First on", func(t testing.TB, s *Session) {
			st, call := s.pooled(policies.PerSecond(1000).Burst(100), policies.PerSecond(10))
			for _, c := range []struct{ first, want int }{{1, 1}, {1, 2}, {1, 0}} {
				call.First = c.first
				if g := s.Ask(st, call); g.Choice != c.want || g.Wait() != 0 {
					t.Fatalf("choice %d in %v, want %d now", g.Choice, g.Wait(), c.want)
				}
			}
			call.First = 2
			if g := s.Ask(st, call); g.Choice != 2 || g.Wait() != 100*ms {
				t.Fatalf("choice %d in %v, want 2 in 100ms", g.Choice, g.Wait())
			}
		}},
		{"choices/parts", "a call by any one of some choices leaves what they keep for others, with a permit or without", func(t testing.TB, s *Session) {
			quota := policies.Fixed(10, time.Minute).Reserve("desk", 40).Named("quota")
			part, _ := quota.InLane("desk")
			for n, anyOf := range [][][]int{{{0}, {1, 2}}, {{0, 3}, {1, 2, 3}}} {
				scope := strconv.Itoa(n)
				st := s.Stack(
					Key{Policy: policies.Fixed(1, time.Hour).Named("other"), Scope: scope}, Key{Policy: quota, Scope: scope},
					Key{Policy: part, Scope: scope}, Key{Policy: policies.InFlight(100), Scope: scope})
				for i, want := range []int{1, 1, 1, 1, 1, 1, 0, -1} {
					call := store.Call{Cost: 1, AnyOf: anyOf, First: 1, Kept: 1 << 2}
					if n == 1 {
						call.ID, call.Weight = 100+int64(i), 1
					}
					g := s.Ask(st, call)
					if got := g.Choice; g.OK != (want >= 0) || g.OK && got != want {
						t.Fatalf("call %d: %v by choice %d, want %d", i, g.OK, got, want)
					}
				}
			}
		}},
		{"choices/paused", "a choice that is paused is passed over, as long as another one is sooner", func(t testing.TB, s *Session) {
			st, call := s.pooled(policies.PerSecond(1000).Burst(100), policies.PerSecond(10).Burst(5))
			for i := range 3 { // each credential has an allowance
				l := s.Stack(left(Key{Policy: policies.PerSecond(10).Named("own"), Scope: strconv.Itoa(i)})).Limits[0]
				call.AnyOf[i] = append(call.AnyOf[i], len(st.Limits))
				st.Limits = append(st.Limits, l)
			}
			s.Report(st, store.Pause(4, time.Minute), store.Pause(5, time.Second))
			for range 5 {
				if g := s.Ask(st, call); g.Choice != 2 || g.Wait() != 0 {
					t.Fatalf("choice %d in %v, want 2 now", g.Choice, g.Wait())
				}
			}
			s.Report(st, store.Pause(6, time.Hour))
			if g := s.Ask(st, call); g.Choice != 1 || g.Wait() != time.Second || Since(g.Paused) != time.Second || g.Binds != 5 {
				t.Fatalf("got %+v, want choice 1 at the end of its pause", g)
			}
		}},
		{"choices/refused", "a call that no choice admits in time charges none, and the answer is the nearest slot", func(t testing.TB, s *Session) {
			st, call := s.pooled(policies.PerSecond(1000).Burst(100), policies.Every(time.Minute))
			for range 3 {
				s.Ask(st, call)
			}
			s.At(10 * time.Second)
			before := fmt.Sprint(s.Status(st))
			call.MaxWait = 49 * time.Second
			for range 5 {
				if g := s.Ask(st, call); g.OK || g.Wait() != 50*time.Second || g.Binds != g.Choice+1 {
					t.Fatalf("got %+v, want a refusal for 50s by the limit of the choice", g)
				}
			}
			if after := fmt.Sprint(s.Status(st)); after != before {
				t.Fatalf("the status changed from %s to %s", before, after)
			}
		}},
		{"choices/given-back", "what is given back comes back to the choice that was charged", func(t testing.TB, s *Session) {
			st, call := s.pooled(policies.PerSecond(1000).Burst(100), policies.Every(time.Minute))
			var grants []store.Grant
			for range 6 {
				grants = append(grants, s.Ask(st, call))
			}
			s.Cancel(st, grants[4])
			if g := s.Ask(st, call); g.Choice != grants[4].Choice || g.At != grants[4].At {
				t.Fatalf("choice %d at %v, want that of the call that was given back, %d at %v", g.Choice, Since(g.At), grants[4].Choice, Since(grants[4].At))
			}
		}},
		{"choices/costs", "costs are those of the limits of the choice", func(t testing.TB, s *Session) {
			st, call := s.pooled(policies.PerSecond(1000).Burst(100), policies.PerSecond(10).Burst(10))
			call.Costs = []int64{1, 10, 4, 9}
			call.First = 1
			for i, want := range []int{1, 1, 2, 0} {
				if g := s.Ask(st, call); g.Choice != want || g.Wait() != 0 {
					t.Fatalf("call %d: choice %d in %v, want %d now", i, g.Choice, g.Wait(), want)
				}
			}
			if left := s.Status(st).Limits; left[1].Remaining != 0 || left[2].Remaining != 2 || left[3].Remaining != 1 {
				t.Fatalf("%d, %d and %d are left, want 0, 2 and 1", left[1].Remaining, left[2].Remaining, left[3].Remaining)
			}
		}},
		{"choices/batch", "calls of one request are granted one after the other", func(t testing.TB, s *Session) {
			st, call := s.pooled(policies.PerSecond(1000).Burst(100), policies.PerSecond(10))
			calls := slices.Repeat([]store.Call{call}, 7)
			calls[2].First, calls[5].First = 2, 1
			grants := s.AskAll(st, calls...)
			for i, g := range grants {
				if want := time.Duration(i/3) * 100 * ms; g.Wait() != want {
					t.Fatalf("call %d goes in %v, want %v", i, g.Wait(), want)
				}
			}
		}},
	}
}

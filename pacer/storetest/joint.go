package storetest

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

func jointCases() []Case {
	return []Case{
		{"joint/slowest-binds", "the slot is the first that every policy admits, and the grant names the one that decided it", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(100)}, Key{Policy: policies.PerSecond(2), Scope: "a"}, Key{Policy: policies.Fixed(3, 10*time.Second)})
			st.Limits[1].Policy = "tenant"
			for i, want := range []struct {
				slot  time.Duration
				binds int
			}{{0, store.BindsNothing}, {500 * ms, 1}, {1000 * ms, 1}, {10 * time.Second, 2}, {10_500 * ms, 1}} {
				if g := s.Go(st, 1, want.slot); g.Binds != want.binds {
					t.Fatalf("call %d binds %d, want %d", i, g.Binds, want.binds)
				}
			}
		}},
		{"joint/refusal-writes-nothing", "a call that is refused has charged no policy", func(t testing.TB, s *Session) {
			wide, narrow := Key{Policy: policies.PerSecond(10).Named("wide")}, Key{Policy: policies.Every(time.Minute).Named("narrow")}
			window := Key{Policy: policies.Fixed(100, time.Minute).Named("window")}
			st := s.Stack(wide, narrow, window)
			s.Go(st, 1, 0)
			before := fmt.Sprint(s.Status(st))
			for range 50 {
				if g := s.Ask(st, store.Call{Cost: 1, MaxWait: 59 * time.Second}); g.OK || g.Wait() != time.Minute || g.Binds != 1 {
					t.Fatalf("got %+v, want a refusal for a minute by the second policy", g)
				}
			}
			if after := fmt.Sprint(s.Status(st)); after != before {
				t.Fatalf("the status changed from %s to %s", before, after)
			}
			s.Go(s.Stack(wide), 1, 100*ms)
		}},
		{"joint/max-wait-is-inclusive", "a wait of exactly MaxWait is granted, a microsecond more is not", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10)})
			s.Go(st, 1, 0)
			if g := s.Ask(st, store.Call{Cost: 1, MaxWait: 100*ms - time.Microsecond}); g.OK {
				t.Fatal("granted a microsecond too much")
			}
			if g := s.Ask(st, store.Call{Cost: 1, MaxWait: 100 * ms}); !g.OK {
				t.Fatal("refused its very MaxWait")
			}
		}},
		{"joint/no-head-of-line-blocking", "a key that is full delays only the calls that carry it", func(_ testing.TB, s *Session) {
			shared := Key{Policy: policies.PerSecond(100).Named("shared")}
			tenant := func(v string) Key {
				return Key{Policy: policies.PerSecond(10).Named("tenant"), Scope: v}
			}
			greedy, light := s.Stack(shared, tenant("greedy")), s.Stack(shared, tenant("light"))
			for i := range 600 { // a minute of line
				s.Go(greedy, 1, time.Duration(i)*100*ms)
			}
			s.Go(light, 1, 10*ms)
			s.Go(light, 1, 110*ms)
			s.At(30 * time.Second)
			s.Go(light, 1, 30*time.Second+10*ms)
		}},
		{"joint/uses-every-slot", "the gaps between reservations are used to the last one", func(_ testing.TB, s *Session) {
			shared := Key{Policy: policies.PerSecond(100).Named("shared")}
			slow := s.Stack(shared, Key{Policy: policies.PerSecond(10).Named("slow")})
			for i := range 10 {
				s.Go(slow, 1, time.Duration(i)*100*ms)
			}
			all := s.Stack(shared)
			for i := range 100 {
				if i%10 != 0 {
					s.Go(all, 1, time.Duration(i)*10*ms)
				}
			}
			s.Go(all, 1, time.Second)
		}},
		{"joint/usable-gaps", "with a burst of 2, what a slower lane leaves behind each call is a whole number of intervals", func(_ testing.TB, s *Session) {
			shared := Key{Policy: policies.PerSecond(100).Burst(2).Named("shared")}
			batch, interactive := s.Stack(shared, Key{Policy: policies.PerSecond(80).Named("batch")}), s.Stack(shared)
			for range 1000 { // 12.5 s of line
				s.Ask(batch, store.Call{Cost: 1, MaxWait: time.Minute})
			}
			for range 10 {
				if g := s.Ask(interactive, store.Call{Cost: 1, MaxWait: time.Second}); !g.OK {
					s.t.Fatalf("an interactive call has to wait for %v: the gaps are fragmented", g.Wait())
				}
			}
		}},
		{"joint/order", "calls of one cost that carry the same keys go in the order in which the store saw them", func(t testing.TB, s *Session) {
			shared := Key{Policy: policies.PerSecond(50).Burst(3).Named("shared")}
			st := s.Stack(shared, Key{Policy: policies.Fixed(7, time.Second).Named("w")}, Key{Policy: policies.PerSecond(20).Named("t"), Scope: "x"})
			other := s.Stack(shared, Key{Policy: policies.PerSecond(3).Named("t"), Scope: "y"})
			last := store.Instant(0)
			for i := range 100 {
				s.At(time.Duration(i) * 7 * ms)
				s.Ask(other, store.Call{Cost: 1, MaxWait: time.Minute})
				g := s.Ask(st, store.Call{Cost: 1, MaxWait: time.Minute})
				if g.At < last {
					t.Fatalf("call %d goes at %v, before an earlier one at %v", i, Since(g.At), Since(last))
				}
				last = g.At
			}
		}},
		{"joint/batch-is-a-sequence", "calls that are reserved together get what they would have got one after the other", func(t testing.TB, s *Session) {
			keys := func(name string) store.Stack {
				return s.Stack(Key{Policy: policies.PerSecond(10).Burst(4).Named(name)}, Key{Policy: policies.Fixed(6, time.Second).Named(name + "w")})
			}
			calls := []store.Call{
				{Cost: 1, MaxWait: time.Minute},
				{Cost: 4, MaxWait: time.Minute},
				{Cost: 4, MaxWait: 100 * ms}, // refused
				{Cost: 2, MaxWait: time.Minute, NotBefore: 5 * time.Second},
				{Cost: 1, MaxWait: time.Minute},
				{Cost: 3, MaxWait: time.Minute},
			}
			together := s.AskAll(keys("a"), calls...)
			for i, c := range calls {
				one := s.Ask(keys("b"), c)
				if fmt.Sprint(one) != fmt.Sprint(together[i]) {
					t.Fatalf("call %d: together %+v, alone %+v", i, together[i], one)
				}
			}
		}},
		{"joint/not-before", "a call that asks to go later leaves the time before to others", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10)})
			g := s.Ask(st, store.Call{Cost: 1, NotBefore: time.Second, MaxWait: time.Minute})
			if Since(g.At) != time.Second || g.Binds != store.BindsNothing {
				s.t.Fatalf("got %+v, want a slot after one second that nothing binds", g)
			}
			for i := range 10 {
				s.Go(st, 1, time.Duration(i)*100*ms)
			}
			s.Go(st, 1, 1100*ms)
		}},
		{"joint/not-before-ever", "a call that asks to go in centuries is refused, however large the number", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10)})
			if g := s.Ask(st, store.Call{Cost: 1, NotBefore: math.MaxInt64, MaxWait: store.Forever}); g.OK {
				t.Fatalf("granted %+v", g)
			}
			s.Go(st, 1, 0)
		}},
		{"joint/bounded", "the search for a slot is bounded, and ends behind all reservations if it must", func(t testing.TB, s *Session) {
			if at := Since(Zipper(s).At); at != 1500*ms && at != 2000*ms {
				t.Fatalf("slot %v, want 1.5s, where both have room, or 2s, behind the line", at)
			}
		}},
		{"joint/no-policies", "a call that nothing binds goes now, and a little later will do as well", func(t testing.TB, s *Session) {
			g := s.Go(s.Stack(), 1, 0)
			if g.Binds != store.BindsNothing || g.Slack <= 0 {
				t.Fatalf("got %+v", g)
			}
		}},
		{"joint/keys-are-apart", "upstreams, policies and scope values do not touch each other", func(_ testing.TB, s *Session) {
			hostile := []string{"", "a", "b", "a:b", "a}b", "{a}", "a/gaps", "..", "a b", "ä", "\x00", "a\nb", "*", "%61", string(make([]byte, 500)), string(make([]byte, 501))}
			for _, v := range hostile {
				for _, name := range []string{"p", "p.a", "p-gaps"} {
					scope := ""
					if v != "" {
						scope = store.EscapeScope(v)
					}
					st := s.Stack(Key{Policy: policies.Every(time.Hour).Named(name), Scope: scope})
					s.Go(st, 1, 0)
				}
			}
			s.upstream += "x"
			s.Go(s.Stack(Key{Policy: policies.Every(time.Hour).Named("p")}), 1, 0)
		}},
	}
}

// Zipper makes two rates whose gaps do not meet for 150 turns, and returns what a call gets that needs both.
func Zipper(s *Session) store.Grant {
	a, b := Key{Policy: policies.PerSecond(100).Named("a")}, Key{Policy: policies.PerSecond(100).Named("b")}
	for i := range 200 {
		st := s.Stack(a)
		if i%2 == 1 {
			st = s.Stack(b)
		}
		if i != 150 {
			s.Ask(st, store.Call{Cost: 1, NotBefore: time.Duration(i) * 10 * ms, MaxWait: time.Minute})
		}
	}
	return s.Ask(s.Stack(a, b), store.Call{Cost: 1, MaxWait: time.Minute})
}

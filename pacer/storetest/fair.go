package storetest

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// fairCases are about limits that competitors get in equal parts, by weight.
func fairCases() []Case {
	rate := []Key{{Policy: policies.PerSecond(100).Burst(5).Fair("tenant").Named("rate")}}
	permits := []Key{{Policy: policies.InFlight(10).Fair("tenant").Named("flights")}}
	of := func(flow int64) func(*caller) bool { return func(c *caller) bool { return c.flow == flow } }
	// used checks that nearly all of 100 calls a second, or of 10 permits, are used, and never more.
	used := func(t testing.TB, d *drive, to time.Duration, keys []Key) {
		t.Helper()
		if keys[0].Policy.Spec().Algorithm == specs.Concurrency {
			most, total := d.atOnce(to)
			if most > 10 || total < to*98/10 {
				t.Fatalf("%d calls ran at once, and all together for %v, want at most 10 and %v, less 2 %%", most, total, 10*to)
			}
			return
		}
		d.conform(t, keys[0])
		if n := d.count(0, to, anybody); n < int(to*98/time.Second) {
			t.Fatalf("%d calls in %v, want 100 a second, or 98 %% of that at least", n, to)
		}
	}
	// each makes a case for rates and one for permits, where a call takes 100 ms.
	each := func(name, rule string, test func(t testing.TB, s *Session, keys []Key, c caller)) []Case {
		return []Case{
			{"fair/rate/" + name, rule, func(t testing.TB, s *Session) { test(t, s, rate, caller{keys: rate}) }},
			{"fair/inflight/" + name, rule, func(t testing.TB, s *Session) { test(t, s, permits, caller{keys: permits, runs: 100 * ms}) }},
		}
	}
	var all []Case
	all = append(all, each("weights", "those who always have queued calls get parts by weight", func(t testing.TB, s *Session, keys []Key, c caller) {
		to := 10 * time.Second
		c.to = to
		light, heavy := c, c
		light.flow, light.weight, heavy.flow, heavy.weight = 1, 1, 2, 3
		d := driven(s, to, append(group(20, light), group(20, heavy)...)...)
		used(t, d, to, keys)
		near(t, "calls of weight 1", d.count(0, to, of(1)), 250, 0.05)
		near(t, "calls of weight 3", d.count(0, to, of(2)), 750, 0.05)
	})...)
	all = append(all, each("more-callers", "who asks more often gets no more", func(t testing.TB, s *Session, keys []Key, c caller) {
		to := 10 * time.Second
		c.to, c.flow = to, 1
		other := c
		other.flow = 2
		d := driven(s, to, append(group(45, c), group(15, other)...)...)
		used(t, d, to, keys)
		near(t, "calls of the many", d.count(0, to, of(1)), 500, 0.05)
		near(t, "calls of the few", d.count(0, to, of(2)), 500, 0.05)
	})...)
	all = append(all, each("comes-and-goes", "one that comes gets its part at once, and when it goes its part is the others'", func(t testing.TB, s *Session, keys []Key, c caller) {
		to := 12 * time.Second
		c.to = to
		one, two, guest := c, c, c
		one.flow, two.flow = 1, 2
		guest.flow, guest.weight, guest.from, guest.to = 3, 2, 4*time.Second, 8*time.Second
		d := driven(s, to, append(append(group(15, one), group(15, two)...), group(15, guest)...)...)
		used(t, d, to, keys)
		for _, part := range []struct {
			from, to time.Duration
			want     [3]float64
		}{{0, 4 * time.Second, [3]float64{200, 200, 0}}, {4 * time.Second, 8 * time.Second, [3]float64{100, 100, 200}}} {
			for i, want := range part.want {
				near(t, "calls", d.count(part.from, part.to, of(int64(i+1))), want, 0.06)
			}
		}
		near(t, "calls", d.count(9*time.Second, to, of(1)), 150, 0.06)
		near(t, "calls", d.count(9*time.Second, to, of(2)), 150, 0.06)
	})...)
	all = append(all, Case{"fair/mixed", "while some processes have a limit with fair shares and others without, calls of one kind starve those of the other, and the limit holds", func(t testing.TB, s *Session) {
		for _, c := range []struct {
			limit             policies.Policy
			runs              time.Duration
			plain, withShares float64
		}{
			{policies.PerSecond(50).Named("rate"), 0, 100, 0},
			{policies.InFlight(6).Named("flights"), 100 * ms, 6, 114},
		} {
			from := Since(s.now).Truncate(time.Minute) + time.Minute
			to := from + 2*time.Second
			s.At(from)
			old, young := caller{keys: []Key{{Policy: c.limit}}, runs: c.runs, from: from, to: to}, caller{flow: 1, runs: c.runs, from: from, to: to}
			young.keys = []Key{{Policy: c.limit.Fair("tenant")}}
			d := driven(s, to, append(group(10, old), group(10, young)...)...)
			near(t, "calls without fair shares", d.count(from, to, of(0)), c.plain, 0)
			near(t, "calls with fair shares", d.count(from, to, of(1)), c.withShares, 0)
		}
	}})
	all = append(all, Case{"fair/cost", "parts of a rate are of what calls cost, by weight, and not of how many they are", func(t testing.TB, s *Session) {
		for _, c := range []struct {
			limit  policies.Policy
			costs  [3]int64
			weight [3]int64
		}{
			{policies.PerSecond(100).Burst(20), [3]int64{1, 5, 20}, [3]int64{1, 1, 1}},
			{policies.PerSecond(250).Burst(50), [3]int64{1, 40, 10}, [3]int64{3, 1, 1}},
			{policies.PerMinute(600_000).Burst(60_000), [3]int64{30, 900, 3000}, [3]int64{1, 2, 1}},
			{policies.PerMinute(6_000_000).Burst(100_000), [3]int64{100, 10_000, 100_000}, [3]int64{1, 1, 3}},
		} {
			from := Since(s.now).Truncate(time.Minute) + time.Minute
			to := from + 13*time.Second
			keys := []Key{{Policy: c.limit.Fair("tenant").Named("rate")}}
			var callers []*caller
			for i, cost := range c.costs {
				callers = append(callers, group(20, caller{keys: keys, flow: int64(i) + 1, weight: c.weight[i], cost: cost, from: from, to: to})...)
			}
			s.At(from)
			d := driven(s, to, callers...)
			if c.limit.Spec().Limit <= 50 { // the judge looks at each unit
				d.conform(t, keys[0])
			}
			rate, weights, total := 1e6/float64(keys[0].Policy.Spec().Interval), float64(c.weight[0]+c.weight[1]+c.weight[2]), 0.0
			for i, cost := range c.costs {
				got := float64(cost) * float64(d.count(from+3*time.Second, to, of(int64(i)+1)))
				total += got
				want := 10 * rate * float64(c.weight[i]) / weights
				if math.Abs(got-want) > 0.03*10*rate+float64(cost) {
					t.Errorf("%v: calls of cost %d and weight %d had %.0f, want %.0f", c.limit, cost, c.weight[i], got, want)
				}
			}
			if total < 0.97*10*rate {
				t.Errorf("%v: %.0f of %.0f used", c.limit, total, 10*rate)
			}
		}
	}})
	all = append(all, each("alone", "who is alone has everything, whatever its weight", func(t testing.TB, s *Session, keys []Key, c caller) {
		to := 5 * time.Second
		c.to, c.flow, c.weight = to, 7, 2
		used(t, driven(s, to, group(20, c)...), to, keys)
	})...)
	all = append(all, each("nobody-starves", "who needs little gets it soon, however many calls of others queue", func(t testing.TB, s *Session, keys []Key, c caller) {
		to := 5 * time.Second
		c.to = to
		greedy := c
		greedy.flow, greedy.weight = 1, 3
		callers := group(100, greedy)
		for i := range 9 {
			modest := c
			modest.flow, modest.from = int64(i+2), time.Second+time.Duration(i)*17*ms
			for ; modest.from < to-time.Second; modest.from += 400 * ms {
				one := modest
				one.calls = 1
				callers = append(callers, &one)
			}
		}
		d := driven(s, to, callers...)
		used(t, d, to, keys)
		waited, n := time.Duration(0), 0
		for i := range d.went {
			if w := &d.went[i]; w.by.flow > 1 {
				waited, n = max(waited, w.wait()), n+1
			}
		}
		if want := len(callers) - 100; n != want || waited > 250*ms {
			t.Fatalf("%d of %d modest calls went, and one waited for %v, want at most 250ms", n, want, waited)
		}
	})...)
	all = append(all, each("many", "however many compete, each gets its part, and everything is used", func(t testing.TB, s *Session, keys []Key, c caller) {
		to := 10 * time.Second
		c.to = to
		var callers []*caller
		for i := range 50 {
			c.flow = int64(i) + 1
			callers = append(callers, group(1+i%2, c)...)
		}
		d := driven(s, to, callers...)
		used(t, d, to, keys)
		for i := range 50 {
			if n := d.count(0, to, of(int64(i)+1)); n < 18 || n > 22 {
				t.Fatalf("flow %d had %d calls, want 20, give or take two", i+1, n)
			}
		}
	})...)
	all = append(all, each("order", "calls of one flow go in the order in which they asked", func(t testing.TB, s *Session, _ []Key, c caller) {
		to := 4 * time.Second
		var callers []*caller
		for i := range 100 {
			one := c
			one.flow, one.from, one.to, one.calls = 1, time.Duration(i)*ms, to, 1
			callers = append(callers, &one)
		}
		d := driven(s, to, callers...)
		if len(d.went) != 100 {
			t.Fatalf("%d calls went, want 100", len(d.went))
		}
		last := time.Duration(0)
		for i := range d.went {
			w := &d.went[i]
			if Since(w.requested) < last-6*ms { // those whose slots are near may be granted them in any order
				t.Fatalf("a call that asked at %v went after one that asked at %v", Since(w.requested), last)
			}
			last = max(last, Since(w.requested))
		}
	})...)
	return append(all, []Case{
		{"fair/behind-cheaper", "a call that costs more asks again in time for its turn behind calls that cost less", func(t testing.TB, s *Session) {
			st := s.Stack(rate...)
			for range 5 + 4 {
				s.Ask(st, *s.newCall())
			}
			for i := range 20 {
				s.stands(st, s.newCall(), int64(i))
			}
			c := s.newCall()
			c.Cost = 2
			if g := s.Ask(st, *c); !g.Queued || Since(g.At) > 9*10*ms+20*10*ms {
				t.Fatalf("got %+v, want a position in the queue until 290ms, when those before it may have gone", g)
			}
		}},
		{"fair/no-queue", "a call that finds no queue goes at once, and nothing is remembered of it", func(t testing.TB, s *Session) {
			st := s.Stack(rate...)
			for i := range 5 {
				c := s.newCall()
				c.Flow = int64(i%2) + 1
				s.goes(st, c)
			}
			s.expect(st, 0, 0, 0)
			c := s.newCall()
			if g := s.Ask(st, *c); !g.OK || Since(g.At) != 10*ms {
				t.Fatalf("got %+v, want the slot at 10ms: it is near", g)
			}
		}},
		{"fair/queue", "a queued call is charged nothing, and one of another flow that asks later may stand before it", func(t testing.TB, s *Session) {
			st := s.Stack(rate[0], Key{Policy: policies.Fixed(100, time.Minute).Named("window")})
			for range 5 + 4 {
				s.Ask(st, *s.newCall())
			}
			before := s.Status(st)
			for i := range 5 {
				s.stands(st, s.newCall(), int64(i))
			}
			other := s.newCall()
			other.Flow = 2
			s.stands(st, other, 1)
			after := s.Status(st)
			after.Limits[0].Queued = 0
			if fmt.Sprint(after) != fmt.Sprint(before) {
				t.Fatalf("status %+v, was %+v", after, before)
			}
			s.expect(st, 0, 0, 6)
			s.release(st, other)
			s.expect(st, 0, 0, 5)
		}},
		{"fair/beside-permits", "those who share a rate get parts by weight beside permits, too, while those are not short", func(t testing.TB, s *Session) {
			to := 5 * time.Second
			c := caller{keys: []Key{rate[0], {Policy: policies.InFlight(2).Named("two")}}, runs: 5 * ms, to: to}
			light, heavy := c, c
			light.flow, light.weight, heavy.flow, heavy.weight = 1, 1, 2, 3
			d := driven(s, to, append(group(10, light), group(10, heavy)...)...)
			used(t, d, to, rate)
			near(t, "calls of weight 1", d.count(0, to, of(1)), 125, 0.06)
			near(t, "calls of weight 3", d.count(0, to, of(2)), 375, 0.06)
		}},
		{"fair/far", "a slot that is far away is in nobody's way", func(t testing.TB, s *Session) {
			st := s.Stack(rate...)
			for _, ahead := range []time.Duration{10 * time.Second, time.Minute} {
				c := s.newCall()
				c.NotBefore = ahead
				if g := s.Ask(st, *c); !g.OK || Since(g.At) != ahead {
					t.Fatalf("got %+v, want the slot %v", g, ahead)
				}
			}
			last := s.fill(st)
			c := s.newCall()
			c.MaxWait = time.Second
			if g := s.stands(st, c, 0); g.At > last.At {
				t.Fatalf("it is to retry at %v, and the next slot is after that, at %v", Since(g.At), Since(last.At))
			}
			to := 5 * time.Second
			if n := len(driven(s, to, group(20, caller{keys: rate, to: to})...).went); n < 450 {
				t.Fatalf("%d calls in 5 s, want 500, less what goes in the half second in which the dead one may still ask", n)
			}
		}},
		{"fair/newcomer", "who comes gets its part at once, although another has slots that are far away", func(t testing.TB, s *Session) {
			to := 3 * time.Second
			own := []Key{rate[0], {Policy: policies.PerSecond(5).Named("own"), Scope: "x"}}
			callers := group(300, caller{keys: rate, flow: 1, to: to})
			callers = append(callers, group(200, caller{keys: own, flow: 2, from: 500 * ms, to: to, calls: 1})...)
			callers = append(callers, group(30, caller{keys: rate, flow: 3, from: time.Second, to: to})...)
			d := driven(s, to, callers...)
			near(t, "calls of the one that came", d.count(time.Second, to, of(3)), 95, 0.1)
		}},
		{"fair/keeps-slot", "a call that has a slot, and asks for its permit in time, keeps it however many queue", func(t testing.TB, s *Session) {
			own := []Key{rate[0], {Policy: policies.PerSecond(5).Named("own"), Scope: "x"}, permits[0]}
			to := 6 * time.Second // the first of them takes 0.6 s for its turn, and their own rate 4 s
			callers := group(60, caller{keys: rate, flow: 1, to: to})
			callers = append(callers, group(20, caller{keys: own, flow: 1, from: time.Second, to: to, calls: 1})...)
			d := driven(s, to, callers...)
			near(t, "calls with a rate of their own", d.count(0, to, func(c *caller) bool { return len(c.keys) == 3 }), 20, 0.05)
		}},
		{"fair/refused", "a call whose turn cannot come in time is refused, and nothing is written", func(t testing.TB, s *Session) {
			st := s.Stack(rate...)
			for range 109 {
				s.Ask(st, *s.newCall())
			}
			before := s.expect(st, 0, 0, 100)
			for _, wait := range []time.Duration{0, 100 * ms, 900 * ms} {
				c := s.newCall()
				c.MaxWait = wait
				g := s.Ask(st, *c)
				if g.OK || g.Queued || g.Binds != 0 || g.Wait() < time.Second || g.Wait() > 1100*ms {
					t.Fatalf("got %+v, want a refusal for about a second", g)
				}
			}
			if after := s.expect(st, 0, 0, 100); after != before {
				t.Fatalf("status %+v, was %+v", after, before)
			}
		}},
		{"fair/dead", "nobody waits behind one that does not ask again in time", func(t testing.TB, s *Session) {
			st := s.Stack(rate...)
			until := s.now
			for range 109 {
				if g := s.Ask(st, *s.newCall()); g.Queued {
					until = max(until, g.At+1_000_000)
				}
			}
			s.expect(st, 0, 0, 100)
			s.Set(until)
			s.expect(st, 0, 5, 0)
			s.goes(st, s.newCall())
		}},
		{"fair/leaves", "a call that leaves the queue without its turn costs its flow nothing", func(t testing.TB, s *Session) {
			for _, st := range []store.Stack{s.Stack(rate...), s.Stack(permits...)} {
				s.fill(st)
				s.stands(st, s.newCall(), 0)
				other := func(ahead int64) *store.Call {
					c := s.newCall()
					c.Flow, c.Owed = 2, []int64{300_000}
					s.stands(st, c, ahead)
					return c
				}
				for range 3 {
					s.release(st, other(1))
					c := other(1)
					c.MaxWait = 0
					if g := s.Ask(st, *c); g.OK || g.Queued {
						t.Fatalf("got %+v, want a refusal", g)
					}
				}
				c := s.newCall()
				s.stands(st, c, 1)
				other(1)
			}
		}},
		{"fair/called", "a call that is given back, or leaves, makes way for the first in the queue", func(t testing.TB, s *Session) {
			st := s.Stack(rate...)
			var last store.Grant
			for range 9 {
				last = s.Ask(st, *s.newCall())
			}
			a, b := s.newCall(), s.newCall()
			s.stands(st, a, 0)
			s.stands(st, b, 1)
			s.calls(t, []int64{a.ID}, func() { s.Cancel(st, last) })
			s.calls(t, []int64{b.ID}, func() { s.release(st, a) })
		}},
	}...)
}

package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// laneCases are about calls that may use only a part of a limit.
func laneCases() []Case {
	// both returns the keys of a policy and of its lane's part.
	both := func(t testing.TB, p policies.Policy) (open, lane []Key) {
		t.Helper()
		part, ok := p.InLane("batch")
		if !ok {
			t.Fatalf("%v has no such lane", p)
		}
		return []Key{{Policy: p}}, []Key{{Policy: p}, {Policy: part}}
	}
	peak := func(percent int64) policies.Policy {
		return policies.PerSecond(100).Burst(10).Lane("batch", percent).Named("peak")
	}
	return []Case{
		{"lane/burst", "a lane has its part of a burst, and the rest is there for others at once", func(_ testing.TB, s *Session) {
			open, lane := both(s.t, peak(50))
			st := s.Stack(lane...)
			s.fill(st)
			for i := range 20 {
				s.stands(st, s.newCall(), int64(i))
			}
			for range 3 { // the lane has had seven of the ten: five at once, and two whose slots are near
				s.Go(s.Stack(open...), 1, 0)
			}
			s.Go(s.Stack(open...), 1, 10*ms)
			s.expect(st, 1, 0, 20)
		}},
		{"lane/charged-nothing", "a queued call is charged nothing", func(t testing.TB, s *Session) {
			_, lane := both(t, peak(50))
			st := s.Stack(append(lane, Key{Policy: policies.Fixed(20, time.Minute).Named("window")})...)
			s.fill(st)
			before := s.Status(st)
			c := s.newCall()
			s.stands(st, c, 0)
			after := s.Status(st)
			if after.Limits[0] != before.Limits[0] || after.Limits[2] != before.Limits[2] {
				t.Fatalf("status %+v, was %+v", after, before)
			}
			s.expect(st, 1, 0, 1)
			s.release(st, c)
			s.expect(st, 1, 0, 0)
		}},
		{"lane/paces", "a lane has its part, and others need not wait behind it, however many of it queue", func(t testing.TB, s *Session) {
			open, lane := both(t, peak(80))
			to := 10 * time.Second
			batch := group(300, caller{keys: lane, to: to})
			interactive := regular(caller{keys: open, from: time.Second}, 50*ms, to)
			d := driven(s, to, append(batch, interactive...)...)
			d.conform(t, open[0])
			first := func(c *caller) bool { return len(c.keys) == 1 }
			near(t, "interactive calls", d.count(time.Second, to, first), 180, 0.01)
			near(t, "batch calls", d.count(2*time.Second, to, func(c *caller) bool { return !first(c) }), 8*80, 0.03)
			for i := range d.went {
				if w := &d.went[i]; first(w.by) && w.wait() > 40*ms {
					t.Fatalf("an interactive call that asked at %v waited for %v", Since(w.requested), w.wait())
				}
			}
		}},
		{"lane/part", "a lane whose others take all that is theirs has its part and no more", func(t testing.TB, s *Session) {
			open, lane := both(t, peak(30))
			to := 10 * time.Second
			d := driven(s, to, append(group(100, caller{keys: lane, to: to}), regular(caller{keys: open}, time.Second/70, to)...)...)
			d.conform(t, open[0])
			near(t, "batch calls", d.count(2*time.Second, to, func(c *caller) bool { return len(c.keys) > 1 }), 8*30, 0.05)
			near(t, "all calls", d.count(0, to, anybody), 1000, 0.02)
		}},
		{"lane/lent", "what the others leave is lent to the lane, so that the whole rate is used", func(t testing.TB, s *Session) {
			for _, percent := range []int64{10, 50, 90} {
				for _, callers := range []int{1, 100} { // one that calls again and again has a slot of the lane's own within reach at all times
					open, lane := both(t, peak(percent).Named(fmt.Sprint("peak", percent, ".", callers)))
					from := Since(s.now)
					to := from + 5*time.Second
					d := driven(s, to, group(callers, caller{keys: lane, from: from, to: to})...)
					d.conform(t, open[0])
					near(t, "calls", d.count(from+time.Second, to, anybody), 400, 0.01)
				}
			}
		}},
		{"lane/part-is-kept", "what a lane is charged conforms to its part, besides what it is lent", func(t testing.TB, s *Session) {
			_, lane := both(t, peak(40))
			to := 5 * time.Second
			d := driven(s, to, group(100, caller{keys: lane, to: to})...)
			var charged []fired
			for i := range d.went {
				if w := &d.went[i]; !w.lent {
					charged = append(charged, fired{w.at, 1, lane})
				}
			}
			if broken := judge(lane[1], charged); broken != "" || len(charged) == len(d.went) || len(charged) < 180 {
				t.Fatalf("%d of %d calls were charged, want 40 a second: %s", len(charged), len(d.went), broken)
			}
		}},
		{"lane/order", "calls of a lane go in the order in which they first asked", func(t testing.TB, s *Session) {
			_, lane := both(t, peak(50))
			to := 4 * time.Second
			var callers []*caller
			for i := range 200 {
				callers = append(callers, &caller{keys: lane, from: time.Duration(i) * ms, to: to, calls: 1})
			}
			d := driven(s, to, callers...)
			if len(d.went) != 200 {
				t.Fatalf("%d calls went, want 200", len(d.went))
			}
			last := time.Duration(0)
			for i := range d.went {
				// Calls with near slots may be granted them in any order.
				if w := &d.went[i]; Since(w.requested) < last-45*ms {
					t.Fatalf("a call that asked at %v went after one that asked at %v", Since(w.requested), last)
				} else {
					last = max(last, Since(w.requested))
				}
			}
		}},
		{"lane/cost", "calls of a lane pay what they cost", func(t testing.TB, s *Session) {
			open, lane := both(t, peak(50))
			to := 5 * time.Second
			callers := append(group(20, caller{keys: lane, cost: 3, to: to}), group(20, caller{keys: lane, to: to})...)
			d := driven(s, to, append(callers, regular(caller{keys: open, cost: 5}, 200*ms, to)...)...)
			d.conform(t, open[0])
		}},
		{"lane/own-rate", "a call of a lane that has to wait for a rate of its own stands in nobody's way", func(t testing.TB, s *Session) {
			_, lane := both(t, peak(50))
			tenant := []Key{lane[0], lane[1], {Policy: policies.PerSecond(2).Named("tenant"), Scope: "x"}}
			for i := range 10 {
				g := s.Ask(s.Stack(tenant...), *s.newCall())
				if want := time.Duration(i) * 500 * ms; !g.OK || Since(g.At) != want {
					t.Fatalf("call %d got %+v, want the slot %v", i, g, want)
				}
			}
			to := 5 * time.Second
			d := driven(s, to, group(50, caller{keys: lane, to: to})...)
			near(t, "calls of others", len(d.went), 490, 0.05)
		}},
		{"lane/cancel", "a call of a lane that is given back leaves its part to others of it", func(_ testing.TB, s *Session) {
			_, lane := both(s.t, peak(50))
			st := s.Stack(lane...)
			g := s.fill(st)
			a, b := s.newCall(), s.newCall()
			s.stands(st, a, 0)
			s.Cancel(st, g)
			s.At(time.Microsecond)
			s.stands(st, b, 1)
			if g = s.Ask(st, *a); !g.OK || Since(g.At) != 40*ms {
				s.t.Fatalf("got %+v, want the slot 40ms", g)
			}
		}},
		{"lane/refused", "a call of a lane whose turn cannot come in time is refused, and nothing is written", func(t testing.TB, s *Session) {
			open, lane := both(t, peak(50))
			st := s.Stack(lane...)
			for range 205 {
				s.Ask(st, *s.newCall())
			}
			before := fmt.Sprint(s.Status(st))
			for _, wait := range []time.Duration{0, 100 * ms, time.Second} {
				c := s.newCall()
				c.MaxWait = wait
				g := s.Ask(st, *c)
				if g.OK || g.Queued || g.Wait() < 1500*ms || g.Wait() > 5*time.Second {
					t.Fatalf("got %+v, want a refusal for some seconds", g)
				}
			}
			if after := fmt.Sprint(s.Status(st)); after != before {
				t.Fatalf("status %s, was %s", after, before)
			}
			s.Go(s.Stack(open...), 1, 0)
		}},
		{"lane/paused", "calls of a lane queue while it is paused, and conform when it is over", func(t testing.TB, s *Session) {
			open, lane := both(t, peak(50))
			lane = append(lane, left(open[0]))
			s.Pause(s.Stack(lane...), 2*time.Second)
			to := 4 * time.Second
			d := driven(s, to, group(100, caller{keys: lane, to: to})...)
			d.conform(t, open[0])
			if d.count(0, 2*time.Second, anybody) > 0 {
				t.Fatal("a call went inside the pause")
			}
			near(t, "calls", d.count(2*time.Second, to, anybody), 200, 0.08)
		}},
		{"lane/called", "a call of a lane that leaves makes way for the next", func(t testing.TB, s *Session) {
			_, lane := both(t, peak(50))
			st := s.Stack(lane...)
			s.fill(st)
			a, b := s.newCall(), s.newCall()
			s.stands(st, a, 0)
			s.stands(st, b, 1)
			s.calls(t, []int64{b.ID}, func() { s.release(st, a) })
		}},
		{"lane/window", "of a window nothing is ever lent to a lane", func(t testing.TB, s *Session) {
			for name, w := range map[string]struct {
				p    policies.Policy
				next time.Duration
			}{
				"fixed":   {policies.Fixed(10, time.Minute), time.Minute},
				"daily":   {policies.Daily(10, time.UTC), 24 * time.Hour},
				"sliding": {policies.Sliding(10, time.Minute).Buckets(6), 70 * time.Second},
			} {
				open, lane := both(t, w.p.Lane("batch", 80).Named(name))
				st := s.Stack(lane...)
				s.At(0)
				for range 8 {
					s.Go(st, 1, 0)
				}
				s.Go(st, 1, w.next)
				s.At(w.next * 3 / 4)
				if g := s.Ask(st, store.Call{Cost: 1}); g.OK || g.Binds != 1 {
					t.Fatalf("%s: got %+v, want a refusal because of the lane's part", name, g)
				}
				s.Go(s.Stack(open...), 2, w.next*3/4)
			}
		}},
	}
}

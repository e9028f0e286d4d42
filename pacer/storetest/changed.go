package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// shapes are limits whose accounts have different meanings.
func shapes() []policies.Policy {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		newYork = time.FixedZone("EST", -5*3600)
	}
	all := []policies.Policy{
		policies.PerSecond(10),
		policies.PerSecond(10).Burst(10),
		policies.PerMinute(60).Burst(60),
		policies.Every(time.Hour),
		policies.AtMost(20, time.Second),
		policies.AtMost(20, time.Second).Burst(20),
		policies.Sliding(60, time.Minute),
		policies.Sliding(60, time.Minute).Skew(time.Second),
		policies.Sliding(60, time.Minute).Buckets(7),
		policies.Fixed(50, time.Second),
		policies.Fixed(100, time.Minute),
		policies.Hourly(100, time.UTC),
		policies.Daily(200, time.UTC),
		policies.Daily(200, newYork),
	}
	for i := range all {
		all[i] = all[i].Named("p")
	}
	return all
}

// changedCases are about limits whose numbers or shapes change, and about processes that disagree about them for a while.
func changedCases() []Case {
	names := func(p policies.Policy) string { return p.String() }
	return []Case{
		{"changed/spent-counts", "what was spent still counts when the numbers or the shape of a policy change", func(t testing.TB, s *Session) {
			all := shapes()
			var pairs [][2]int
			for i := range all {
				for j := range all {
					if i != j {
						pairs = append(pairs, [2]int{i, j})
					}
				}
			}
			for n := range s.seeds(uint64(len(pairs))) {
				pair := pairs[n*37%uint64(len(pairs))] // 37 and 182 have no factor in common: all, in an order that spreads
				a, b := all[pair[0]], all[pair[1]]
				scope := fmt.Sprintf("k%d-%d", pair[0], pair[1])
				begin := Since(s.now).Truncate(time.Second) + time.Second + 300*ms
				s.At(begin)
				before := s.drain(a, scope)
				s.At(begin + 50*ms)
				after := s.drain(b, scope)
				if most := mayFollow(a, b, before, 50*ms); after > most {
					t.Fatalf("%d calls went under %q, and %d more under %q 50 ms later: want %d at most", before, names(a), after, names(b), most)
				}
			}
		}},
		{"changed/comes-back", "what was spent comes back as fast as the present numbers let it, and to a slower rate as fast as those before", func(t testing.TB, s *Session) {
			for _, c := range []struct {
				before, now policies.Policy
				at          time.Duration // after the last call
			}{
				{policies.Every(time.Hour), policies.PerSecond(10), 100 * ms},
				{policies.PerMinute(60), policies.PerSecond(60), time.Second / 60},
				{policies.PerMinute(60).Burst(60), policies.PerSecond(10), 100 * ms},
				{policies.PerSecond(10), policies.Every(time.Hour), 100 * ms},
				{policies.PerSecond(100).Burst(100), policies.PerMinute(100), time.Second},
				{policies.Fixed(100, time.Hour), policies.Fixed(100, time.Second), time.Second},
				{policies.Fixed(100, time.Minute), policies.PerSecond(100).Burst(100), 10 * ms},
				{policies.Sliding(100, time.Minute), policies.Sliding(100, time.Second), 1010 * ms},
				{policies.PerSecond(100).Burst(100), policies.Fixed(100, time.Minute), time.Minute},
			} {
				begin := Since(s.now).Truncate(time.Hour) + time.Hour
				s.At(begin)
				scope := fmt.Sprint(begin)
				s.drain(c.before.Named("p"), scope)
				g := s.Ask(s.Stack(Key{Policy: c.now.Named("p"), Scope: scope}), store.Call{Cost: 1, MaxWait: time.Hour})
				if got := Since(g.At) - begin; got < c.at-time.Microsecond || got > c.at+ms {
					t.Fatalf("after %q is spent, the next call under %q goes %v later, want %v", c.before, c.now, got, c.at)
				}
			}
		}},
		{"changed/quota", "a daily quota that is spent stays spent under another one, whatever its number, its time zone and the time of day", func(t testing.TB, s *Session) {
			cities := []*time.Location{time.UTC, time.FixedZone("EST", -5*3600), time.FixedZone("JST", 9*3600)}
			for i, from := range cities {
				for j, to := range cities {
					for n := range s.seeds(24) {
						hour := 7 * n % 24 // all, in an order that spreads
						begin := Since(s.now).Truncate(24*time.Hour) + 48*time.Hour + time.Duration(hour)*time.Hour
						s.At(begin)
						scope := fmt.Sprintf("%d-%d-%d", i, j, hour)
						one, two := policies.Daily(20, from).Named("p"), policies.Daily(25, to).Named("p")
						s.drain(one, scope)
						s.At(begin + time.Minute)
						s.Ask(s.Stack(Key{Policy: policies.Daily(19, to).Named("p"), Scope: scope}), store.Call{Cost: 1})
						if n := s.drain(two, scope); n != 5 {
							t.Fatalf("at %d o'clock, after 20 went under %q, %d go under %q", hour, one, n, two)
						}
						s.At(begin + 2*time.Minute)
						if n := s.drain(policies.Daily(26, from).Named("p"), scope); n != 1 {
							t.Fatalf("at %d o'clock, %d go under %q after 25 went", hour, n, one)
						}
					}
				}
			}
		}},
		{"changed/reserved-ahead", "slots of a rate that were reserved under other numbers stay taken, and the time between them free, and a refused call changes none of it", func(t testing.TB, s *Session) {
			slow, fast := s.Stack(Key{Policy: policies.PerSecond(2).Named("p")}), s.Stack(Key{Policy: policies.PerSecond(200).Named("p")})
			window := s.Stack(Key{Policy: policies.Fixed(30, time.Minute).Named("p")})
			for i := range 40 {
				s.Go(slow, 1, time.Duration(i)*500*ms)
			}
			before := s.state(Plan{Refusals: true})
			if s.State != nil && before == "" {
				t.Fatal("State shows nothing of a rate with 40 slots")
			}
			s.Ask(fast, store.Call{Cost: 1})
			s.Ask(window, store.Call{Cost: 1})
			if after := s.state(Plan{Refusals: true}); after != before {
				t.Fatalf("a refused call changed %s to %s", before, after)
			}
			s.Go(fast, 1, 5*ms)
			s.Go(fast, 1, 10*ms)
			for i := range 97 {
				s.Go(fast, 1, time.Duration(i+3)*5*ms)
			}
			s.Go(fast, 1, 505*ms)
			s.Go(slow, 1, 20*time.Second)
			s.Go(fast, 1, 510*ms)
		}},
		{"changed/given-back", "what was charged under other numbers gives back no more than it took", func(t testing.TB, s *Session) {
			slow, fast := s.Stack(Key{Policy: policies.PerSecond(1).Named("p")}), s.Stack(Key{Policy: policies.PerSecond(10).Named("p")})
			s.Go(slow, 1, 0)
			later := s.Go(slow, 1, time.Second)
			s.Go(fast, 1, 100*ms)
			s.Cancel(slow, later)
			s.Cancel(fast, later)
			for i := range 8 {
				s.Go(fast, 1, time.Duration(i+2)*100*ms)
			}
			if g := s.Ask(fast, store.Call{Cost: 1, MaxWait: time.Minute}); Since(g.At) < time.Second {
				t.Fatalf("a call goes at %v, in the place of one that goes at 900 ms", Since(g.At))
			}
			s.Go(slow, 1, 2*time.Second)

			second, minute := s.Stack(Key{Policy: policies.Fixed(3, time.Second).Named("q")}), s.Stack(Key{Policy: policies.Fixed(5, time.Minute).Named("q")})
			gone, ahead := s.Go(second, 1, 0), s.Go(second, 3, time.Second)
			s.Go(minute, 1, 0)
			s.Cancel(second, gone, ahead)
			if left := s.Status(minute).Limits[0].Remaining; left != 0 {
				t.Fatalf("%d are left of 5, of which all went or are reserved", left)
			}
		}},
		{"changed/settled", "what a call cost more than it was charged counts, though the policy has changed since", func(t testing.TB, s *Session) {
			second, minute := s.Stack(Key{Policy: policies.Fixed(30, time.Second).Named("p")}), s.Stack(Key{Policy: policies.Fixed(50, time.Minute).Named("p")})
			g := s.Go(second, 1, 0)
			s.Go(minute, 1, 0)
			s.Report(second, store.Note{Kind: store.NoteSettle, Charge: g.Charges[0], Cost: 1, Actual: 20})
			if left := s.Status(minute).Limits[0].Remaining; left != 29 {
				t.Fatalf("%d are left of 50, of which 21 were spent", left)
			}
		}},
		{"changed/polled", "a rate that is raised lets calls go that ask again and again, and do not wait", func(t testing.TB, s *Session) {
			for i, c := range []struct {
				before, now policies.Policy
				at          time.Duration
			}{
				{policies.Every(time.Hour), policies.PerSecond(10), 100 * ms},
				{policies.PerMinute(60), policies.PerSecond(10), 100 * ms},
				{policies.PerMinute(60).Burst(60), policies.PerSecond(10), 100 * ms},
			} {
				s.At(time.Duration(i) * time.Hour)
				begin := s.now
				s.drain(c.before.Named("p"), fmt.Sprint(i))
				for !s.Ask(s.Stack(Key{Policy: c.now.Named("p"), Scope: fmt.Sprint(i)}), store.Call{Cost: 1}).OK {
					s.Set(s.now.Add(ms))
				}
				if got := s.now.Sub(begin); got != c.at {
					t.Fatalf("after %q is spent, a call goes under %q %v later, want %v", c.before, c.now, got, c.at)
				}
			}
		}},
		{"changed/side-by-side", "while processes have different numbers of a rate, each is held to its own, and together they start no more than by the faster one, and one burst", func(t testing.TB, s *Session) {
			rates := []policies.Policy{
				policies.PerSecond(10), policies.PerSecond(10).Burst(10), policies.PerSecond(50).Burst(3), policies.PerMinute(60).Burst(20),
				policies.AtMost(20, time.Second).Burst(20), policies.PerSecond(3).Burst(20), policies.Every(time.Second),
			}
			for seed := range s.seeds(30) {
				rng := rand.New(rand.NewPCG(seed, 17))
				used := []policies.Policy{rates[rng.IntN(len(rates))].Named("p"), rates[rng.IntN(len(rates))].Named("p")}
				s.At(Since(s.now).Truncate(time.Hour) + time.Hour)
				scope, rests := fmt.Sprintf("side%d", seed), int64(1+rng.IntN(100))
				var went []store.Instant
				var own [2][]store.Instant
				for end := s.now.Add(5 * time.Second); s.now < end; {
					s.Set(s.now + store.Instant(rng.Int64N(30*ms.Microseconds())))
					if rng.Int64N(rests) == 0 {
						s.Set(s.now + store.Instant(rng.Int64N(time.Second.Microseconds())))
					}
					i := rng.IntN(2)
					for range 1 + rng.IntN(20) {
						if !s.Ask(s.Stack(Key{Policy: used[i], Scope: scope}), store.Call{Cost: 1}).OK {
							break
						}
						went, own[i] = append(went, s.now), append(own[i], s.now)
					}
				}
				one, two := used[0].Spec(), used[1].Spec()
				atMost := func(calls []store.Instant, burst, interval int64) {
					for j := range calls {
						for k := j; k < len(calls); k++ {
							if n, most := int64(k-j+1), burst+int64(calls[k]-calls[j])/interval; n > most {
								t.Fatalf("side by side %v: %d calls went in %v, want %d at most", used, n, calls[k].Sub(calls[j]), most)
							}
						}
					}
				}
				atMost(own[0], one.Limit, one.Interval)
				atMost(own[1], two.Limit, two.Interval)
				atMost(went, one.Limit+two.Limit, min(one.Interval, two.Interval))
			}
		}},
	}
}

// drain makes calls while a policy lets them go now, and returns their number.
func (s *Session) drain(p policies.Policy, scope string) (n int64) {
	st := s.Stack(Key{Policy: p, Scope: scope})
	for s.Ask(st, store.Call{Cost: 1}).OK {
		n++
	}
	return n
}

// mayFollow returns how many calls may go at once under b, so long after n went under a.
func mayFollow(a, b policies.Policy, n int64, later time.Duration) int64 {
	of, spec, since := a.Spec(), b.Spec(), later.Microseconds()
	burst, _ := b.Limit()
	if spec.Algorithm == specs.GCRA {
		burst = spec.Limit
		if spec.Most > 0 { // it is strict, as long as nobody knows what its windows held
			burst = min(burst, 1)
		}
	}
	back := int64(0)
	switch {
	case of.Algorithm == specs.GCRA && spec.Algorithm == specs.GCRA && of.Interval >= 2*spec.Interval:
		return burst // one more: between those that went, and no more until they come back
	case of.Algorithm == specs.GCRA && spec.Algorithm == specs.GCRA:
		return max(0, min(burst, (spec.Tolerance()-n*of.Interval+since)/spec.Interval+1)) // the bucket is full when it would have been
	case of.Algorithm == specs.GCRA: // it has forgotten those that came back
		n -= since / of.Interval
	}
	if spec.Algorithm == specs.GCRA {
		back = since/spec.Interval + 1
	}
	return max(0, burst-max(0, n)+back)
}

package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// shapes are limits whose accounts mean different things. Burst is what each lets go at once.
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

// versionCases are about limits whose numbers or shapes change, and about versions of a limit that are in use at the same time.
func versionCases() []Case {
	names := func(p policies.Policy) string { return p.String() }
	return []Case{
		{"versions/spent-counts", "what was spent still counts when the numbers or the shape of a policy change", func(t testing.TB, s *Session) {
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
				if most := mayFollow(a, b, before, begin, begin+50*ms); after > most {
					t.Fatalf("%d calls went under %q, and %d more under %q 50 ms later: want %d at most", before, names(a), after, names(b), most)
				}
			}
		}},
		{"versions/comes-back", "what was spent under other numbers comes back as fast as the present ones let it", func(t testing.TB, s *Session) {
			for _, c := range []struct {
				before, now policies.Policy
				at          time.Duration // after the last call
			}{
				{policies.Every(time.Hour), policies.PerSecond(10), 100 * ms},
				{policies.PerMinute(60), policies.PerSecond(60), time.Second / 60},
				{policies.PerSecond(100).Burst(100), policies.PerMinute(100).Burst(100), 600 * ms},
				{policies.Fixed(100, time.Hour), policies.Fixed(100, time.Second), time.Second},
				{policies.Fixed(100, time.Minute), policies.PerSecond(100).Burst(100), 10 * ms},
				{policies.Sliding(100, time.Minute), policies.Sliding(100, time.Second), 1010 * ms},
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
		{"versions/reserved-ahead", "slots that were reserved under other numbers stay taken, and the time between them free, and a refused call changes none of it", func(t testing.TB, s *Session) {
			slow, fast := s.Stack(Key{Policy: policies.PerSecond(2).Named("p")}), s.Stack(Key{Policy: policies.PerSecond(200).Named("p")})
			for i := range 40 {
				s.Go(slow, 1, time.Duration(i)*500*ms)
			}
			before := s.state(Plan{Refusals: true})
			s.Ask(fast, store.Call{Cost: 1})
			if after := s.state(Plan{Refusals: true}); after != before {
				t.Fatalf("a refused call changed %s to %s", before, after)
			}
			s.Go(fast, 1, 5*ms)
			s.Go(fast, 1, 10*ms)
			for i := range 97 {
				s.Go(fast, 1, time.Duration(i+3)*5*ms)
			}
			s.Go(fast, 1, 505*ms)
		}},
		{"versions/given-back", "what was charged under other numbers is given back to nobody else", func(t testing.TB, s *Session) {
			slow, fast := s.Stack(Key{Policy: policies.PerSecond(1).Named("p")}), s.Stack(Key{Policy: policies.PerSecond(10).Named("p")})
			s.Go(slow, 1, 0)
			later := s.Go(slow, 1, time.Second)
			s.Go(fast, 1, 100*ms)
			s.Cancel(slow, later)
			s.Go(slow, 1, time.Second)
			for i := range 8 {
				s.Go(fast, 1, time.Duration(i+2)*100*ms)
			}
			if g := s.Ask(fast, store.Call{Cost: 1, MaxWait: time.Minute}); Since(g.At) < 1100*ms {
				t.Fatalf("a call goes at %v, in the place of one that goes at 1 s", Since(g.At))
			}
		}},
		{"versions/reset", "a reset holds for all versions of a limit", func(t testing.TB, s *Session) {
			one, two := s.Stack(Key{Policy: policies.PerSecond(10).Named("p")}), s.Stack(Key{Policy: policies.Fixed(10, time.Second).Named("p")})
			s.Go(one, 1, 0)
			s.Go(two, 1, 0)
			s.Report(two, store.Note{Kind: store.NoteReset})
			s.Go(one, 1, 0)
			if left := s.Status(two).Limits[0].Remaining; left < 9 {
				t.Fatalf("%d are left after a reset, want 9", left)
			}
		}},
		{"versions/side-by-side", "while several versions of a policy are in use, each of them holds for all calls", func(t testing.TB, s *Session) {
			all := shapes()
			var pairs [][]policies.Policy
			for i, a := range all {
				for _, b := range all[:i] {
					pairs = append(pairs, []policies.Policy{a, b})
				}
			}
			for seed := range s.seeds(10 * uint64(len(pairs))) {
				rng := rand.New(rand.NewPCG(seed, 17))
				used := slices.Clone(pairs[seed*37%uint64(len(pairs))])
				if seed%2 == 1 {
					used = append(used, all[rng.IntN(len(all))])
				}
				beside(t, s, rng, used, fmt.Sprintf("side%d", seed))
			}
		}},
	}
}

// drain lets calls go as long as a policy lets them go now, and returns how many went.
func (s *Session) drain(p policies.Policy, scope string) (n int64) {
	st := s.Stack(Key{Policy: p, Scope: scope})
	for s.Ask(st, store.Call{Cost: 1}).OK {
		n++
	}
	return n
}

// mayFollow returns how many calls may go at once under b at an instant, after n went under a shortly before.
func mayFollow(a, b policies.Policy, n int64, before, now time.Duration) int64 {
	spec := b.Spec()
	burst, _ := b.Limit()
	back := int64(0) // so many came back
	if spec.Algorithm == policies.GCRA {
		burst = spec.Limit
		back = int64((now-before)/(time.Duration(spec.Interval)*time.Microsecond)) + 1
		if spec.Most > 0 { // it is strict, as long as nobody knows what its windows held
			burst = min(burst, 1)
		}
	}
	if of := a.Spec(); of.Algorithm == policies.GCRA { // it has forgotten those that came back
		n -= int64((now-before)/(time.Duration(of.Interval)*time.Microsecond)) + 1
	}
	return max(0, burst-max(0, n)+back)
}

// beside lets random calls ask for versions of a policy, now or never, and judges each by its own version, counting all.
func beside(t testing.TB, s *Session, rng *rand.Rand, used []policies.Policy, scope string) {
	begin := Since(s.now).Truncate(time.Hour) + time.Hour
	var went []time.Duration
	at := begin
	s.At(at)
	for _, p := range used { // they all know of each other from the start
		st := s.Stack(Key{Policy: p, Scope: scope})
		if g := s.Ask(st, store.Call{Cost: 1, MaxWait: store.Forever}); g.At == s.now {
			went = append(went, at)
		} else {
			s.Cancel(st, g)
		}
	}
	for range 250 {
		if rng.IntN(3) > 0 {
			at += time.Duration(rng.Int64N(int64(150 * ms)))
		}
		if rng.IntN(60) == 0 {
			at += time.Duration(rng.Int64N(int64(20 * time.Second)))
		}
		at = at.Truncate(time.Microsecond)
		s.At(at)
		p := used[rng.IntN(len(used))]
		if !s.Ask(s.Stack(Key{Policy: p, Scope: scope}), store.Call{Cost: 1}).OK {
			continue
		}
		if broken := breaks(p, went, at); broken != "" {
			t.Fatalf("side by side %v: at %v a call goes under %q although %s", used, at-begin, p, broken)
		}
		went = append(went, at)
	}
	if len(went) < 2 {
		t.Fatalf("side by side %v: %d calls went", used, len(went))
	}
}

// breaks says why a call at an instant breaks a policy, after those that went before; "" if it does not.
func breaks(p policies.Policy, went []time.Duration, at time.Duration) string {
	limit, period := p.Limit()
	spec := p.Spec()
	if spec.Algorithm == policies.GCRA {
		interval, level, last := time.Duration(spec.Interval)*time.Microsecond, 0.0, time.Duration(0)
		for _, w := range went { // of other versions, too, which empty the bucket and no more
			level = min(float64(spec.Limit), max(0, level-float64(w-last)/float64(interval))+1)
			last = w
		}
		if level -= float64(at-last) / float64(interval); level > float64(spec.Limit)-1+0.001 {
			return fmt.Sprintf("%.3f of its burst of %d are spent", level, spec.Limit)
		}
		return ""
	}
	from := at - period
	switch {
	case spec.Calendar != nil:
		bounds := spec.Calendar.Bounds(int64(Epoch)+at.Microseconds(), int64(Epoch)+at.Microseconds())
		for _, b := range bounds {
			if b <= int64(Epoch)+at.Microseconds() {
				from = time.Duration(b-int64(Epoch))*time.Microsecond - 1
			}
		}
	case spec.Buckets == 0:
		from = at - (time.Duration(Epoch)*time.Microsecond+at)%period - 1
	}
	n := int64(0)
	for _, w := range went {
		if w > from {
			n++
		}
	}
	if n >= limit {
		return fmt.Sprintf("%d went since %v", n, from)
	}
	return ""
}

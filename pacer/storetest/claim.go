package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// claimCases are about claims after a store has forgotten, and about resets.
func claimCases() []Case {
	rate := policies.Every(100 * ms).Named("rate")
	window := policies.Fixed(3, time.Second).Named("window")
	claim := func(from, to time.Duration) store.Note {
		return store.Note{Kind: store.NoteClaim, Charge: store.Charge{
			From: int64(Epoch) + from.Microseconds(), To: int64(Epoch) + to.Microseconds(),
		}}
	}
	held := func(bucket time.Duration, n int64) store.Note {
		return store.Note{Kind: store.NoteClaim, Charge: store.Charge{From: int64(Epoch) + bucket.Microseconds(), To: n}}
	}
	return []Case{
		{"claim/rate", "what somebody remembers as charged is charged", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: rate})
			s.Report(st, claim(-100*ms, 250*ms))
			s.Go(st, 1, 250*ms)
			s.Go(st, 1, 350*ms)
		}},
		{"claim/rate/twice", "a claim of what is charged already changes nothing", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: rate})
			s.Go(st, 1, 0)
			s.Go(st, 1, 100*ms)
			s.Report(st, claim(0, 200*ms), claim(0, 200*ms), claim(50*ms, 150*ms))
			s.Go(st, 1, 200*ms)
		}},
		{"claim/rate/ahead", "what lies before a claim stays free", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: rate})
			s.Report(st, claim(500*ms, 600*ms))
			s.Go(st, 1, 0)
			s.Go(st, 1, 100*ms)
			s.Go(st, 1, 200*ms)
			s.Go(st, 1, 300*ms)
			s.Go(st, 1, 400*ms)
			s.Go(st, 1, 600*ms)
		}},
		{"claim/rate/gap", "a claim takes its part of a gap, and no more", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: rate})
			s.Report(st, claim(1000*ms, 1100*ms))
			s.Report(st, claim(300*ms, 550*ms))
			for _, want := range []int{0, 100, 200, 550, 650, 750, 850, 1100} {
				s.Go(st, 1, time.Duration(want)*ms)
			}
		}},
		{"claim/rate/gaps", "a claim takes all gaps that it meets, and of the first and the last one what it covers", func(_ testing.TB, s *Session) {
			for i, span := range [][2]int{{250, 1050}, {200, 1000}, {300, 900}, {150, 450}, {350, 380}, {0, 3000}, {1500, 1600}} {
				st := s.Stack(Key{Policy: policies.Every(100 * ms).Named(fmt.Sprintf("rate%d", i))})
				var line []store.Grant
				for k := range 20 {
					line = append(line, s.Go(st, 1, time.Duration(k)*100*ms))
				}
				taken := make(map[int]bool)
				for k := range 20 {
					if taken[k] = k%3 != 1; !taken[k] && k > 0 {
						s.Cancel(st, line[k])
					}
				}
				from, to := span[0], span[1]
				s.Report(st, claim(time.Duration(from)*ms, time.Duration(to)*ms))
				for k := range 20 {
					if begin := 100 * k; !taken[k] && (begin+100 <= from || begin >= to) {
						s.Go(st, 1, time.Duration(begin)*ms)
					}
				}
				s.Go(st, 1, time.Duration(max(2000, to))*ms)
			}
		}},
		{"claim/window", "a bucket holds at least what somebody remembers", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: window})
			s.Report(st, held(0, 2))
			s.Go(st, 1, 0)
			s.Go(st, 1, time.Second)
			s.Report(st, held(time.Second, 1))
			s.Go(st, 2, time.Second)
		}},
		{"claim/past", "what is past is not charged again", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: rate}, Key{Policy: window})
			s.At(2 * time.Second)
			past := held(0, 3)
			past.Limit = 1
			s.Report(st, claim(0, 1900*ms), past)
			s.Go(st, 1, 2*time.Second)
			if got := s.Status(st).Limits[1].Remaining; got != 2 {
				t.Fatalf("%d of the window are left, want 2", got)
			}
		}},
		{"reset", "what is reset means the same as what was never used", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: rate}, Key{Policy: window}, left(Key{Policy: rate}))
			s.Go(st, 1, 0)
			s.Go(st, 1, 100*ms)
			s.Go(st, 1, 200*ms)
			s.Pause(st, time.Minute)
			all := []store.Note{{Kind: store.NoteReset}, {Kind: store.NoteReset, Limit: 1}, {Kind: store.NoteReset, Limit: 2}}
			s.Report(st, all...)
			s.Go(st, 1, 0)
			if got := s.Status(st).Limits[1].Remaining; got != 2 {
				t.Fatalf("%d of the window are left, want 2", got)
			}
		}},
		{"reset/cancel", "what was granted before a reset is not given back: others may have it by now", func(t testing.TB, s *Session) {
			s.reset(t, func(st store.Stack, old []store.Grant) { s.Cancel(st, old...) })
		}},
		{"reset/settle", "what a call cost that was granted before a reset does not matter, whether more or less", func(t testing.TB, s *Session) {
			for _, actual := range []int64{0, 50} {
				s.reset(t, func(st store.Stack, old []store.Grant) {
					for i := range old {
						s.Report(st, store.Note{Kind: store.NoteSettle, Charge: old[i].Charges[0], Cost: 1, Actual: actual})
					}
				})
			}
		}},
		{"reset/forgotten", "a reset is remembered as long as what was charged before it could matter: then a settlement counts as any other", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: rate})
			g := s.Go(st, 1, 0)
			s.Report(st, store.Note{Kind: store.NoteReset})
			s.At(time.Second)
			s.Report(st, store.Note{Kind: store.NoteSettle, Charge: g.Charges[0], Cost: 1, Actual: 3})
			s.Go(st, 1, 1200*ms)
		}},
		{"reset/after", "what was granted after a reset is given back as ever, and it alone", func(t testing.TB, s *Session) {
			s.reset(t, func(st store.Stack, old []store.Grant) {
				g := s.Ask(st, store.Call{Cost: 1, MaxWait: time.Minute})
				s.Cancel(st, g)
				s.Cancel(st, old...)
			})
		}},
	}
}

// reset resets each kind of limit while calls have slots, grants as many to others, and then does something that must not matter: the next
// call gets its slot as if it had not been done.
func (s *Session) reset(t testing.TB, do func(st store.Stack, old []store.Grant)) {
	t.Helper()
	for i, p := range []policies.Policy{policies.PerSecond(10), policies.AtMost(3, time.Second), policies.Fixed(3, time.Second), policies.Sliding(3, time.Second)} {
		one, two := s.Stack(Key{Policy: p.Named(fmt.Sprintf("one%d-%d", i, s.now))}), s.Stack(Key{Policy: p.Named(fmt.Sprintf("two%d-%d", i, s.now))})
		var old []store.Grant
		ask := func(n int) (last, twin store.Grant) {
			for range n {
				last = s.Ask(one, store.Call{Cost: 1, MaxWait: time.Minute})
				twin = s.Ask(two, store.Call{Cost: 1, MaxWait: time.Minute})
				old = append(old, last)
			}
			return last, twin
		}
		ask(3)
		s.Set(s.now + 1)
		s.Report(one, store.Note{Kind: store.NoteReset})
		s.Report(two, store.Note{Kind: store.NoteReset})
		s.Set(s.now + 1)
		before := old
		ask(3)
		do(one, before)
		if g, want := ask(1); g.At != want.At {
			t.Fatalf("under %v a call got the slot %v, want %v", p, Since(g.At), Since(want.At))
		}
	}
}

package storetest

import (
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// exactCases are about rates whose windows are exact: an AtMost with a burst.
func exactCases() []Case {
	four := policies.AtMost(4, time.Second).Skew(0) // T is 250 ms
	learn := func(value int64, d time.Duration) store.Note {
		return store.Note{Kind: store.NoteLearn, Value: value, For: d}
	}
	return []Case{
		{"exact/burst-2", "AtMost(4, 1s).Burst(2): two go at once and the others follow one interval apart; the fifth goes a period after the first, and so on, so that all of the limit is used", steps(four.Burst(2), []step{
			{0, 1, 0},
			{0, 1, 0},
			{0, 1, 250 * ms},
			{0, 1, 500 * ms},
			{0, 1, 1000 * ms}, // the rate alone would let it go at 750 ms
			{0, 1, 1000 * ms},
			{0, 1, 1250 * ms},
			{0, 1, 1500 * ms},
			{0, 1, 2000 * ms},
		})},
		{"exact/burst-of-all", "AtMost(4, 1s).Burst(4): all go at once, and again a period later", steps(four.Burst(4), []step{
			{0, 1, 0},
			{0, 1, 0},
			{0, 1, 0},
			{0, 1, 0},
			{0, 1, 1000 * ms},
			{0, 3, 1000 * ms},
			{0, 1, 2000 * ms},
		})},
		{"exact/to-the-microsecond", "what went a period ago counts no more, a microsecond earlier it does", steps(four.Burst(4), []step{
			{0, 1, 0},
			{100 * ms, 3, 100 * ms},
			{999_999 * time.Microsecond, 1, 1000 * ms},
			{999_999 * time.Microsecond, 1, 1100 * ms},
		})},
		{"exact/skew", "the windows are as long as period and skew", steps(policies.AtMost(2, time.Second).Burst(2).Skew(100*ms), []step{
			{0, 1, 0},
			{0, 1, 0},
			{0, 1, 1100 * ms},
		})},
		{"exact/idling", "after idling the burst goes at once, and the window holds what the rate would add", steps(four.Burst(2), []step{
			{0, 1, 0},
			{300 * ms, 1, 300 * ms},
			{600 * ms, 1, 600 * ms},
			{900 * ms, 1, 900 * ms},
			{950 * ms, 1, 1000 * ms},
			{5 * time.Second, 2, 5 * time.Second},
		})},
		{"exact/cost", "a call of cost n starts n times", steps(four.Burst(3), []step{
			{0, 3, 0},
			{0, 3, 1000 * ms}, // after 750 ms by the rate alone
			{0, 1, 250 * ms},  // the fourth of the first second
			{0, 1, 1250 * ms},
			{0, 1, 2000 * ms},
		})},
		{"exact/in-front", "a call that goes in front of a reservation leaves every window whole that the reservation is in", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: four.Burst(4)})
			s.Ask(st, store.Call{Cost: 1, NotBefore: 900 * ms, MaxWait: time.Minute})
			s.Go(st, 1, 0)
			s.Go(st, 2, 0)
			s.Go(st, 1, 1000*ms) // not at 0: from 0 to 900 ms there would be five
			s.Go(st, 2, 1000*ms)
			s.Go(st, 1, 1900*ms)
		}},
		{"exact/behind-many", "a call passes a window that is full of reservations", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: four.Burst(4)})
			for range 4 {
				s.Ask(st, store.Call{Cost: 1, NotBefore: 500 * ms, MaxWait: time.Minute})
			}
			s.Go(st, 1, 1500*ms)
		}},
		{"exact/cancel", "what is given back starts no more", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: four.Burst(2)})
			s.Go(st, 2, 0)
			a := s.Go(st, 1, 250*ms)
			s.Go(st, 1, 500*ms)
			s.Go(st, 1, 1000*ms)
			s.Cancel(st, a)
			s.Cancel(st, a)
			s.Go(st, 1, 250*ms)
			s.Go(st, 1, 1000*ms)
		}},
		{"exact/settle", "a call that turns out to cost more has started as often, and one that costs less gives starts back", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: four.Burst(4)})
			g := s.Go(st, 1, 0)
			s.Report(st, store.Note{Kind: store.NoteSettle, Charge: g.Charges[0], Cost: 1, Actual: 3})
			s.Go(st, 1, 0)
			g = s.Go(st, 3, 1000*ms)
			s.Report(st, store.Note{Kind: store.NoteSettle, Charge: g.Charges[0], Cost: 3, Actual: 1})
			s.Go(st, 2, 1000*ms)
			s.Go(st, 1, 1000*ms)
			s.Go(st, 1, 2000*ms)
		}},
		{"exact/slack", "a call goes at its slot: that others do has been counted on", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: four.Burst(4)})
			for _, g := range s.AskAll(st, store.Call{Cost: 1, MaxWait: time.Minute}, store.Call{Cost: 1, MaxWait: time.Minute}, store.Call{Cost: 3, MaxWait: time.Minute}) {
				if g.Slack != 0 {
					t.Fatalf("slack is %v, want none: %+v", g.Slack, g)
				}
			}
		}},
		{"exact/learn", "while the upstream allows less, the windows hold as many calls less", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: four.Burst(4)})
			s.Report(st, learn(500_000, time.Minute)) // two a second
			s.Go(st, 1, 0)
			s.Go(st, 1, 0)
			s.Go(st, 1, 1000*ms)
			s.Go(st, 1, 1000*ms)
			s.Go(st, 1, 2000*ms)
		}},
		{"exact/changed", "a limit that was not exact before is kept without a burst until no window knows of calls that were not logged", func(_ testing.TB, s *Session) {
			plain, exact := s.Stack(Key{Policy: four.Named("p")}), s.Stack(Key{Policy: four.Burst(2).Named("p")})
			s.Go(plain, 1, 0)
			s.Go(plain, 1, 250*ms)
			s.Go(exact, 1, 500*ms) // with a burst it would go at 250 ms
			s.Go(exact, 1, 750*ms)
			s.Go(exact, 1, 1000*ms)
			s.Go(exact, 1, 1250*ms)
			s.Go(exact, 1, 1500*ms) // behind the last one that was not logged by a period: 1250 ms by the rate, and four before
			s.At(5 * time.Second)
			s.Go(exact, 1, 5000*ms)
			s.Go(exact, 1, 5000*ms)
			s.Go(plain, 1, 5500*ms)
			s.Go(exact, 1, 5750*ms)
			s.At(10 * time.Second)
			s.Go(exact, 2, 10*time.Second)
			s.Go(s.Stack(Key{Policy: four.Burst(4).Named("p")}), 1, 10500*ms) // another burst is another limit
		}},
		{"exact/claim", "of what somebody remembers, nobody knows when it started: calls keep their distance until that is out of every window", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: four.Burst(4)})
			claim := func(from, to time.Duration) store.Note {
				return store.Note{Kind: store.NoteClaim, Charge: store.Charge{From: int64(Epoch) + from.Microseconds(), To: int64(Epoch) + to.Microseconds()}}
			}
			s.Report(st, claim(-500*ms, 250*ms))
			s.Go(st, 1, 250*ms)
			s.Go(st, 1, 500*ms)
			s.At(5 * time.Second)
			s.Go(st, 2, 5*time.Second)
			s.Report(st, claim(4900*ms, 5*time.Second)) // past, and perhaps not known
			s.Go(st, 1, 5500*ms)
			s.At(10 * time.Second)
			s.Go(st, 4, 10*time.Second)
			s.Report(st, claim(10500*ms, 11*time.Second)) // known
			s.Go(st, 1, 11*time.Second)
		}},
		{"exact/strict-gap", "between calls of which nobody knows when they start, a call goes where it is in no window with too many, whatever these do", func(_ testing.TB, s *Session) {
			plain, exact := s.Stack(Key{Policy: four.Named("p")}), s.Stack(Key{Policy: four.Burst(2).Named("p")})
			for _, at := range []time.Duration{250 * ms, 500 * ms, 1250 * ms} {
				s.Ask(plain, store.Call{Cost: 1, NotBefore: at, MaxWait: time.Minute})
			}
			s.Go(exact, 1, 750*ms) // from 0 to 250 ms there is no room for one that may go early
			s.Go(exact, 1, 1500*ms)
		}},
		{"exact/strict-cost", "strictly, a call of cost n leaves n − 1 intervals before it, because all of them go at its slot", func(_ testing.TB, s *Session) {
			plain, exact := s.Stack(Key{Policy: four.Named("p")}), s.Stack(Key{Policy: four.Burst(3).Named("p")})
			s.Go(plain, 1, 0)
			s.Go(plain, 1, 250*ms)
			s.Go(plain, 1, 500*ms)
			s.Go(exact, 2, 1000*ms) // from 0 to 999 ms there may be one more
			s.Go(exact, 1, 1500*ms) // not at 750 ms: those behind it may go one interval before theirs
		}},
		{"exact/forget", "starts count until they are out of the window, and no longer than that, whatever happens meanwhile", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: four.Burst(2)})
			touch := store.Note{Kind: store.NoteLearn}
			for _, at := range []time.Duration{0, 249 * ms, 499 * ms, 749 * ms} {
				s.At(at)
				s.Report(st, touch)
				s.Go(st, 1, at)
			}
			s.At(1000 * ms) // all virtual time that was charged is past
			s.Report(st, touch)
			s.Go(st, 1, 1000*ms)
			s.Go(st, 1, 1249*ms)
			s.At(4 * time.Second)
			s.Report(st, touch)
			s.Go(st, 2, 4*time.Second)
		}},
		{"exact/turn", "starts count when the account is tidied up, too", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.AtMost(4, time.Second).Skew(0).Burst(4)})
			s.At(300 * ms)
			s.Go(st, 4, 300*ms)
			s.At(1299*ms + 500*time.Microsecond)
			s.Ask(st, store.Call{Cost: 1, NotBefore: 2 * time.Second, MaxWait: time.Minute})
			s.Go(st, 1, 1300*ms)
		}},
		{"exact/status", "as many calls of cost 1 go now as the status says, and the next one when it says", func(t testing.TB, s *Session) {
			key := Key{Policy: policies.AtMost(7, time.Second).Skew(0).Burst(5)}
			st := s.Stack(key)
			for i := range 60 {
				s.At(time.Duration(i) * 117 * ms)
				for left := s.Status(st).Limits[0].Remaining; left > 0; left-- {
					if got := s.Status(st).Limits[0]; got.Remaining != left || got.Next != s.now {
						t.Fatalf("at %v: %d remain and the next goes at %v, want %d, now", Since(s.now), got.Remaining, Since(got.Next), left)
					}
					s.Go(st, 1, Since(s.now))
					if i%3 == 0 {
						break
					}
				}
				if l := s.Status(st).Limits[0]; i%3 != 0 {
					if l.Remaining != 0 {
						t.Fatalf("at %v: %d remain", Since(s.now), l.Remaining)
					}
					if i%4 == 0 {
						s.Go(st, 1, Since(l.Next))
					}
				}
			}
		}},
		{"exact/together", "calls that go now together are as many as would go one after the other", func(t testing.TB, s *Session) {
			p := policies.AtMost(20, time.Second).Burst(15)
			together, each := s.Stack(Key{Policy: p.Named("a")}), s.Stack(Key{Policy: p.Named("b")})
			for i, n := range []int{9, 3, 12, 30, 1, 5, 17, 64} {
				s.At(time.Duration(i) * 430 * ms)
				calls := make([]store.Call, n)
				for j := range calls {
					calls[j] = store.Call{Cost: 1 + int64(i%2), MaxWait: 900 * ms}
				}
				for j, g := range s.AskAll(together, calls...) {
					if one := s.Ask(each, calls[j]); one.At != g.At || one.OK != g.OK || one.Slack != g.Slack {
						t.Fatalf("call %d of %d at %v: together %+v, alone %+v", j, n, Since(s.now), g, one)
					}
				}
			}
		}},
		{"exact/bounded", "the search for a place is bounded, and ends behind all reservations if it must", func(t testing.TB, s *Session) {
			if at := Since(Crowd(s).At); at != 60*time.Second && at != 101*time.Second {
				t.Fatalf("slot %v, want 1m, where there is room, or 1m41s, behind the line", at)
			}
		}},
		{"exact/property", "whatever is reserved, backfilled and given back, no window holds more calls than may start in it", func(t testing.TB, s *Session) {
			for seed := range s.seeds(150) {
				conform(t, s.Fixture, 4_000_000+seed, Plan{Ops: 80, Cancels: true, Feedback: seed%2 == 0, Exact: true})
			}
		}},
	}
}

// Crowd makes a long queue with gaps, and lowers the limit to a pace at which all windows are full except a distant one, and returns what a
// call gets then.
func Crowd(s *Session) store.Grant {
	st := s.Stack(Key{Policy: policies.AtMost(8, time.Second).Skew(0).Burst(8)})
	for i := range 101 {
		for range 4 {
			if i != 60 {
				s.Ask(st, store.Call{Cost: 1, NotBefore: time.Duration(i) * time.Second, MaxWait: store.Forever})
			}
		}
	}
	s.Report(st, store.Note{Kind: store.NoteLearn, Value: 500_000, For: time.Hour})
	return s.Ask(st, store.Call{Cost: 1, MaxWait: store.Forever})
}

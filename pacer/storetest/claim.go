package storetest

import (
	"testing"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// claimCases are about what is remembered for a store that has forgotten, and about forgetting on purpose.
func claimCases() []Case {
	rate := policies.Every(100 * ms).Named("rate")
	window := policies.Fixed(3, time.Second).Named("window")
	claim := func(from, to time.Duration) pacer.Note {
		return pacer.Note{Kind: pacer.NoteClaim, Charge: pacer.Charge{
			From: int64(Epoch) + from.Microseconds(), To: int64(Epoch) + to.Microseconds(),
		}}
	}
	held := func(bucket time.Duration, n int64) pacer.Note {
		return pacer.Note{Kind: pacer.NoteClaim, Charge: pacer.Charge{From: int64(Epoch) + bucket.Microseconds(), To: n}}
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
			st := s.Stack(Key{Policy: rate}, Key{Policy: window})
			s.Go(st, 1, 0)
			s.Go(st, 1, 100*ms)
			s.Go(st, 1, 200*ms)
			s.Pause(st, time.Minute)
			s.Pause(pacer.Stack{Upstream: st.Upstream}, time.Minute)
			all := []pacer.Note{{Kind: pacer.NoteReset, Limit: pacer.WholeUpstream}, {Kind: pacer.NoteReset}, {Kind: pacer.NoteReset, Limit: 1}}
			s.Report(st, all...)
			s.Go(st, 1, 0)
			if got := s.Status(st).Limits[1].Remaining; got != 2 {
				t.Fatalf("%d of the window are left, want 2", got)
			}
		}},
	}
}

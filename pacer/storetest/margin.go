package storetest

import (
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// marginCases are about refusals of calls whose accounts had room.
func marginCases() []Case {
	const step, most = 20_000, 50_000 // millionths: 2 % and 5 %
	stray := func(at time.Duration, share int64) store.Note {
		return store.Note{Kind: store.NoteStray, At: Epoch + store.Instant(at.Microseconds()), For: time.Second, Value: share, Remaining: 100_000}
	}
	margin := func(s *Session, st store.Stack) int64 { return s.Status(st).Limits[0].Margin }
	expect := func(t testing.TB, what string, got, want any) {
		t.Helper()
		if got != want {
			t.Fatalf("%s: got %v, want %v", what, got, want)
		}
	}
	return []Case{
		{"stray/alone", "a refusal that comes soon after another is no stray, unless both calls were under way together; the margin grows up to its bound, and fades", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10)})
			note := func(at time.Duration) store.Note {
				return store.Note{Kind: store.NoteStray, At: Epoch + store.Instant(at.Microseconds()), For: time.Second, Value: step, Remaining: most}
			}
			s.At(time.Second)
			expect(t, "the first", s.Report(st, note(900*ms)), 0)
			expect(t, "margin", margin(s, st), int64(20_000))
			s.At(1500 * ms)
			expect(t, "the second, of a call that was under way already", s.Report(st, note(990*ms)), 0)
			expect(t, "margin", margin(s, st), int64(19_895))
			expect(t, "the third, of one that went later", s.Report(st, note(1400*ms)), 1)
			expect(t, "margin", margin(s, st), int64(39_895))
			expect(t, "the fourth, of one that went with it", s.Report(st, note(1450*ms)), 0)
			s.At(3 * time.Second)
			expect(t, "one alone again", s.Report(st, note(2900*ms)), 0)
			expect(t, "bound", margin(s, st), int64(50_000))
			s.At(3*time.Second + 2*time.Minute)
			expect(t, "a step less after 96 s", margin(s, st), int64(25_000))
			s.At(3*time.Second + 4*time.Minute)
			expect(t, "gone after 240 s", margin(s, st), int64(0))
			expect(t, "alone", s.Report(st, note(0)), 0)
		}},
		{"stray/rate", "calls of a rate go further apart", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10)})
			s.Report(st, stray(time.Microsecond, step))
			s.Go(st, 1, 0)
			s.Go(st, 1, 102*ms)
			s.Go(st, 1, 204*ms)
		}},
		{"stray/exact", "the windows of an exact rate are longer", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.AtMost(5, time.Second).Burst(5).Skew(0)})
			s.Report(st, stray(time.Microsecond, 100_000))
			for range 4 {
				s.Go(st, 1, 0)
			}
			s.Go(st, 1, 80*ms) // the cells are longer, and the tolerance is not
			s.Go(st, 1, 1100*ms)
			s.Go(st, 1, 1100*ms)
		}},
		{"stray/sliding", "a sliding window reaches further back, by whole buckets", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.Sliding(5, time.Second).Buckets(10)})
			s.Report(st, stray(time.Microsecond, step))
			for range 5 {
				s.Go(st, 1, 0)
			}
			s.Go(st, 1, 1200*ms)
		}},
		{"stray/past", "what counts no more does not count again because of a margin", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.Sliding(5, time.Second).Buckets(10)})
			s.Report(st, store.Note{Kind: store.NoteReset})
			for range 5 {
				s.Go(st, 1, 0)
			}
			s.At(1150 * ms)
			s.Report(st, stray(1140*ms, 100_000))
			s.Go(st, 1, 1150*ms)
		}},
		{"stray/fixed", "nothing goes at the end of a fixed window", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.Fixed(5, time.Second)})
			s.Report(st, stray(time.Microsecond, 100_000))
			s.At(890 * ms)
			s.Go(st, 1, 890*ms)
			s.At(901 * ms)
			s.Go(st, 1, time.Second)
		}},
		{"stray/calendar", "a calendar's windows have no margin", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.Hourly(5, time.UTC)})
			s.At(58 * time.Minute)
			s.Report(st, stray(57*time.Minute, 100_000))
			s.Go(st, 1, 58*time.Minute)
		}},
		{"stray/adaptive", "a rate that grew too far goes back to what went through, and nobody else has to wait", func(t testing.TB, s *Session) {
			p := policies.PerSecond(10).Adaptive(policies.Adaptation{Floor: 20, Decrease: 50, Hold: 2 * time.Second, Recovery: 10 * time.Second})
			st := s.Stack(Key{Policy: p})
			pace := func() int64 { return s.Status(st).Limits[0].Pace }
			s.At(time.Second)
			expect(t, "alone", s.Report(st, stray(990*ms, step)), 0)
			expect(t, "whole", pace(), int64(100_000))
			// Late notifications must not count as the next ones.
			s.notifies(t, store.Slowed, []int64{0}, func() { s.Report(st, store.Note{Kind: store.NoteSlow, At: s.now}) })
			expect(t, "half", pace(), int64(200_000))
			expect(t, "of the same moment", s.Report(st, stray(time.Second, step)), 0)
			s.At(1500 * ms)
			s.notifies(t, store.Slowed, []int64{0}, func() { expect(t, "soon after", s.Report(st, stray(1400*ms, step)), 0) })
			expect(t, "a little less", pace(), int64(204_082))
			s.At(4500 * ms)
			expect(t, "10 % a second", pace(), int64(169_492))
			s.notifies(t, store.Slowed, []int64{0}, func() { expect(t, "while it grows", s.Report(st, stray(4400*ms, step)), 0) })
			expect(t, "as before it grew", pace(), int64(204_082))
			expect(t, "margin", margin(s, st) < step, true)
			s.At(9500 * ms)
			expect(t, "30 % more", pace(), int64(126_583))
			s.notifies(t, store.Slowed, []int64{0}, func() { // so that calls with slots too close to each other move
				expect(t, "while it grows", s.Report(st, stray(9400*ms, step), stray(2*time.Second, step)), 0)
			})
			expect(t, "as half a second before, less a call", pace(), int64(156_250))
			s.At(11 * time.Second)
			expect(t, "while it holds", s.Report(st, stray(10_900*ms, step)), 0)
			expect(t, "again", s.Report(st, stray(11*time.Second, step)), 1)
		}},
		{"stray/reset", "a reset forgets the margin", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10).Named("r")})
			w := s.Stack(Key{Policy: policies.Sliding(5, time.Second).Named("w")})
			for _, one := range []store.Stack{st, w} {
				s.Report(one, stray(time.Microsecond, step))
				s.Report(one, store.Note{Kind: store.NoteReset})
				expect(t, "margin", margin(s, one), int64(0))
			}
		}},
	}
}

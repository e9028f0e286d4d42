package storetest

import (
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// heedCases are about feedback other than a pause.
func heedCases() []Case {
	learn := func(value int64, d time.Duration) store.Note {
		return store.Note{Kind: store.NoteLearn, Value: value, For: d}
	}
	expect := func(t testing.TB, what string, got, want any) {
		t.Helper()
		if got != want {
			t.Fatalf("%s: got %v, want %v", what, got, want)
		}
	}
	return []Case{
		{"pause/resume", "a pause is lifted by hand, and nothing else", func(_ testing.TB, s *Session) {
			r, w := Key{Policy: policies.PerSecond(10).Named("r")}, Key{Policy: policies.Fixed(10, time.Second).Named("w")}
			st := s.Stack(r, w, left(r), left(w))
			s.Go(st, 1, 0)
			s.Pause(st, time.Minute)
			s.Report(st, store.Note{Kind: store.NoteResume, Limit: 2}, store.Note{Kind: store.NoteResume, Limit: 3})
			s.Go(st, 1, 100*ms)
		}},
		{"learn/rate", "a rate that the upstream lowers is kept for as long as it says so, with the bursts that go with it", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10).Burst(4)})
			expect(t, "a lower rate makes a difference", s.Report(st, learn(200_000, 2*time.Second)), 1)
			expect(t, "the same again does not", s.Report(st, learn(200_000, 2*time.Second)), 0)
			s.Go(st, 1, 0)
			s.Go(st, 1, 0)
			s.Go(st, 1, 100*ms) // 400 ms of virtual time, of which 300 may be ahead
			s.Go(st, 1, 300*ms)
			expect(t, "pace", s.Status(st).Limits[0].Pace, int64(200_000))
			s.At(2 * time.Second)
			expect(t, "pace", s.Status(st).Limits[0].Pace, int64(100_000))
			for range 4 {
				s.Go(st, 1, 2*time.Second)
			}
			s.Go(st, 1, 2100*ms)
		}},
		{"learn/changed-policy", "a lower rate that was learned does not raise one that was lowered since", func(t testing.TB, s *Session) {
			s.Report(s.Stack(Key{Policy: policies.PerSecond(10).Named("p")}), learn(200_000, time.Minute))
			st := s.Stack(Key{Policy: policies.PerSecond(1).Named("p")})
			expect(t, "pace", s.Status(st).Limits[0].Pace, int64(1_000_000))
		}},
		{"learn/never-above", "the upstream cannot raise a limit", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10)}, Key{Policy: policies.Fixed(3, time.Second)})
			n := learn(5, time.Minute)
			n.Limit = 1
			expect(t, "higher limits make no difference", s.Report(st, learn(1, time.Minute), n), 0)
			s.Go(st, 1, 0)
			s.Go(st, 1, 100*ms)
			s.Go(st, 1, 200*ms)
			s.Go(st, 1, time.Second)
		}},
		{"learn/window", "a window that the upstream makes smaller is kept for as long as it says so", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.Fixed(4, time.Second)})
			expect(t, "a lower limit makes a difference", s.Report(st, learn(2, 1500*ms)), 1)
			s.Go(st, 1, 0)
			s.Go(st, 1, 0)
			s.Go(st, 1, time.Second)
			s.Go(st, 3, 2*time.Second) // more than it allows at present: it has a window to itself
			expect(t, "pace", s.Status(st).Limits[0].Pace, int64(2))
			expect(t, "that it says so no more makes a difference", s.Report(st, learn(0, 0)), 1)
			s.Go(st, 2, 0)
		}},
		{"slow/decrease", "a refusal slows an adaptive rate down, later it recovers, and it never goes beyond its limits", func(t testing.TB, s *Session) {
			p := policies.PerSecond(10).Adaptive(policies.Adaptation{Floor: 20, Decrease: 50, Hold: 2 * time.Second, Recovery: 10 * time.Second})
			st := s.Stack(Key{Policy: p})
			slow := func(at time.Duration) store.Note {
				return store.Note{Kind: store.NoteSlow, At: Epoch + store.Instant(at.Microseconds())}
			}
			pace := func() int64 { return s.Status(st).Limits[0].Pace }
			s.At(100 * ms)
			expect(t, "the first", s.Report(st, slow(50*ms)), 1)
			expect(t, "half", pace(), int64(200_000))
			s.At(1500 * ms)
			expect(t, "a call that had its slot before", s.Report(st, slow(90*ms)), 0)
			expect(t, "one that had it later", s.Report(st, slow(200*ms)), 1)
			expect(t, "a quarter", pace(), int64(400_000))
			s.At(1600 * ms)
			expect(t, "calls that go at the old pace still", s.Report(st, slow(1590*ms)), 0)
			s.At(3000 * ms)
			expect(t, "at the floor", s.Report(st, slow(2990*ms))+int(pace()), 1+500_000)
			s.At(5000 * ms)
			expect(t, "held for two seconds", pace(), int64(500_000))
			s.At(8 * time.Second)
			expect(t, "then 10 % a second", pace(), int64(200_000))
			expect(t, "too fast on the way up", s.Report(st, slow(7999*ms)), 1)
			expect(t, "half of that", pace(), int64(400_000))
			s.At(17 * time.Second)
			expect(t, "nearly whole: 25 % and 7 s", pace(), int64(105_264))
			s.At(18 * time.Second)
			expect(t, "whole", pace(), int64(100_000))
			s.Go(st, 1, 18*time.Second)
			s.Go(st, 1, 18100*ms)
		}},
		{"slow/what-held-holds", "a rate that proves too fast on the way up falls back to what held", func(t testing.TB, s *Session) {
			p := policies.PerSecond(10).Adaptive(policies.Adaptation{Floor: 1, Decrease: 50, Hold: time.Second, Recovery: 10 * time.Second})
			st := s.Stack(Key{Policy: p})
			s.Report(st, store.Note{Kind: store.NoteSlow})
			s.At(1500 * ms)
			s.Report(st, store.Note{Kind: store.NoteSlow})
			expect(t, "half, not a quarter", s.Status(st).Limits[0].Pace, int64(200_000))
		}},
		{"slow/only-adaptive", "what is not adaptive does not slow down", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10)}, Key{Policy: policies.Fixed(10, time.Second)})
			expect(t, "a refusal", s.Report(st, store.Note{Kind: store.NoteSlow}, store.Note{Kind: store.NoteSlow, Limit: 1}), 0)
			s.Go(st, 1, 0)
			s.Go(st, 1, 100*ms)
		}},
	}
}

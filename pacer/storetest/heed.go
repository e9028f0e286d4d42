package storetest

import (
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// heedCases are about what the upstream says besides "slow down".
func heedCases() []Case {
	remaining := func(n int64) store.Note { return store.Note{Kind: store.NoteRemaining, Remaining: n} }
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
			st := s.Stack(Key{Policy: policies.PerSecond(10).Named("r")}, Key{Policy: policies.Fixed(10, time.Second).Named("w")})
			s.Go(st, 1, 0)
			s.Pause(st, time.Minute)
			s.Pause(s.Stack(), time.Minute)
			s.Report(st, store.Note{Kind: store.NoteResume, Limit: store.WholeUpstream}, store.Note{Kind: store.NoteResume}, store.Note{Kind: store.NoteResume, Limit: 1})
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
		{"remaining/window", "what others spend is not there for us", func(t testing.TB, s *Session) {
			for _, p := range []policies.Policy{policies.Fixed(10, time.Minute), policies.Daily(10, time.UTC), policies.Sliding(10, time.Minute)} {
				st := s.Stack(Key{Policy: p})
				s.Go(st, 1, Since(s.now))
				expect(t, "three of ten are left", s.Report(st, remaining(3)), 1)
				expect(t, "remaining", s.Status(st).Limits[0].Remaining, int64(3))
				expect(t, "it only tightens", s.Report(st, remaining(9)), 0)
				expect(t, "the same again", s.Report(st, remaining(3)), 0)
				s.Go(st, 3, Since(s.now))
				expect(t, "remaining", s.Status(st).Limits[0].Remaining, int64(0))
			}
		}},
		{"remaining/next-window", "a new window has nothing of the one before", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.Fixed(10, time.Minute)})
			g := s.Go(st, 1, 0)
			s.Report(st, remaining(0))
			s.Go(st, 1, time.Minute)
			s.At(time.Minute)
			late := remaining(0)
			late.Bucket = g.Charges[0].From
			expect(t, "an answer to a call of the window before", s.Report(st, late), 0)
			s.Go(st, 9, time.Minute)
		}},
		{"remaining/taken-back", "what others are believed to have spent is what the last answer says, unless it was overtaken", func(t testing.TB, s *Session) {
			for _, p := range []policies.Policy{policies.Daily(10, time.UTC), policies.Sliding(10, time.Hour)} {
				begin := Since(s.now)
				st := s.Stack(Key{Policy: p})
				s.Go(st, 1, begin)
				expect(t, "nothing is left", s.Report(st, remaining(0)), 1)
				s.At(begin + time.Second)
				expect(t, "it may be older", s.Report(st, remaining(7)), 0)
				s.At(begin + 10*time.Second)
				expect(t, "seven are left", s.Report(st, remaining(7)), 1)
				expect(t, "remaining", s.Status(st).Limits[0].Remaining, int64(7))
				expect(t, "more than there can be", s.Report(st, remaining(1000)), 1)
				expect(t, "remaining", s.Status(st).Limits[0].Remaining, int64(9))
				expect(t, "nothing is left", s.Report(st, remaining(0)), 1)
				s.Report(st, store.Note{Kind: store.NoteResume})
				expect(t, "an operator knows better", s.Status(st).Limits[0].Remaining, int64(9))
			}
		}},
		{"remaining/asks", "a call goes to ask when an answer is old, and others a while after each other", func(t testing.TB, s *Session) {
			for _, p := range []policies.Policy{policies.Daily(10, time.UTC), policies.Sliding(10, 24*time.Hour)} {
				begin := Since(s.now)
				st := s.Stack(Key{Policy: p})
				s.Go(st, 8, begin)
				s.Report(st, remaining(0))
				s.Go(st, 1, begin+15*time.Minute)
				s.Go(st, 1, begin+18*time.Minute)
				if g := s.Ask(st, store.Call{Cost: 1, MaxWait: 2 * time.Hour}); g.OK {
					t.Fatalf("all ten are our own, and one more goes: %+v", g)
				}
				st = s.Stack(Key{Policy: p.Named("short-" + p.Name())})
				n := remaining(0)
				n.For = -time.Minute
				s.Report(st, n)
				s.Go(st, 1, begin+time.Minute)
				s.Go(st, 1, begin+time.Minute+12*time.Second)
				s.At(begin + time.Minute)
				s.Report(st, n)
				s.Go(st, 1, begin+2*time.Minute)
			}
		}},
		{"remaining/clock-back", "what others spent in a bucket that is ahead of a clock that stepped back is not taken off what is before it", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.Hourly(5, time.UTC).Skew(time.Second)})
			s.At(13 * ms)
			expect(t, "nothing is left", s.Report(st, remaining(0)), 1)
			s.At(-70 * ms)
			expect(t, "more than there can be", s.Report(st, remaining(6)), 0)
			if g := s.Ask(st, store.Call{Cost: 1, MaxWait: time.Minute}); g.OK || Since(g.At) != 15*time.Minute+13*ms {
				t.Fatalf("a call goes to ask at %v, want 15 minutes after the answer", Since(g.At))
			}
		}},
		{"remaining/on-the-way", "a call on its way is not taken for somebody else's", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.Fixed(10, time.Minute)})
			calls := []store.Call{{Cost: 1, Tracked: true}, {Cost: 1, Tracked: true}, {Cost: 1, Tracked: true}, {Cost: 1, Tracked: true}}
			grants := s.AskAll(st, calls...)
			answer := func(left, done int64) store.Note {
				n := remaining(left)
				n.Bucket, n.Done = grants[0].Charges[0].From, done
				return n
			}
			expect(t, "the first is answered: it was the only one there", s.Report(st, answer(9, 1)), 0)
			expect(t, "nine are left, and three of them are spoken for", s.Status(st).Limits[0].Remaining, int64(6))
			expect(t, "the second is answered", s.Report(st, answer(8, 1)), 0)
			s.Cancel(st, grants[3])
			expect(t, "one is given back", s.Status(st).Limits[0].Remaining, int64(7))
			expect(t, "another consumer has spent four", s.Report(st, answer(4, 0)), 1)
			expect(t, "four are left, and one of them is spoken for", s.Status(st).Limits[0].Remaining, int64(3))
			expect(t, "an answer that was overtaken", s.Report(st, answer(7, 0)), 0)
		}},
		{"remaining/reset", "what others spend is back when the upstream says so, whatever our own window is", func(t testing.TB, s *Session) {
			for _, p := range []policies.Policy{policies.Fixed(10, time.Minute), policies.Sliding(10, time.Minute), policies.Daily(10, time.UTC)} {
				s.At(0)
				st := s.Stack(Key{Policy: p})
				s.Go(st, 2, 0)
				n := remaining(3)
				n.For = 5 * time.Second
				expect(t, "three of ten are left", s.Report(st, n), 1)
				expect(t, "remaining", s.Status(st).Limits[0].Remaining, int64(3))
				s.Go(st, 1, 0)
				n.Remaining = 2
				expect(t, "as expected", s.Report(st, n), 0)
				s.At(5 * time.Second)
				expect(t, "remaining", s.Status(st).Limits[0].Remaining, int64(7))
			}
		}},
		{"remaining/reset-on-the-way", "calls on their way are spoken for until the upstream has more, too", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.Sliding(10, time.Minute)})
			grants := s.AskAll(st, store.Call{Cost: 1, Tracked: true}, store.Call{Cost: 1, Tracked: true}, store.Call{Cost: 1, Tracked: true})
			n := remaining(7)
			n.For, n.Bucket, n.Done = 5*time.Second, grants[0].Charges[0].From, 1
			s.Report(st, n)
			expect(t, "seven are left, two of them spoken for", s.Status(st).Limits[0].Remaining, int64(5))
		}},
		{"remaining/clock-stepped-back", "calls on their way stay known when the clock steps back into their bucket", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.Sliding(100, time.Second).Buckets(10)})
			s.Ask(st, store.Call{Cost: 50, Tracked: true})
			s.At(150 * ms)
			s.Go(st, 1, 150*ms)
			s.At(50 * ms)
			expect(t, "half is left, and spoken for", s.Report(st, remaining(50)), 1)
			expect(t, "remaining", s.Status(st).Limits[0].Remaining, int64(0))
		}},
		{"remaining/bucket", "a bucket that others drain is drained for us", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(2).Burst(40)})
			expect(t, "eight are left", s.Report(st, remaining(8)), 1)
			expect(t, "it only tightens", s.Report(st, remaining(30)), 0)
			for range 8 {
				s.Go(st, 1, 0)
			}
			s.Go(st, 1, 500*ms)
			s.At(20 * time.Second)
			expect(t, "remaining", s.Status(st).Limits[0].Remaining, int64(31+8))
		}},
		{"remaining/asks-over", "a call goes to ask although more was charged than the limit since", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.Sliding(10, time.Hour)})
			var g store.Grant
			for range 4 {
				g = s.Ask(st, store.Call{Cost: 1, MaxWait: 0})
			}
			s.Report(st, remaining(0))
			s.Report(st, store.Note{Kind: store.NoteSettle, Charge: g.Charges[0], Cost: 1, Actual: 4})
			s.Go(st, 1, 15*time.Minute)
		}},
		{"remaining/bucket-gaps", "what is free before later reservations is drained, too", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10).Burst(5)})
			g := s.Ask(st, store.Call{Cost: 1, NotBefore: 2 * time.Second, MaxWait: time.Minute})
			s.Report(st, remaining(1))
			s.Go(st, 1, 0)
			s.Go(st, 1, 100*ms)
			s.Cancel(st, g)
			s.Go(st, 1, 200*ms)
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

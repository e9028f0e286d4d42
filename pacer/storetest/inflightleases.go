package storetest

import (
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// leaseCases are about how long a permit counts.
func leaseCases() []Case {
	return []Case{
		{"inflight/lease", "a lease that is not renewed runs out after its length, not a microsecond before", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permitsOf(1).Lease(2 * time.Second)})
			s.goes(st, s.newCall())
			s.At(1500 * ms)
			b := s.newCall()
			s.stands(st, b, 0)
			s.At(2*time.Second - time.Microsecond)
			s.stands(st, b, 0)
			s.At(2 * time.Second)
			s.goes(st, b)
			s.stands(st, s.newCall(), 0)
		}},
		{"inflight/renew", "a lease that is renewed counts from then on", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permitsOf(1).Lease(2 * time.Second)})
			a, b := s.newCall(), s.newCall()
			s.goes(st, a)
			for _, at := range []time.Duration{1500 * ms, 3 * time.Second, 3500 * ms} {
				s.At(at)
				s.renew(st, a)
				s.expect(st, 0, 0, 0)
			}
			s.At(4600 * ms)
			s.stands(st, b, 0)
			s.At(5500*ms - time.Microsecond)
			s.stands(st, b, 0)
			s.At(5500 * ms)
			s.goes(st, b)
		}},
		{"inflight/renew-late", "a lease that has run out counts again when it is renewed", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permitsOf(1).Lease(2 * time.Second)})
			a, b, c := s.newCall(), s.newCall(), s.newCall()
			s.goes(st, a)
			s.At(2 * time.Second)
			s.goes(st, b)
			s.At(2500 * ms)
			s.renew(st, a)
			s.stands(st, c, 0)
			s.release(st, b)
			s.stands(st, c, 0)
			s.release(st, a)
			s.goes(st, c)
		}},
		oneAtOnce("release/twice", "a call that is over twice gives back its permit once", func(_ testing.TB, s *Session, st store.Stack) {
			a, b, c := s.newCall(), s.newCall(), s.newCall()
			s.release(st, a) // it has none yet
			s.goes(st, a)
			s.release(st, a, a)
			s.expect(st, 0, 1, 0)
			s.goes(st, b)
			s.release(st, a)
			s.expect(st, 0, 0, 0)
			s.stands(st, c, 0)
		}),
		{"inflight/longer-than", "only calls that have run for long count, and no call goes while there are as many as may be", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permitsOf(2).LongerThan(10 * time.Second).Lease(time.Minute)})
			var run []*store.Call
			begin := func() {
				s.t.Helper()
				run = append(run, s.newCall())
				s.goes(st, run[len(run)-1])
			}
			for range 5 {
				begin()
			}
			s.At(10*time.Second - time.Microsecond)
			begin()
			s.expect(st, 0, 2, 0)
			s.At(10 * time.Second)
			waits, other := s.newCall(), s.newCall()
			s.stands(st, waits, 0)
			s.stands(st, other, 1)
			s.release(st, run[:3]...)
			s.stands(st, waits, 0)
			s.release(st, run[3])
			s.goes(st, other) // there is room for any number
			s.goes(st, waits)
			begin()
		}},
		{"inflight/longer-than/began", "a call that is renewed counts from when it began", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permitsOf(1).LongerThan(10 * time.Second).Lease(4 * time.Second)})
			a := s.newCall()
			s.goes(st, a)
			for _, at := range []time.Duration{3 * time.Second, 6 * time.Second, 9 * time.Second} {
				s.At(at)
				s.renew(st, a)
			}
			s.At(10 * time.Second)
			s.stands(st, s.newCall(), 0)
			s.At(20 * time.Second)
			s.expect(st, 0, 1, 0)
			s.renew(st, a) // not known any more: its owner reports when it began
			s.stands(st, s.newCall(), 0)
		}},
		{"inflight/status", "Status tells how many may go, how many wait, and when a lease runs out", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permitsOf(2).Lease(5 * time.Second)})
			check := func(remaining, line int64, next, full time.Duration) {
				t.Helper()
				in := s.expect(st, 0, remaining, line)
				if Since(in.Next) != next || Since(in.Full) != full || in.Pace != 2 || in.Paused != 0 || in.Backlog != 0 {
					t.Fatalf("at %v: status %+v, want next at %v and full at %v", Since(s.now), in, next, full)
				}
			}
			a, b := s.newCall(), s.newCall()
			check(2, 0, 0, 0)
			s.goes(st, a)
			check(1, 0, 0, 5*time.Second)
			s.At(time.Second)
			s.goes(st, b)
			check(0, 0, 5*time.Second, 6*time.Second)
			s.stands(st, s.newCall(), 0)
			s.stands(st, s.newCall(), 1)
			check(0, 2, 5*time.Second, 6*time.Second)
			s.renew(st, a)
			check(0, 2, 6*time.Second, 6*time.Second)
			s.release(st, b)
			check(1, 2, 6*time.Second, 6*time.Second)
			s.At(30 * time.Second)
			check(2, 0, 30*time.Second, 30*time.Second)
		}},
	}
}

package storetest

import (
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// permitHeedCases are about reports that a limit of calls at once heeds.
func permitHeedCases() []Case {
	return []Case{
		{"inflight/pause", "nothing takes a permit while it is paused", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permitsOf(2)}, rateBeside(), left(Key{Policy: permitsOf(2)}))
			s.Pause(st, time.Second)
			a, b, c := s.newCall(), s.newCall(), s.newCall()
			c.MaxWait = 500 * ms
			if g := s.Ask(st, *c); g.OK || g.Queued || Since(g.Paused) != time.Second || g.Binds != 2 || Since(g.At) != time.Second {
				t.Fatalf("got %+v, want a refusal because of the pause", g)
			}
			g := s.far(st, a, time.Second)
			if Since(g.Paused) != time.Second || g.Binds != 2 {
				t.Fatalf("got %+v, want the pause to bind", g)
			}
			s.expect(st, 0, 2, 0)
			s.Report(st, store.Note{Kind: store.NoteResume, Limit: 2})
			s.goes(st, b)
			s.At(970 * ms)
			if g = s.Ask(st, *s.holding(a, g)); !g.OK || Since(g.At) != time.Second || !hasPermits(&st, &g) {
				t.Fatalf("got %+v, want the slot at 1s, and the permit", g)
			}
		}},
		{"inflight/learn", "fewer calls run for as long as the upstream says so", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: permitsOf(5)})
			learn := func(n int64, d time.Duration, changed int) {
				t.Helper()
				if got := s.Report(st, store.Note{Kind: store.NoteLearn, Value: n, For: d}); got != changed {
					t.Fatalf("learning %d made %d differences, want %d", n, got, changed)
				}
			}
			a, b, c := s.newCall(), s.newCall(), s.newCall()
			s.goes(st, a)
			s.goes(st, b)
			learn(9, time.Minute, 0) // the upstream cannot raise a limit
			learn(2, 3*time.Second, 1)
			learn(2, 3*time.Second, 0)
			s.stands(st, c, 0)
			if in := s.expect(st, 0, 0, 1); in.Pace != 2 {
				t.Fatalf("pace %d, want 2", in.Pace)
			}
			learn(1, 3*time.Second, 1)
			s.release(st, a)
			s.stands(st, c, 0)
			s.release(st, b)
			s.goes(st, c)
			s.At(3 * time.Second)
			if in := s.expect(st, 0, 4, 0); in.Pace != 5 {
				t.Fatalf("pace %d, want 5", in.Pace)
			}
			for range 4 {
				s.goes(st, s.newCall())
			}
			s.stands(st, s.newCall(), 0)
		}},
		oneAtOnce("reset", "what is reset has all its permits", func(_ testing.TB, s *Session, st store.Stack) {
			s.goes(st, s.newCall())
			s.stands(st, s.newCall(), 0)
			s.Report(st, store.Note{Kind: store.NoteReset})
			s.expect(st, 0, 1, 0)
			s.goes(st, s.newCall())
		}),
		{"inflight/limit-changes-at-once", "a raised limit opens permits, and a lowered one closes them when their calls are over", func(_ testing.TB, s *Session) {
			two, four := s.Stack(Key{Policy: permitsOf(2)}), s.Stack(Key{Policy: permitsOf(4)})
			a, b, c := s.newCall(), s.newCall(), s.newCall()
			s.goes(two, a)
			s.goes(two, b)
			s.stands(two, c, 0)
			s.goes(four, c)
			s.release(two, a)
			d := s.newCall()
			s.stands(two, d, 0)
			s.release(two, b)
			s.goes(two, d)
		}},
	}
}

package storetest

import (
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

func pauseCases() []Case {
	return []Case{
		{"pause/upstream", "nothing of an upstream goes before its pause is over, and then it goes at the policies' pace", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10)})
			other := s.Stack(Key{Policy: policies.PerSecond(10).Named("other"), Scope: "x"})
			s.Pause(s.Stack(), 2*time.Second)
			if g := s.Go(st, 1, 2*time.Second); g.Binds != store.BindsUpstream {
				t.Fatalf("binds %d, want the upstream", g.Binds)
			}
			s.Go(st, 1, 2100*ms)
			s.Go(other, 1, 2*time.Second)
			s.Go(s.Stack(), 1, 2*time.Second)
			s.At(2500 * ms)
			s.Go(other, 1, 2500*ms)
		}},
		{"pause/policy", "a pause of one key leaves the others running", func(t testing.TB, s *Session) {
			for _, p := range []policies.Policy{policies.PerSecond(10).Named("r"), policies.Fixed(10, time.Second).Named("w")} {
				a, b := s.Stack(Key{Policy: p, Scope: "a"}), s.Stack(Key{Policy: p, Scope: "b"})
				s.Pause(a, 2*time.Second)
				if g := s.Go(a, 1, 2*time.Second); g.Binds != 0 || !g.Paused {
					t.Fatalf("%v: binds %d, paused %v", p, g.Binds, g.Paused)
				}
				s.Go(b, 1, 0)
			}
		}},
		{"pause/never-shorter", "a pause is never shortened by another", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10)})
			s.Pause(st, 3*time.Second)
			s.Pause(st, time.Second)
			s.Pause(s.Stack(), 2*time.Second)
			s.Pause(s.Stack(), time.Second)
			s.Go(st, 1, 3*time.Second)
			s.Go(s.Stack(), 1, 2*time.Second)
		}},
		{"pause/keeps-what-was-charged", "a pause forgets nothing that was reserved before", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(1).Named("r")}, Key{Policy: policies.Fixed(3, 10*time.Second).Named("w")})
			for i := range 3 {
				s.Go(st, 1, time.Duration(i)*time.Second)
			}
			s.Pause(st, 1500*ms)
			s.Go(st, 1, 10*time.Second)
			s.At(20 * time.Second)
			s.Go(st, 1, 20*time.Second)
		}},
		{"pause/refusal", "a pause that is longer than MaxWait refuses", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10)})
			s.Pause(st, time.Hour)
			if g := s.Ask(st, store.Call{Cost: 1, MaxWait: time.Minute}); g.OK || g.Wait() != time.Hour || !g.Paused {
				t.Fatalf("got %+v, want a refusal for an hour", g)
			}
		}},
		{"pause/move-behind", "reservations inside a pause, given back and made again, stand behind it in order", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10)})
			var line []store.Grant
			for i := range 5 {
				line = append(line, s.Go(st, 1, time.Duration(i)*100*ms))
			}
			s.At(50 * ms)
			s.Pause(st, time.Second)
			s.Cancel(st, line[1:]...)
			for i := range 4 {
				s.Go(st, 1, 1050*ms+time.Duration(i)*100*ms)
			}
		}},
	}
}

func statusCases() []Case {
	type want struct {
		remaining, backlog int64
		next, paused       time.Duration
	}
	check := func(s *Session, st store.Stack, w want) {
		s.t.Helper()
		in := s.Status(st).Limits[0]
		got := want{in.Remaining, in.Backlog, in.Next.Sub(s.now), max(0, in.Paused.Sub(s.now))}
		if got != w {
			s.t.Fatalf("at %v: status %+v, want %+v", Since(s.now), got, w)
		}
	}
	return []Case{
		{"status/rate", "Status tells what may go now, when the next may, and what is queued", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10).Burst(3)})
			check(s, st, want{remaining: 3})
			for range 2 {
				s.Go(st, 1, 0)
			}
			check(s, st, want{remaining: 1})
			s.Go(st, 1, 0)
			check(s, st, want{next: 100 * ms})
			s.Go(st, 1, 100*ms)
			g := s.Go(st, 1, 200*ms)
			s.Go(st, 1, 300*ms)
			check(s, st, want{backlog: 3, next: 400 * ms})
			s.Cancel(st, g)
			check(s, st, want{backlog: 2, next: 200 * ms})
			s.Pause(st, time.Second)
			check(s, st, want{backlog: 2, next: time.Second, paused: time.Second})
			s.At(10 * time.Second)
			check(s, st, want{remaining: 3})
		}},
		{"status/window", "Status of a window tells the room of the one that is now", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.Fixed(3, time.Second)})
			check(s, st, want{remaining: 3})
			s.Go(st, 2, 0)
			check(s, st, want{remaining: 1})
			s.Go(st, 2, time.Second)
			check(s, st, want{remaining: 1, backlog: 2})
			s.Go(st, 1, 0)
			check(s, st, want{backlog: 2, next: time.Second})
			s.At(1100 * ms)
			check(s, st, want{remaining: 1})
			s.Pause(st, 300*ms)
			check(s, st, want{next: 300 * ms, paused: 300 * ms})
		}},
		{"status/changes-nothing", "looking charges nothing", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10)}, Key{Policy: policies.Daily(5, time.UTC)})
			for range 100 {
				s.Status(st)
			}
			s.Go(st, 1, 0)
			s.Go(st, 1, 100*ms)
		}},
		{"status/upstream-paused", "Status tells that the whole upstream is paused, and no more when it is over", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10)})
			s.Pause(s.Stack(), time.Second)
			if got := s.Status(st).Paused; Since(got) != time.Second {
				t.Fatalf("paused until %v, want 1s", Since(got))
			}
			s.At(time.Second)
			if got := s.Status(st).Paused; got != 0 {
				t.Fatalf("paused until %v, want not paused", Since(got))
			}
		}},
	}
}

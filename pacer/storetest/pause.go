package storetest

import (
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

func pauseCases() []Case {
	rate := Key{Policy: policies.PerSecond(10)}
	return []Case{
		{"pause/key", "a pause of one key leaves the others running, and then calls go at the policies' pace", func(t testing.TB, s *Session) {
			for _, p := range []policies.Policy{policies.PerSecond(10).Named("r"), policies.Fixed(10, time.Second).Named("w")} {
				a, b := Key{Policy: p, Scope: "a"}, Key{Policy: p, Scope: "b"}
				st := s.Stack(a, left(a))
				s.Pause(st, 2*time.Second)
				if g := s.Go(st, 1, 2*time.Second); g.Binds != 1 || Since(g.Paused) != 2*time.Second {
					t.Fatalf("%v: binds %d, paused until %v", p, g.Binds, Since(g.Paused))
				}
				s.Go(s.Stack(b, left(b)), 1, 0)
			}
		}},
		{"pause/never-shorter", "a pause is never shortened by another", func(_ testing.TB, s *Session) {
			st := s.Stack(rate, left(rate))
			s.Pause(st, 3*time.Second)
			s.Pause(st, time.Second)
			s.Go(st, 1, 3*time.Second)
		}},
		{"pause/keeps-what-was-charged", "a pause forgets nothing that was reserved before", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(1).Named("r")}, Key{Policy: policies.Fixed(3, 10*time.Second).Named("w")}, left(rate))
			for i := range 3 {
				s.Go(st, 1, time.Duration(i)*time.Second)
			}
			s.Pause(st, 1500*ms)
			s.Go(st, 1, 10*time.Second)
			s.At(20 * time.Second)
			s.Go(st, 1, 20*time.Second)
		}},
		{"pause/refusal", "a pause that is longer than MaxWait refuses", func(t testing.TB, s *Session) {
			st := s.Stack(rate, left(rate))
			s.Pause(st, time.Hour)
			if g := s.Ask(st, store.Call{Cost: 1, MaxWait: time.Minute}); g.OK || g.Wait() != time.Hour || Since(g.Paused) != time.Hour {
				t.Fatalf("got %+v, want a refusal for an hour", g)
			}
		}},
		{"pause/move-behind", "reservations inside a pause, given back and made again, stand behind it in order", func(_ testing.TB, s *Session) {
			st := s.Stack(rate, left(rate))
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
		next               time.Duration
	}
	check := func(s *Session, st store.Stack, w want) {
		s.t.Helper()
		in := s.Status(st).Limits[0]
		got := want{in.Remaining, in.Backlog, in.Next.Sub(s.now)}
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
		}},
		{"status/full", "Status tells when the whole burst, or the whole limit, may go again if nothing more is charged", func(t testing.TB, s *Session) {
			full := func(st store.Stack, want time.Duration) {
				t.Helper()
				if got := s.Status(st).Limits[0].Full; Since(got) != want {
					t.Fatalf("at %v: full at %v, want %v", Since(s.now), Since(got), want)
				}
			}
			rate := s.Stack(Key{Policy: policies.PerSecond(10).Burst(3).Named("rate")})
			window := s.Stack(Key{Policy: policies.Fixed(3, time.Second).Named("window")})
			exact := s.Stack(Key{Policy: policies.AtMost(3, time.Second).Skew(0).Burst(3).Named("exact")})
			few := s.Stack(Key{Policy: policies.AtMost(4, time.Second).Skew(0).Burst(2).Named("few")})
			day := s.Stack(Key{Policy: policies.Daily(3, time.UTC).Named("day")})
			all := []store.Stack{rate, window, exact, few, day}
			for _, st := range all {
				full(st, 0)
				s.Go(st, 1, 0)
			}
			full(rate, 100*ms)
			full(window, time.Second)
			full(exact, time.Second)
			full(few, 250*ms)
			full(day, 24*time.Hour)
			s.At(500 * ms)
			full(rate, 500*ms)
			for _, st := range all {
				s.Go(st, 2, 500*ms)
			}
			full(rate, 700*ms)
			full(window, time.Second)
			full(exact, 1500*ms)
			full(few, time.Second) // then one of the three starts has left the window, which has room for the burst
			g := s.Go(rate, 3, 700*ms)
			full(rate, time.Second) // a slot that is still to come counts
			s.Cancel(rate, g)
			full(rate, 700*ms)
			full(s.Stack(Key{Policy: policies.PerSecond(10).Burst(3).Named("other")}), 500*ms)
			s.Report(window, store.Note{Kind: store.NoteLearn, Value: 2, For: 4 * time.Second})
			full(window, 4500*ms) // the upstream allows less until then
			s.Go(day, 3, 24*time.Hour)
			full(day, 48*time.Hour)
			s.At(5 * time.Second)
			for _, st := range all[:4] {
				full(st, 5*time.Second)
			}
			s.Report(rate, store.Note{Kind: store.NoteStray, At: s.now, For: time.Second, Value: 20_000, Remaining: 100_000})
			if s.Status(rate).Limits[0].Margin == 0 {
				t.Fatal("no margin")
			}
			full(rate, 5*time.Second) // it fades slowly: nobody waits for that
		}},
		{"status/changes-nothing", "looking charges nothing", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10)}, Key{Policy: policies.Daily(5, time.UTC)})
			for range 100 {
				s.Status(st)
			}
			s.Go(st, 1, 0)
			s.Go(st, 1, 100*ms)
		}},
		{"status/paused", "Status tells that nothing is left, and until when", func(t testing.TB, s *Session) {
			st := s.Stack(left(Key{Policy: policies.PerSecond(10)}))
			s.Pause(st, time.Second)
			if in := s.Status(st).Limits[0]; Since(in.Paused) != time.Second || Since(in.Next) != time.Second || in.Remaining != 0 {
				t.Fatalf("status %+v, want a pause until 1s", in)
			}
			s.At(time.Second)
			if got := s.Status(st).Limits[0].Paused; got != 0 {
				t.Fatalf("paused until %v, want not paused", Since(got))
			}
		}},
	}
}

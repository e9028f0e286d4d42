package storetest

import (
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// costCases are about calls that cost policies different amounts, and whose cost is known only afterwards.
func costCases() []Case {
	settle := func(g store.Grant, i int, cost, actual int64) store.Note {
		return store.Note{Kind: store.NoteSettle, Limit: i, Charge: g.Charges[i], Cost: cost, Actual: actual}
	}
	return []Case{
		{"cost/by-policy", "a call may cost one policy more than another", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10).Named("requests")}, Key{Policy: policies.PerSecond(1000).Burst(1000).Named("tokens")})
			ask := func(tokens int64, want time.Duration) store.Grant {
				s.t.Helper()
				g := s.Ask(st, store.Call{Costs: []int64{1, tokens}, MaxWait: time.Minute})
				if !g.OK || Since(g.At) != want {
					s.t.Fatalf("%d tokens: got the slot %v (%v), want %v", tokens, Since(g.At), g.OK, want)
				}
				return g
			}
			ask(900, 0)
			ask(100, 100*ms)
			if g := ask(500, 500*ms); g.Binds != 1 {
				s.t.Fatalf("binds %d, want the tokens", g.Binds)
			}
		}},
		{"settle/refund-rate", "what a rate was charged too much is there for others at once", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(1000).Burst(1000)})
			g := s.Go(st, 1000, 0)
			s.Report(st, settle(g, 0, 1000, 300))
			s.Go(st, 700, 0)
			s.Go(st, 100, 100*ms)
		}},
		{"settle/packed", "what calls keep that have gone moves together, so that what they give back is room for other calls", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(100).Burst(100)})
			var all []store.Grant
			for range 5 {
				all = append(all, s.Go(st, 20, 0)) // each has 200 ms of [0 s, 1 s)
			}
			s.At(50 * ms)
			s.Report(st, settle(all[1], 0, 20, 10)) // it leaves [300 ms, 400 ms)
			s.Report(st, settle(all[4], 0, 20, 5))  // it moves there, and the tail begins at 800 ms
			s.Report(st, settle(all[3], 0, 20, 15)) // no gap holds it: it leaves [750 ms, …)
			s.Report(st, settle(all[2], 0, 20, 15)) // [350 ms, 400 ms) is right before it: it begins there, and leaves [500 ms, 600 ms)
			s.Go(st, 15, 50*ms)
			s.Go(st, 15, 50*ms)
			early := s.Go(st, 20, 250*ms)
			early.Charges[0].Made = 0
			s.Report(st, settle(early, 0, 20, 10)) // a call that may not have gone does not move into the gap
			s.Go(st, 10, 50*ms)
			s.Go(st, 1, 160*ms)
		}},
		{"settle/odd-edges", "a call gives back no more than one interval for each that it did not need, however much room it took", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10).Burst(2)})
			g := s.Ask(st, store.Call{Cost: 2, NotBefore: 90 * ms, MaxWait: time.Minute})
			s.At(90 * ms)
			s.Report(st, settle(g, 0, 2, 1))
			s.Go(st, 1, 90*ms)
			s.Go(st, 1, 190*ms)
			s.Go(st, 1, 290*ms)
		}},
		{"settle/debt-rate", "what a rate was charged too little is paid by those who come later", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(1000).Burst(1000)})
			g := s.Go(st, 500, 0)
			s.Report(st, settle(g, 0, 500, 2500))
			s.Go(st, 500, 2*time.Second)
		}},
		{"settle/window", "a window is charged what a call really cost", func(t testing.TB, s *Session) {
			for _, p := range []policies.Policy{policies.Fixed(1000, time.Minute), policies.Daily(1000, time.UTC), policies.Sliding(1000, time.Minute)} {
				st := s.Stack(Key{Policy: p})
				g := s.Go(st, 500, 0)
				s.Report(st, settle(g, 0, 500, 900))
				if left := s.Status(st).Limits[0].Remaining; left != 100 {
					t.Fatalf("%v: %d left after a debt, want 100", p, left)
				}
				s.Report(st, settle(g, 0, 900, 200))
				if left := s.Status(st).Limits[0].Remaining; left != 800 {
					t.Fatalf("%v: %d left after a refund, want 800", p, left)
				}
			}
		}},
		{"settle/free", "what a call cost nothing at first is charged when it is settled, in the present bucket", func(t testing.TB, s *Session) {
			for _, p := range []policies.Policy{
				policies.Fixed(1000, time.Minute), policies.Daily(1000, time.UTC), policies.Sliding(1000, time.Minute), policies.PerSecond(1000).Burst(1000),
			} {
				st := s.Stack(Key{Policy: p})
				s.Report(st, store.Note{Kind: store.NoteSettle, Actual: 900})
				if left := s.Status(st).Limits[0].Remaining; left != 100 {
					t.Fatalf("%v: %d left, want 100", p, left)
				}
			}
		}},
		{"settle/another-grid", "what a call cost that was charged on another grid counts where its slot lies on the present one", func(t testing.TB, s *Session) {
			for _, p := range []policies.Policy{policies.Fixed(1000, time.Minute), policies.Hourly(1000, time.UTC), policies.Daily(1000, time.UTC)} {
				st := s.Stack(Key{Policy: p})
				charge := store.Charge{From: int64(s.now) + 200_000, To: 1}
				s.Report(st, store.Note{Kind: store.NoteSettle, Charge: charge, Cost: 1, Actual: 901})
				if left := s.Status(st).Limits[0].Remaining; left != 100 {
					t.Fatalf("%v: %d left, want 100", p, left)
				}
				s.Go(st, 100, 0)
				if g := s.Ask(st, store.Call{Cost: 1, MaxWait: time.Millisecond}); g.OK {
					t.Fatalf("%v: a call went where none is left", p)
				}
			}
		}},
		{"settle/nothing", "a call that cost nothing after all gives everything back", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10).Burst(5)}, Key{Policy: policies.Fixed(5, time.Second)})
			g := s.Go(st, 5, 0)
			s.Report(st, settle(g, 0, 5, 0), settle(g, 1, 5, 0))
			s.Go(st, 5, 0)
		}},
		{"settle/bounded", "no debt reaches further than a policy can", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.Every(time.Hour)})
			g := s.Go(st, 1, 0)
			s.Report(st, settle(g, 0, 1, specs.MaxLimit))
			s.Go(st, 1, specs.MaxPeriod+time.Hour)
		}},
	}
}

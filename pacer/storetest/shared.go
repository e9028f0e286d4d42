package storetest

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// sharedCases are about what a store that processes share knows of them, and of its own data. A store that is not shared
// passes them by.
func sharedCases() []Case {
	shared := func(name, rule string, test func(t testing.TB, s *Session, store store.Shared)) Case {
		return Case{"shared/" + name, rule, func(t testing.TB, s *Session) {
			if store, ok := s.Store.(store.Shared); ok {
				test(t, s, store)
			}
		}}
	}
	return []Case{
		shared("alive", "a process counts for as long as it says, or until it leaves", func(t testing.TB, s *Session, _ store.Shared) {
			for i, id := range []string{"a", "b", "c"} {
				if p := s.heartbeat(store.Heartbeat{ID: id, TTL: 10 * time.Second}); p.Alive != i+1 || p.Rank != i {
					t.Fatalf("%s is number %d of %d, want %d of %d", id, p.Rank, p.Alive, i, i+1)
				}
				s.At(time.Duration(i+1) * time.Second)
			}
			if p := s.heartbeat(store.Heartbeat{ID: "a", TTL: 20 * time.Second}); p.Alive != 3 || p.Rank != 0 {
				t.Fatalf("a is number %d of %d, want 0 of 3: it came first", p.Rank, p.Alive)
			}
			s.At(11500 * ms) // b is gone since 11 s
			if p := s.heartbeat(store.Heartbeat{ID: "c", TTL: 10 * time.Second}); p.Alive != 2 || p.Rank != 1 {
				t.Fatalf("c is number %d of %d, want 1 of 2", p.Rank, p.Alive)
			}
			if p := s.heartbeat(store.Heartbeat{ID: "a"}); p.Alive != 1 {
				t.Fatalf("%d are there after a left, want 1", p.Alive)
			}
			if p := s.heartbeat(store.Heartbeat{ID: "c", TTL: time.Second}); p.Alive != 1 || p.Rank != 0 {
				t.Fatalf("c is number %d of %d, want 0 of 1", p.Rank, p.Alive)
			}
		}),
		shared("epoch", "a process that knows another epoch gets an error, and charges nothing", func(t testing.TB, s *Session, backing store.Shared) {
			st := s.Stack(Key{Policy: policies.Every(time.Second)})
			epoch := s.heartbeat(store.Heartbeat{ID: "a", TTL: time.Minute}).Epoch
			if again := s.heartbeat(store.Heartbeat{ID: "b", TTL: time.Minute}).Epoch; epoch.IsZero() || again != epoch {
				t.Fatalf("epochs %v and %v, want one", epoch, again)
			}
			st.Epoch = store.Epoch{Began: epoch.Began + 1000}
			err := backing.Reserve(t.Context(), st, []store.Call{{Cost: 1, MaxWait: store.Forever}}, make([]store.Grant, 1))
			var forgot *store.ForgotError
			if !errors.As(err, &forgot) || forgot.Epoch != epoch {
				t.Fatalf("%v, want a ForgotError of epoch %v", err, epoch)
			}
			st.Epoch = epoch
			s.Go(st, 1, 0)
			fresh := s.Stack()
			fresh.Upstream, fresh.Epoch = s.upstream+"-fresh", epoch
			if err := backing.Reserve(t.Context(), fresh, []store.Call{{Cost: 1}}, make([]store.Grant, 1)); !errors.As(err, &forgot) || !forgot.Epoch.IsZero() {
				t.Fatalf("%v, want a ForgotError of no epoch", err)
			}
		}),
		shared("holds", "a heartbeat brings what limits hold, no matter which process was granted it", func(t testing.TB, s *Session, _ store.Shared) {
			rate, exact := Key{Policy: policies.PerSecond(10).Named("rate")}, Key{Policy: policies.AtMost(10, time.Second).Named("exact")}
			window, permits := Key{Policy: policies.Sliding(10, time.Minute).Named("window")}, Key{Policy: policies.InFlight(3).Named("permits")}
			all := s.Stack(rate, exact, window, permits).Limits
			look := func() []store.Holding {
				t.Helper()
				holds := s.heartbeat(store.Heartbeat{ID: "a", TTL: time.Minute, Limits: all}).Holds
				if len(holds) != len(all) {
					t.Fatalf("%d holdings of %d limits", len(holds), len(all))
				}
				return holds
			}
			if got := look(); !reflect.DeepEqual(got, make([]store.Holding, len(all))) {
				t.Fatalf("%+v of limits that nobody used", got)
			}
			st := s.Stack(rate, window)
			for range 4 {
				s.Ask(st, store.Call{Cost: 1, MaxWait: time.Minute})
			}
			s.Ask(st, store.Call{Cost: 1, NotBefore: 10 * time.Second, MaxWait: time.Minute})
			s.Ask(s.Stack(exact), store.Call{Cost: 1, MaxWait: time.Minute})
			c := s.newCall()
			s.goes(s.Stack(permits), c)
			s.Set(s.now.Add(50 * ms))
			got := look()
			if got[0].Taken != 450*ms {
				t.Fatalf("%v of the rate are taken, want 450ms", got[0].Taken)
			}
			if got[1].Taken <= 0 || got[1].Taken > time.Second {
				t.Fatalf("%v of the rate with exact windows are taken", got[1].Taken)
			}
			sum := int64(0)
			for _, b := range got[2].Buckets {
				sum += b.To
			}
			if sum != 5 || len(got[2].Buckets) != 2 {
				t.Fatalf("the window holds %v, want 4 and 1", got[2].Buckets)
			}
			if got[3].Permits != 1 || got[3].Until <= s.now {
				t.Fatalf("%d permits are out until %v, want 1", got[3].Permits, Since(got[3].Until))
			}
		}),
		shared("once", "an operation of a number is done once, however often its process asks for it", func(t testing.TB, s *Session, backing store.Shared) {
			st := s.Stack(Key{Policy: policies.Fixed(100, time.Hour)})
			left := func(want int64) {
				t.Helper()
				if got := s.Status(st).Limits[0].Remaining; got != want {
					t.Fatalf("%d are left, want %d", got, want)
				}
			}
			g := s.Ask(st, store.Call{Cost: 60})
			left(40)
			settle := func(by string, number, known int64) {
				t.Helper()
				st.Once = &store.Once{By: by, Number: number, Known: known}
				if _, _, err := backing.Report(t.Context(), st, []store.Note{{Kind: store.NoteSettle, Charge: g.Charges[0], Cost: 10}}); err != nil {
					t.Fatal(err)
				}
				st.Once = nil
			}
			settle("a", 1, 1)
			left(50)
			settle("a", 1, 1)
			left(50)
			settle("b", 1, 1) // the numbers are of one process
			left(60)
			settle("a", 4, 1)
			settle("a", 1, 1)
			left(70)
			settle("a", 3, 2) // they may come in any order
			left(80)
		}),
		shared("epoch/many-resets", "however often something is reset, the data is what it was", func(t testing.TB, s *Session, _ store.Shared) {
			st := s.Stack(Key{Policy: policies.Every(time.Second)})
			before := s.heartbeat(store.Heartbeat{ID: "a", TTL: time.Minute}).Epoch
			const resets = 1_100
			for range resets {
				s.Report(st, store.Note{Kind: store.NoteReset})
			}
			want := before
			want.Resets += resets
			if after := s.heartbeat(store.Heartbeat{ID: "a", TTL: time.Minute}).Epoch; after != want {
				t.Fatalf("epoch %v after %v, want %v", after, before, want)
			}
		}),
		shared("epoch/reset", "a reset, a resumption and the first answer of an allowance begin an epoch of the same data", func(t testing.TB, s *Session, _ store.Shared) {
			st := s.Stack(left(Key{Policy: policies.Every(time.Second)}))
			epoch := s.heartbeat(store.Heartbeat{ID: "a", TTL: time.Minute}).Epoch
			for _, note := range []store.Note{{Kind: store.NoteReset}, {Kind: store.NoteResume}, store.Pause(0, 5*time.Second)} {
				s.Report(st, note)
				next := s.heartbeat(store.Heartbeat{ID: "a", TTL: time.Minute}).Epoch
				if next == epoch || next.Began != epoch.Began {
					t.Fatalf("epoch %v after %v", next, epoch)
				}
				epoch = next
			}
			s.Pause(st, time.Second)
			if next := s.heartbeat(store.Heartbeat{ID: "a", TTL: time.Minute}).Epoch; next != epoch {
				t.Fatalf("a second pause began epoch %v after %v", next, epoch)
			}
			s.Go(st, 1, 5*time.Second) // and a heartbeat keeps the pause
		}),
		shared("epoch/snapshot", "a store that lacks the last heartbeat of a process begins an epoch, once", func(t testing.TB, s *Session, _ store.Shared) {
			p := s.heartbeat(store.Heartbeat{ID: "a", TTL: time.Minute})
			again := store.Heartbeat{ID: "a", TTL: time.Minute, Until: p.Now.Add(time.Minute), Began: p.Epoch.Began}
			if next := s.heartbeat(again); next.Epoch != p.Epoch {
				t.Fatalf("epoch %v after %v: nothing was lost", next.Epoch, p.Epoch)
			}
			again.Until += 2e6 // by heartbeats that the store has lost
			s.At(time.Second)
			next := s.heartbeat(again).Epoch
			if next.Began <= p.Epoch.Began {
				t.Fatalf("epoch %v after %v", next, p.Epoch)
			}
			s.At(2 * time.Second)
			again.ID = "b"
			if other := s.heartbeat(again).Epoch; other != next {
				t.Fatalf("epoch %v after %v", other, next)
			}
			again = store.Heartbeat{ID: "a", TTL: time.Minute, Until: 1, Began: next.Began}
			if late := s.heartbeat(again).Epoch; late != next {
				t.Fatalf("epoch %v after %v: what was lost is past", late, next)
			}
		}),
		shared("barrier", "processes that come back agree on a time", func(t testing.TB, s *Session, _ store.Shared) {
			barrier := func(id string, d time.Duration) time.Duration {
				return Since(s.heartbeat(store.Heartbeat{ID: id, TTL: time.Minute, Barrier: d}).Barrier)
			}
			if got := barrier("a", 500*ms); got != 500*ms {
				t.Fatalf("until %v, want 500ms", got)
			}
			s.At(300 * ms)
			if got := barrier("b", 500*ms); got != 500*ms {
				t.Fatalf("until %v, want 500ms, as the first one said", got)
			}
			if got := barrier("c", 0); got != 500*ms {
				t.Fatalf("until %v, want 500ms", got)
			}
			s.At(600 * ms)
			if got := barrier("a", 500*ms); got != 1100*ms {
				t.Fatalf("until %v, want 1.1s", got)
			}
		}),
		shared("clock", "store time does not go back, as far as those know who are there", func(t testing.TB, s *Session, backing store.Shared) {
			st := s.Stack(Key{Policy: policies.Every(100 * ms)}, Key{Policy: policies.Fixed(3, time.Second).Named("w")})
			s.At(time.Hour)
			p := s.heartbeat(store.Heartbeat{ID: "a", TTL: time.Minute})
			s.Go(st, 1, time.Hour)
			s.Go(st, 1, time.Hour+100*ms)
			s.At(0) // the clock steps back
			st.Epoch, st.LastSeen = p.Epoch, p.Now
			grants := make([]store.Grant, 1)
			ask := []store.Call{{Cost: 1, MaxWait: store.Forever}}
			var forgot *store.ForgotError
			if err := backing.Reserve(t.Context(), st, ask, grants); !errors.As(err, &forgot) {
				t.Fatalf("%v, want a ForgotError", err)
			}
			if p = s.heartbeat(store.Heartbeat{ID: "a", TTL: time.Minute, Now: p.Now}); Since(p.Now) != time.Hour {
				t.Fatalf("store time is %v, want 1h", Since(p.Now))
			}
			if err := backing.Reserve(t.Context(), st, ask, grants); err != nil || Since(grants[0].At) != time.Hour+200*ms {
				t.Fatalf("slot %v, %v, want 1h0.2s", Since(grants[0].At), err)
			}
			s.At(64 * time.Second)
			if err := backing.Reserve(t.Context(), st, ask, grants); err != nil || Since(grants[0].Now) != time.Hour+63*time.Second {
				t.Fatalf("store time is %v, %v, want 1h1m3s: it catches up by a 64th", Since(grants[0].Now), err)
			}
			s.At(64*time.Hour + time.Minute)
			if p = s.heartbeat(store.Heartbeat{ID: "a", TTL: time.Minute, Now: grants[0].Now}); Since(p.Now) != 64*time.Hour+time.Minute {
				t.Fatalf("store time is %v, want that of the clock again", Since(p.Now))
			}
		}),
	}
}

// heartbeat sends one, for an upstream of the session.
func (s *Session) heartbeat(b store.Heartbeat) store.Membership {
	s.t.Helper()
	b.Keep = time.Hour
	store, ok := s.Store.(store.Shared)
	if !ok {
		s.t.Fatal("the store is not shared")
	}
	p, err := store.Heartbeat(s.t.Context(), s.upstream, b)
	if err != nil {
		s.t.Fatalf("heartbeat: %v", err)
	}
	return p
}

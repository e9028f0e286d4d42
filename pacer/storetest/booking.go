package storetest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Records that mean nothing.
const (
	oneRecord = "one"
	twoRecord = "two"
)

// bookingCases are about the records of bookings. A store that is no Redeemer passes them by.
func bookingCases() []Case {
	redeemer := func(name, rule string, test func(t testing.TB, s *Session)) Case {
		return Case{"booking/" + name, rule, func(t testing.TB, s *Session) {
			if _, ok := s.Store.(store.Redeemer); ok {
				test(t, s)
			}
		}}
	}
	rate := Key{Policy: policies.Rate(10, time.Second).Burst(1).Named("rate")}
	quota := Key{Policy: policies.Fixed(2, time.Hour).Named("quota").Per("tenant"), Scope: "acme"}
	return []Case{
		redeemer("record", "a record is replaced if it is what the caller knows, and returned if it is not", func(t testing.TB, s *Session) {
			st := s.Stack(rate)
			s.redeem(st, store.Booking{ID: "a", Next: oneRecord}, store.BookingDone)
			s.redeem(st, store.Booking{ID: "b", Next: "other"}, store.BookingDone)
			if r := s.redeem(st, store.Booking{ID: "a", Next: twoRecord}, store.BookingChanged); r.Record != oneRecord || r.Now != s.now {
				t.Fatalf("the record is %q at %v, want one now", r.Record, Since(r.Now))
			}
			s.redeem(st, store.Booking{ID: "a", Known: oneRecord, Next: twoRecord}, store.BookingDone)
			s.redeem(st, store.Booking{ID: "a", Known: oneRecord, Next: twoRecord}, store.BookingDone) // it was done before
			s.redeem(st, store.Booking{ID: "a", Known: oneRecord, Next: "three"}, store.BookingChanged)
			if r := s.redeem(st, store.Booking{ID: "c", Known: oneRecord, Next: twoRecord}, store.BookingChanged); r.Record != "" {
				t.Fatalf("a record is %q that nobody wrote", r.Record)
			}
			long := strings.Repeat("x", store.MaxRecord)
			s.redeem(st, store.Booking{ID: strings.Repeat("Z_-.", 16), Next: long}, store.BookingDone)
			if r := s.redeem(st, store.Booking{ID: strings.Repeat("Z_-.", 16), Next: twoRecord}, store.BookingChanged); r.Record != long {
				t.Fatalf("a record of %d bytes came back with %d", len(long), len(r.Record))
			}
		}),
		redeemer("upstreams", "a booking is of one upstream", func(t testing.TB, s *Session) {
			other := s.Stack(rate)
			other.Upstream += "-other"
			s.redeem(s.Stack(rate), store.Booking{ID: "a", Next: oneRecord}, store.BookingDone)
			s.redeem(other, store.Booking{ID: "a", Next: twoRecord}, store.BookingDone)
		}),
		redeemer("nolimits", "a booking may be bound by no limit", func(t testing.TB, s *Session) {
			window := &store.Window{From: s.now, At: s.now, Until: s.now}
			s.redeem(s.Stack(), store.Booking{ID: "a", Next: oneRecord, Window: window}, store.BookingDone)
			s.redeem(s.Stack(), store.Booking{ID: "a", Next: twoRecord, Window: window}, store.BookingChanged)
		}),
		redeemer("keep", "a record is kept as long as it is to be, and an absent one that may have been forgotten is as good as none", func(t testing.TB, s *Session) {
			st := s.Stack(rate)
			expires := s.now.Add(time.Minute)
			s.redeem(st, store.Booking{ID: "a", Next: oneRecord, Expires: expires, Keep: 2 * time.Minute}, store.BookingDone)
			s.At(time.Minute)
			s.redeem(st, store.Booking{ID: "a", Next: twoRecord, Expires: expires}, store.BookingChanged)
			s.redeem(st, store.Booking{ID: "b", Next: twoRecord, Expires: expires}, store.BookingDone)
			s.At(time.Minute + time.Microsecond)
			s.redeem(st, store.Booking{ID: "c", Next: twoRecord, Expires: expires}, store.BookingExpired)
			s.redeem(st, store.Booking{ID: "b", Known: twoRecord, Next: "three", Expires: expires}, store.BookingDone)
		}),
		redeemer("window", "a slot is used from its window's beginning to its end, both included", func(t testing.TB, s *Session) {
			st := s.Stack(rate)
			w := &store.Window{From: s.now.Add(60 * ms), At: s.now.Add(100 * ms), Until: s.now.Add(150 * ms)}
			for i, step := range []struct {
				at     time.Duration
				result store.BookingResult
			}{
				{60*ms - time.Microsecond, store.BookingEarly},
				{60 * ms, store.BookingDone},
				{150 * ms, store.BookingDone},
				{150*ms + time.Microsecond, store.BookingLate},
			} {
				s.At(step.at)
				id := fmt.Sprint("a", i)
				s.redeem(st, store.Booking{ID: id, Next: oneRecord, Window: w}, step.result)
				if step.result != store.BookingDone {
					s.redeem(st, store.Booking{ID: id, Next: oneRecord}, store.BookingDone) // nothing was written
				}
			}
			s.redeem(st, store.Booking{ID: "a1", Next: twoRecord, Window: w}, store.BookingChanged) // that it was used comes first
		}),
		redeemer("pause", "a slot that a pause covers is not used", func(t testing.TB, s *Session) {
			st := s.Stack(rate, quota, left(quota))
			began := s.now
			w := &store.Window{From: began, At: began.Add(100 * ms), Until: began.Add(time.Minute)}
			s.Pause(st, 100*ms)
			s.redeem(st, store.Booking{ID: "a", Next: oneRecord, Window: w}, store.BookingDone) // the slot is after it
			s.Pause(st, 101*ms)
			if r := s.redeem(st, store.Booking{ID: "b", Next: oneRecord, Window: w}, store.BookingPaused); r.Until != began.Add(101*ms) {
				t.Fatalf("the pause ends at %v, want 101ms", Since(r.Until))
			}
			s.redeem(s.Stack(rate), store.Booking{ID: "b", Next: "none"}, store.BookingDone) // without a window it does not matter
			s.At(time.Second)
			s.redeem(st, store.Booking{ID: "c", Next: oneRecord, Window: w}, store.BookingDone) // it is over
		}),
		redeemer("refund", "what is given back is free for others, once, and only if the record was replaced", func(t testing.TB, s *Session) {
			st := s.Stack(rate, quota)
			for range 2 {
				s.Ask(st, store.Call{Cost: 1, MaxWait: time.Minute})
			}
			st2 := s.Stack(rate, Key{Policy: quota.Policy, Scope: "globex"})
			g := s.Ask(st2, store.Call{Cost: 1, MaxWait: time.Minute})
			back := store.Booking{ID: "a", Known: "nothing like it", Next: "back", Refund: g.Charges}
			s.redeem(st2, back, store.BookingChanged)
			if g := s.Ask(st2, store.Call{Cost: 1, MaxWait: time.Minute}); g.At != Epoch.Add(300*ms) {
				t.Fatalf("a slot at %v, want 300ms: nothing was given back", Since(g.At))
			}
			back.Known = ""
			s.redeem(st2, back, store.BookingDone)
			if g := s.Ask(st2, store.Call{Cost: 1, MaxWait: time.Minute}); g.At != Epoch.Add(200*ms) {
				t.Fatalf("a slot at %v, want the one of 200ms that was given back", Since(g.At))
			}
			s.redeem(st2, back, store.BookingDone) // it was done before
			if g := s.Ask(st2, store.Call{Cost: 1, MaxWait: time.Minute}); g.OK {
				t.Fatalf("a slot at %v, want none: it was given back once", Since(g.At))
			}
		}),
		redeemer("bulk", "of many bookings in one request, each is decided on its own, in order", func(t testing.TB, s *Session) {
			globex := Key{Policy: quota.Policy, Scope: "globex"}
			st, other, began := s.Stack(rate, quota, left(quota)), s.Stack(rate, globex, left(globex)), s.now
			var grants []store.Grant
			for _, stack := range []store.Stack{st, st, other} {
				grants = append(grants, s.Ask(stack, store.Call{Cost: 1, MaxWait: time.Minute}))
			}
			s.Pause(st, 500*ms) // of acme alone
			open := &store.Window{From: began, At: began, Until: began.Add(time.Minute)}
			far := &store.Window{From: began.Add(time.Second), At: began.Add(time.Second), Until: began.Add(time.Minute)}
			lost := s.epoch()
			lost.Began--
			answers := s.redeemAll(st.Upstream, []store.Booking{
				{ID: "a", Limits: st.Limits, Next: oneRecord, Window: open},
				{ID: "a", Limits: other.Limits, Next: oneRecord, Window: open},
				{ID: "a", Limits: other.Limits, Next: twoRecord, Window: open},
				{ID: "b", Limits: st.Limits, Next: oneRecord, Refund: grants[1].Charges},
				{ID: "b", Limits: st.Limits, Next: oneRecord, Refund: grants[1].Charges},
				{ID: "b", Limits: st.Limits, Known: oneRecord, Next: twoRecord},
				{ID: "c", Limits: other.Limits, Next: oneRecord, Window: far},
				{ID: "d", Next: oneRecord, Window: open},
				{ID: "e", Limits: other.Limits[1:], Next: oneRecord, Epoch: lost},
				{ID: "f", Limits: other.Limits[1:], Known: oneRecord, Next: twoRecord, Refund: grants[2].Charges[1:]},
				{ID: "g", Limits: other.Limits, Next: oneRecord, Expires: began - 1},
				{ID: "h", Limits: other.Limits, Next: oneRecord, Window: &store.Window{From: began - 2, At: began - 2, Until: began - 1}},
			}, store.BookingPaused, store.BookingDone, store.BookingChanged, store.BookingDone, store.BookingDone, store.BookingDone,
				store.BookingEarly, store.BookingDone, store.BookingLost, store.BookingChanged, store.BookingExpired, store.BookingLate)
			if answers[0].Until != began.Add(500*ms) || answers[2].Record != oneRecord || answers[9].Record != "" {
				t.Fatalf("answers %v: want a pause of 500ms, and the records one and none", answers)
			}
			if g := s.Ask(other, store.Call{Cost: 1, MaxWait: time.Minute}); g.At != began.Add(100*ms) {
				t.Fatalf("a slot at %v, want the one of 100ms that was given back", Since(g.At))
			}
			if g := s.Ask(other, store.Call{Cost: 1, MaxWait: time.Minute}); g.OK {
				t.Fatalf("a slot at %v, want none: nothing of globex was given back", Since(g.At))
			}
			s.Report(st, store.Note{Kind: store.NoteResume, Limit: 2})
			if g := s.Ask(st, store.Call{Cost: 1, MaxWait: time.Minute}); g.At != began.Add(300*ms) {
				t.Fatalf("a slot at %v, want 300ms: acme's quota has one call back, and the rate none", Since(g.At))
			}
		}),
		redeemer("full", "a request of as many bookings as a Pacer sends is answered whole", func(t testing.TB, s *Session) {
			st := s.Stack(rate)
			var all []store.Booking
			var want []store.BookingResult
			for i := range store.MaxBookings {
				all = append(all, store.Booking{ID: fmt.Sprint("a", i), Limits: st.Limits, Next: fmt.Sprint("by", i)})
				want = append(want, store.BookingDone)
			}
			s.redeemAll(st.Upstream, all, want...)
			for i := range all {
				all[i].Next, want[i] = "another", store.BookingChanged
			}
			for i, r := range s.redeemAll(st.Upstream, all, want...) {
				if r.Record != fmt.Sprint("by", i) {
					t.Fatalf("the record of %s is %q", all[i].ID, r.Record)
				}
			}
		}),
		redeemer("epoch", "a booking of data that was lost is refused, and one of data that was partly reset is not", func(t testing.TB, s *Session) {
			st, e := s.Stack(rate), s.epoch()
			if e.IsZero() {
				t.Fatal("the store has no epoch")
			}
			before := e
			before.Began--
			s.redeem(st, store.Booking{ID: "a", Epoch: before, Next: oneRecord}, store.BookingLost)
			s.redeem(st, store.Booking{ID: "a", Epoch: e, Next: oneRecord}, store.BookingDone)
			e.Resets++
			s.redeem(st, store.Booking{ID: "b", Epoch: e, Next: oneRecord}, store.BookingDone)
		}),
		redeemer("once", "of many who redeem a booking at once, one does", func(t testing.TB, s *Session) {
			st := s.Stack(rate, quota)
			w := &store.Window{From: s.now, At: s.now, Until: s.now}
			for round := range 5 {
				var wg sync.WaitGroup
				results := make([]store.BookingResult, 16)
				errs := make([]error, len(results))
				for i := range results {
					wg.Go(func() {
						b := store.Booking{ID: fmt.Sprint("a", round), Limits: st.Limits, Next: fmt.Sprint("by", i), Window: w, Keep: time.Hour}
						r, err := s.Store.(store.Redeemer).Redeem(t.Context(), st.Upstream, []store.Booking{b}) //nolint:forcetypeassert // it is one
						if errs[i] = err; err == nil {
							results[i] = r[0].Result
						}
					})
				}
				wg.Wait()
				done := 0
				for i, r := range results {
					if errs[i] != nil || r != store.BookingDone && r != store.BookingChanged {
						t.Fatalf("result %v, %v", r, errs[i])
					}
					if r == store.BookingDone {
						done++
					}
				}
				if done != 1 {
					t.Fatalf("%d have redeemed it, want one", done)
				}
			}
		}),
	}
}

// redeem changes the record of a booking, and requires a result.
func (s *Session) redeem(st store.Stack, b store.Booking, want store.BookingResult) store.Redemption {
	s.t.Helper()
	b.Limits = st.Limits
	return s.redeemAll(st.Upstream, []store.Booking{b}, want)[0]
}

// redeemAll changes the records of bookings in one request, and requires results. Records are kept for an hour by default.
func (s *Session) redeemAll(upstream string, all []store.Booking, want ...store.BookingResult) []store.Redemption {
	s.t.Helper()
	for i := range all {
		if all[i].Keep == 0 {
			all[i].Keep = time.Hour
		}
	}
	answers, err := s.Store.(store.Redeemer).Redeem(s.t.Context(), upstream, all) //nolint:forcetypeassert // it is one
	if err != nil || len(answers) != len(all) {
		s.t.Fatalf("Redeem of %d bookings: %d answers, %v", len(all), len(answers), err)
	}
	for i, r := range answers {
		if r.Result != want[i] || r.Now != s.now {
			s.t.Fatalf("Redeem of %s: result %d at %v, want %d at %v", all[i].ID, r.Result, Since(r.Now), want[i], Since(s.now))
		}
	}
	return answers
}

// epoch returns the epoch of the store.
func (s *Session) epoch() store.Epoch {
	s.t.Helper()
	if b, ok := s.Store.(store.Booker); ok {
		e, err := b.Epoch()
		if err != nil {
			s.t.Fatalf("Epoch: %v", err)
		}
		return e
	}
	return s.heartbeat(store.Heartbeat{ID: "a", TTL: time.Minute, Keep: time.Hour}).Epoch
}

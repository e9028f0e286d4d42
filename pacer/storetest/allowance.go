package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// allowanceCases are about the allowances that the upstream states.
func allowanceCases() []Case {
	left := func(g *store.Grant, n int64, reset time.Duration) store.Note {
		note := store.Note{Kind: store.NoteAnswer, Remaining: n, For: reset}
		if g != nil {
			c := g.Charges[len(g.Charges)-1]
			note.At, note.Cost = store.Instant(c.From), c.To
		}
		return note
	}
	refused := func(n store.Note) store.Note { n.Refused = true; return n }
	bare := func(g *store.Grant, wait time.Duration) store.Note { // a refusal that states at most how long to wait
		note := refused(left(g, -1, wait))
		note.Guessed, note.Teaches = wait == 0, true
		return note
	}
	key := Key{Policy: policies.Sliding(1000, time.Hour).Named("p"), Left: true}
	changed := func(t testing.TB, s *Session, st store.Stack, want int, notes ...store.Note) {
		t.Helper()
		for i := range notes {
			notes[i].Limit = len(st.Limits) - 1
		}
		if got := s.Report(st, notes...); got != want {
			t.Fatalf("at %v: %d notes made a difference, want %d", Since(s.now), got, want)
		}
	}
	return []Case{
		{"allowance/until", "what is left goes at once, and more only from the reset on, one call each 100 ms until one is answered", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			g := s.Go(st, 1, 0)
			changed(t, s, st, 0, left(&g, 2, 30*time.Second))
			s.Go(st, 1, 0)
			s.Go(st, 1, 0)
			probe := s.Go(st, 1, 30*time.Second)
			s.Go(st, 1, 30100*ms)
			s.Go(st, 1, 30200*ms)
			s.At(30050 * ms)
			changed(t, s, st, 1, left(&probe, 50, 30*time.Second))
			s.Go(st, 40, 30050*ms)
		}},
		{"allowance/beside", "an allowance binds beside the policy that it is about", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.Fixed(3, time.Minute)}, key)
			g := s.Go(st, 1, 0)
			changed(t, s, st, 0, left(&g, 100, 10*time.Second))
			s.Go(st, 2, 0)
			s.Go(st, 1, time.Minute)
		}},
		{"allowance/order", "a low reading binds at once, and a higher one only if its call started later", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a, b, c := s.Go(st, 1, 0), s.Go(st, 1, 0), s.Go(st, 1, 0)
			s.At(100 * ms)
			changed(t, s, st, 1, left(&c, 1, 10*time.Second)) // two are open
			changed(t, s, st, 0, left(&a, 3, 10*time.Second), left(&b, 2, 10*time.Second))
			s.Go(st, 1, 100*ms)
			late := s.Ask(st, store.Call{Cost: 1, MaxWait: 0})
			if late.OK {
				t.Fatal("one was left, and two went")
			}
			s.At(200 * ms)
			status := store.Note{Kind: store.NoteAnswer, Remaining: 5, For: 10 * time.Second} // of no call: it is new
			changed(t, s, st, 0, status)
			s.Go(st, 4, 200*ms)
		}},
		{"allowance/open", "calls that are not answered are spoken for, for 10 to 20 s", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			g := s.Go(st, 1, 0)
			s.Go(st, 3, 0)
			changed(t, s, st, 0, left(&g, 5, time.Minute))
			s.Go(st, 2, 0)
			s.Go(st, 1, time.Minute)
			s.At(25 * time.Second)
			s.Go(st, 1, 25*time.Second)
		}},
		{"allowance/open/rarely", "however rarely calls come", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			g := s.Go(st, 1, 0)
			s.Go(st, 1, 0)
			changed(t, s, st, 0, left(&g, 2, time.Minute))
			s.At(19 * time.Second)
			s.Go(st, 1, 19*time.Second)
			s.At(21 * time.Second)
			s.Go(st, 1, 21*time.Second) // the one that is not answered does not count any more
		}},
		{"allowance/open/often", "however short its windows are", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			s.Go(st, 5, 0) // is never answered
			for at := time.Duration(0); at < 30*time.Second; at += 3 * time.Second {
				s.At(at)
				g := s.Go(st, 1, at)
				changed(t, s, st, min(1, int(at)), left(&g, 6, 3*time.Second))
			}
			s.Go(st, 6, 27*time.Second)
		}},
		{"allowance/open/held", "a call that another limit holds back counts from its slot on, however late that is", func(t testing.TB, s *Session) {
			st, other := s.Stack(Key{Policy: policies.Fixed(1, time.Minute)}, key), s.Stack(key)
			g := s.Go(st, 1, 0)
			changed(t, s, st, 0, left(&g, 2, 10*time.Minute))
			s.Go(st, 1, time.Minute)
			s.Cancel(st, s.Go(st, 1, 2*time.Minute))
			s.At(61 * time.Second)
			s.Go(other, 1, 61*time.Second)
			s.Go(other, 1, 10*time.Minute)
			s.At(85 * time.Second) // nobody answered
			s.Go(other, 2, 85*time.Second)
		}},
		{"allowance/cancel", "what is given back is not open", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			g := s.Go(st, 1, 0)
			changed(t, s, st, 0, left(&g, 2, time.Minute))
			a := s.Go(st, 2, 0)
			b := s.Go(st, 1, time.Minute)
			s.Cancel(st, a)
			s.Cancel(st, b)
			s.Go(st, 2, 0)
			s.Go(st, 1, time.Minute)
		}},
		{"allowance/early", "when the last slot that has become too early is given back, listeners receive that calls may go", func(t testing.TB, s *Session) {
			back := map[string]func(st store.Stack, c *store.Call, g store.Grant){
				"cancelled":   func(st store.Stack, _ *store.Call, g store.Grant) { s.Cancel(st, g) },
				"for permits": func(st store.Stack, c *store.Call, g store.Grant) { s.Ask(st, *s.holding(c, g)) },
			}
			if _, ok := s.Store.(store.Redeemer); ok {
				back["of a booking"] = func(st store.Stack, c *store.Call, g store.Grant) {
					s.redeem(st, store.Booking{ID: fmt.Sprint(c.ID), Next: oneRecord, Refund: g.Charges}, store.BookingDone)
				}
			}
			for how, back := range back {
				s.At(Since(s.now) + time.Hour)
				st, began := s.Stack(Key{Policy: policies.InFlight(9), Scope: how}, Key{Policy: key.Policy, Scope: how, Left: true}), Since(s.now)
				g := s.Ask(st, *s.newCall())
				changed(t, s, st, 0, left(&g, 1, 10*time.Second))
				used, a, b := s.Ask(st, *s.newCall()), s.newCall(), s.newCall()
				first, last := s.far(st, a, began+10*time.Second), s.far(st, b, began+10100*ms)
				s.At(began + 100*ms)
				changed(t, s, st, 1, left(&used, 1, 10*time.Second))
				s.far(st, s.newCall(), began+10100*ms) // one is left, and the early slots are two
				s.notifies(t, store.Resumed, nil, func() { back(st, a, first) })
				s.notifies(t, store.Resumed, []int64{0}, func() { back(st, b, last) })
				if g := s.Ask(st, *s.newCall()); g.At != s.now {
					t.Fatalf("%s: a slot at %v, want now", how, Since(g.At)-began)
				}
			}
		}},
		{"allowance/over", "a reading of a window that is over says nothing of the next one", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a, b := s.Go(st, 1, 0), s.Go(st, 1, 0)
			changed(t, s, st, 1, left(&a, 1, 5*time.Second)) // which is spoken for
			s.At(6 * time.Second)
			changed(t, s, st, 0, left(&b, 0, 4*time.Second))
			s.Go(st, 1, 6*time.Second)
		}},
		{"allowance/permits", "a call that asks for its permits keeps its slot, though others came after it", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.InFlight(2)}, key)
			a := s.newCall()
			g := s.Ask(st, *a)
			changed(t, s, st, 1, left(&g, 0, 30*time.Second))
			b := s.newCall()
			first := s.far(st, b, 30*time.Second)
			s.far(st, s.newCall(), 30100*ms)
			s.far(st, s.newCall(), 30200*ms)
			s.At(29995 * ms)
			if g = s.Ask(st, *s.holding(b, first)); !g.OK || g.At != first.At {
				t.Fatalf("before the reset it got %+v", g)
			}
			s.At(30001 * ms)
			if g = s.Ask(st, *s.holding(b, g)); !g.OK || g.At != s.now {
				t.Fatalf("after the reset it got %+v", g)
			}
		}},
		{"allowance/later", "a call that holds a slot from a reset on is not forgotten if the reset comes later than was said", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a := s.Go(st, 1, 0)
			changed(t, s, st, 1, left(&a, 0, 30*time.Second))
			s.Go(st, 1, 30*time.Second)
			b := s.Go(st, 1, 30100*ms)
			s.At(time.Second)
			changed(t, s, st, 1, left(nil, 0, 29050*ms))
			c := s.Go(st, 1, 30050*ms)
			s.Cancel(st, c)
			s.Cancel(st, b)
			s.Go(st, 1, 30050*ms)
			s.At(30060 * ms)
			s.Go(st, 1, 30250*ms) // two may be on their way
		}},
		{"allowance/later/moved", "calls that hold such slots have no part of what is left once they gave them back, wherever they were", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a, b := s.Go(st, 1, 0), s.Go(st, 1, 0)
			s.Go(st, 1, 0)
			changed(t, s, st, 1, left(&a, 1, 30*time.Second))
			c, d := s.Go(st, 1, 30*time.Second), s.Go(st, 1, 30100*ms)
			s.At(time.Second)
			changed(t, s, st, 1, left(&b, 2, 29050*ms)) // one is on its way
			s.Cancel(st, c)
			s.Go(st, 1, 30050*ms)
			s.Cancel(st, d)
			s.Go(st, 1, time.Second)
		}},
		{"allowance/later/before", "calls that give slots before such a reset back make room before it, though others still hold slots", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(20).Burst(1)}, key)
			a := s.Go(st, 1, 0)
			changed(t, s, st, 0, left(&a, 2, 30*time.Second))
			b, c := s.Go(st, 1, 50*ms), s.Go(st, 1, 100*ms)
			d, e := s.Go(st, 1, 30*time.Second), s.Go(st, 1, 30100*ms)
			s.At(10 * ms)
			changed(t, s, st, 1, left(nil, 2, 30040*ms))
			s.Go(st, 1, 30050*ms)
			s.Go(st, 1, 30150*ms)
			for _, g := range []store.Grant{b, c, d, e} {
				s.Cancel(st, g)
			}
			s.Go(st, 1, 50*ms)
			s.Go(st, 1, 100*ms)
			s.Go(st, 1, 30250*ms)
		}},
		{"allowance/outdated", "no call goes in place of one whose answer is of a window that is over", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a := s.Go(st, 1, 0)
			changed(t, s, st, 0, left(&a, 9, time.Second))
			a, b, c := s.Go(st, 1, 0), s.Go(st, 1, 0), s.Go(st, 1, 0)
			changed(t, s, st, 1, left(&a, 0, time.Second))
			s.At(1100 * ms)
			changed(t, s, st, 0, left(&b, 1, 500*ms), left(&c, -1, 0))
			s.Go(st, 1, 1100*ms)
			s.Go(st, 1, 1200*ms)
		}},
		{"allowance/most", "if nothing is said after a reset, no more goes than ever was left, until more was admitted", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a := s.Go(st, 1, 0)
			changed(t, s, st, 0, left(&a, 3, time.Second))
			s.At(1100 * ms)
			b, c, d := s.Go(st, 1, 1100*ms), s.Go(st, 1, 1100*ms), s.Go(st, 1, 1100*ms)
			changed(t, s, st, 0, left(&b, -1, 0), left(&c, -1, 0), left(&d, -1, 0))
			e := s.Go(st, 1, 1100*ms)
			s.Go(st, 1, 1200*ms)
			s.At(1150 * ms)
			changed(t, s, st, 0, left(&e, -1, 0))
			f := s.Go(st, 1, 1250*ms)
			changed(t, s, st, 0, left(&f, -1, 0))
			s.Go(st, 2, 1150*ms)
		}},
		{"allowance/most/admitted", "nor more than was admitted until a call was refused, if nothing else is stated", func(t testing.TB, s *Session) {
			few := key
			few.First = 3
			st := s.Stack(few)
			a, b, c := s.Go(st, 1, 0), s.Go(st, 1, 0), s.Go(st, 1, 0)
			changed(t, s, st, 1, left(&a, -1, 0), left(&b, -1, 0), refused(left(&c, 0, time.Second)))
			a, b, c = s.Go(st, 1, time.Second), s.Go(st, 1, 1100*ms), s.Go(st, 1, 1200*ms)
			s.At(1010 * ms)
			changed(t, s, st, 1, left(&a, -1, 0))
			s.Cancel(st, b)
			b = s.Go(st, 1, 1110*ms)
			s.At(1300 * ms)
			changed(t, s, st, 0, left(&b, -1, 0), left(&c, -1, 0))
			s.Go(st, 2, 1300*ms)
		}},
		{"allowance/apart", "calls that change their slots after an answer do not get the same one", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a := s.Go(st, 1, 0)
			changed(t, s, st, 1, left(&a, 0, time.Second))
			a, b, c := s.Go(st, 1, time.Second), s.Go(st, 1, 1100*ms), s.Go(st, 1, 1200*ms)
			s.At(1010 * ms)
			changed(t, s, st, 1, left(&a, -1, 0))
			s.Cancel(st, b)
			s.Go(st, 1, 1110*ms)
			s.Cancel(st, c)
			s.Go(st, 1, 1210*ms)
		}},
		{"allowance/silent", "a good answer that says nothing of what is left takes its cost from it", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a := s.Go(st, 1, 0)
			changed(t, s, st, 0, left(&a, 3, 5*time.Second))
			s.At(ms)
			b := s.Go(st, 2, ms)
			changed(t, s, st, 0, left(&b, -1, 0))
			s.Go(st, 1, ms)
			s.Go(st, 1, 5*time.Second)
		}},
		{"allowance/width", "if no policy limits calls, few go before anything is said, and more with each good answer", func(t testing.TB, s *Session) {
			bare := key
			bare.First = 3
			st := s.Stack(bare)
			a := s.Go(st, 1, 0)
			s.Go(st, 2, 0)
			s.Go(st, 1, 100*ms)
			s.Go(st, 1, 200*ms)
			s.At(50 * ms)
			changed(t, s, st, 1, left(&a, -1, 0)) // four are open, and four may be
			s.Go(st, 1, 150*ms)
			b := s.Go(st, 1, 250*ms)
			s.Cancel(st, b)
			s.At(60 * ms)
			changed(t, s, st, 1, left(nil, 20, 10*time.Second)) // a reading decides from now on
			s.Go(st, 15, 60*ms)
			s.Go(st, 1, 10060*ms)
			s.At(20 * time.Minute)
			s.Go(st, 3, 20*time.Minute) // all is forgotten
			s.Go(st, 1, 20*time.Minute+100*ms)
		}},
		{"allowance/before", "an upstream that says what was left before the call is found out", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a := s.Go(st, 1, 0)
			changed(t, s, st, 0, left(&a, 1, 5*time.Second))
			s.At(ms)
			b := s.Go(st, 1, ms)
			changed(t, s, st, 0, refused(left(&b, 0, 5*time.Second)))
			s.At(5002 * ms)
			c := s.Go(st, 1, 5002*ms)
			changed(t, s, st, 1, left(&c, 2, 5*time.Second))
			s.Go(st, 1, 5002*ms)
			s.Go(st, 1, 10002*ms)
		}},
		{"allowance/floor", "resets that are rounded down to seconds are found out", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a := s.Go(st, 1, 0)
			changed(t, s, st, 1, left(&a, 0, 10*time.Second))
			s.At(10 * time.Second)
			b := s.Go(st, 1, 10*time.Second)
			changed(t, s, st, 1, refused(left(&b, 0, 0)))
			s.At(11 * time.Second)
			c := s.Go(st, 1, 11*time.Second)
			changed(t, s, st, 1, left(&c, 0, 10*time.Second))
			s.Go(st, 1, 22*time.Second)
		}},
		{"allowance/patience", "if no more than one call is admitted after a reset, again and again, others are there first: it waits longer", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a, b := s.Go(st, 1, 0), s.Go(st, 1, 0)
			changed(t, s, st, 0, left(&a, 63, time.Second), refused(left(&b, 0, time.Second)))
			for i, wait := range []time.Duration{time.Second, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 16 * time.Second} {
				s.At(Since(s.now) + wait)
				g := s.Go(st, 1, Since(s.now))
				if i%2 > 0 {
					h := s.Go(st, 1, Since(s.now)+100*ms)
					changed(t, s, st, 2, left(&g, -1, 0), refused(left(&h, 0, time.Second)))
					continue
				}
				changed(t, s, st, 1, refused(left(&g, 0, time.Second)))
			}
			s.At(Since(s.now) + 16*time.Second)
			g := s.Go(st, 1, Since(s.now))
			changed(t, s, st, 1, refused(left(&g, 0, time.Hour)))
			s.Go(st, 1, Since(s.now)+time.Hour) // that is far longer than others were waited for
		}},
		{"allowance/patience/few", "no longer than until a quarter of the most that was left may be back", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a, b := s.Go(st, 1, 0), s.Go(st, 1, 0)
			changed(t, s, st, 0, left(&a, 11, time.Second), refused(left(&b, 0, time.Second)))
			for _, wait := range []time.Duration{time.Second, time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
				s.At(Since(s.now) + wait)
				g := s.Go(st, 1, Since(s.now))
				changed(t, s, st, 1, refused(left(&g, 0, time.Second)))
			}
		}},
		{"allowance/patience/full", "a reset that moves away with each call is when a bucket is full: it is waited for once", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a, b := s.Go(st, 1, 0), s.Go(st, 1, 0)
			changed(t, s, st, 0, left(&a, 63, time.Minute), refused(left(&b, 0, time.Second)))
			for _, wait := range []time.Duration{time.Second, time.Second, 2 * time.Second} {
				s.At(Since(s.now) + wait)
				g := s.Go(st, 1, Since(s.now))
				changed(t, s, st, 1, refused(left(&g, 0, time.Second)))
			}
			s.At(8 * time.Second)
			g := s.Go(st, 1, 8*time.Second)
			changed(t, s, st, 1, left(&g, 0, 90*time.Second))
			s.Go(st, 1, 98*time.Second)
		}},
		{"allowance/admitted", "if more than one call is admitted after a reset, others are not there first, even if a later one is refused", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a, b := s.Go(st, 1, 0), s.Go(st, 1, 0)
			changed(t, s, st, 0, left(&a, 63, time.Second), refused(left(&b, 0, time.Second)))
			for range 4 {
				s.At(Since(s.now) + time.Second)
				f, g := s.Go(st, 1, Since(s.now)), s.Go(st, 1, Since(s.now)+100*ms)
				h := s.Go(st, 1, Since(s.now)+200*ms)
				changed(t, s, st, 2, left(&f, -1, 0), left(&g, -1, 0), refused(left(&h, 0, time.Second)))
			}
		}},
		{"allowance/unknown", "if nobody says when there is more, the usual periods are tried, and what was right is remembered", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			s.At(100 * ms) // the epoch is a whole day
			a := s.Go(st, 1, 100*ms)
			changed(t, s, st, 1, left(&a, 0, 0))
			s.At(1100 * ms)
			b := s.Go(st, 1, 1100*ms) // a second by the clock is over
			changed(t, s, st, 1, refused(left(&b, 0, 0)))
			s.At(10100 * ms)
			c := s.Go(st, 1, 10100*ms)
			changed(t, s, st, 1, left(&c, 0, 0)) // that was right
			s.Go(st, 1, 20100*ms)
		}},
		{"allowance/unknown/patience", "a reset that nobody states is not waited for longer because it was wrong", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			s.At(100 * ms)
			a, b := s.Go(st, 40, 100*ms), s.Go(st, 1, 100*ms)
			changed(t, s, st, 1, left(&a, 1, 0), left(&b, 0, 0))
			for _, at := range []time.Duration{1100 * ms, 10100 * ms, 60100 * ms, 600100 * ms} {
				s.At(at)
				g := s.Go(st, 1, at)
				changed(t, s, st, 1, refused(left(&g, 0, 0)))
			}
		}},
		{"allowance/unknown/slides", "if little has come back at the end of a period that was right, the rest comes soon", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			s.At(100 * ms)
			a, b := s.Go(st, 39, 100*ms), s.Go(st, 1, 100*ms)
			changed(t, s, st, 1, left(&a, 1, 0), left(&b, 0, 0))
			s.At(1100 * ms)
			g := s.Go(st, 1, 1100*ms)
			changed(t, s, st, 1, refused(left(&g, 0, 0)))
			s.At(10100 * ms)
			c := s.Go(st, 1, 10100*ms)
			changed(t, s, st, 1, left(&c, 0, 0)) // of 40, one is back
			s.At(11100 * ms)
			d := s.Go(st, 1, 11100*ms)
			changed(t, s, st, 1, left(&d, 30, 0))
			s.Go(st, 30, 11100*ms)
		}},
		{"allowance/guess", "a refusal that says nothing means that nothing is left, until one of the usual periods is over", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			s.At(100 * ms)
			at := 100 * ms
			for _, next := range []time.Duration{1100 * ms, 10100 * ms, 60100 * ms, 600100 * ms, 1500100 * ms} { // none is longer than 15 min
				g := s.Go(st, 1, at)
				changed(t, s, st, 1, bare(&g, 0))
				s.At(next)
				at = next
			}
		}},
		{"allowance/pace", "refusals teach how long a call takes, and with time calls go faster again", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a, b := s.Go(st, 16, 0), s.Go(st, 1, 0)
			changed(t, s, st, 0, left(&a, -1, 0))
			s.At(4 * time.Second)
			changed(t, s, st, 1, bare(&b, 76*time.Second)) // 16 in 80 s
			c := s.Go(st, 1, 80*time.Second)
			d, e := s.Go(st, 1, 85*time.Second), s.Go(st, 1, 90*time.Second)
			s.Cancel(st, e) // another may have its slot
			s.Go(st, 1, 90*time.Second)
			s.At(81 * time.Second)
			changed(t, s, st, 0, left(&c, -1, 0))
			s.Go(st, 1, 95*time.Second)
			s.At(400 * time.Second) // twice as fast after 64 of them
			s.Go(st, 1, 400*time.Second)
			s.Go(st, 1, 402439024*time.Microsecond)
			s.At(770 * time.Second) // nine times, at most
			s.Go(st, 1, 770*time.Second)
			s.Go(st, 1, 770549450*time.Microsecond)
			changed(t, s, st, 1, bare(&d, 10*time.Second))
		}},
		{"allowance/first", "a first refusal after few calls teaches as little: the pace is that of 16 in the same time", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a, b := s.Go(st, 2, 0), s.Go(st, 1, 0)
			changed(t, s, st, 1, left(&a, -1, 0), bare(&b, 16*time.Second))
			s.Go(st, 1, 16*time.Second)
			s.Go(st, 1, 17*time.Second)
		}},
		{"allowance/lesson", "a refusal after few calls changes the pace by a part, and others of its burst do not", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a, b := s.Go(st, 16, 0), s.Go(st, 1, 0)
			changed(t, s, st, 1, left(&a, -1, 0), bare(&b, 16*time.Second))
			c, d, e := s.Go(st, 1, 16*time.Second), s.Go(st, 1, 17*time.Second), s.Go(st, 1, 18*time.Second)
			s.At(20 * time.Second)
			changed(t, s, st, 2, left(&c, -1, 0), bare(&d, 6*time.Second), bare(&e, 6*time.Second)) // one in ten seconds
			s.Go(st, 1, 26*time.Second)
			s.Go(st, 1, 27562500*time.Microsecond)
		}},
		{"allowance/line", "if the first call after a wait is admitted, the others go at the pace from then on", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a, b := s.Go(st, 100, 0), s.Go(st, 1, 0)
			changed(t, s, st, 1, left(&a, -1, 0), bare(&b, 4*time.Second))
			c := s.Go(st, 1, 4*time.Second)
			d, e := s.Go(st, 1, 4100*ms), s.Go(st, 1, 4200*ms)
			s.At(4020 * ms)
			changed(t, s, st, 1, left(&c, -1, 0))
			s.Cancel(st, d)
			s.Go(st, 1, 4020*ms)
			s.Cancel(st, e)
			s.Go(st, 1, 4060*ms)
		}},
		{"allowance/calm", "however long the calls took, after ten minutes without a refusal the pace is twice as fast", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a, b := s.Go(st, 3600, 0), s.Go(st, 1, 0)
			changed(t, s, st, 1, left(&a, -1, 0), bare(&b, time.Hour)) // one a second
			c := s.Go(st, 1, time.Hour)
			s.At(time.Hour)
			changed(t, s, st, 0, left(&c, -1, 0))
			s.At(time.Hour + 5*time.Minute)
			s.Go(st, 1, time.Hour+5*time.Minute)
			s.At(time.Hour + 10*time.Minute)
			s.Go(st, 1, time.Hour+10*time.Minute)
			s.Go(st, 1, time.Hour+10*time.Minute+487804*time.Microsecond)
		}},
		{"allowance/rate", "a limit that is stated without what is left of it is a pace, for a time", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			changed(t, s, st, 1, store.Note{Kind: store.NoteLearn, Value: 600_000, For: 10 * time.Second})
			changed(t, s, st, 0, store.Note{Kind: store.NoteLearn, Value: 600_000, For: 10 * time.Second})
			a := s.Go(st, 1, 0)
			b := s.Go(st, 2, 600*ms)
			s.Go(st, 1, 1800*ms)
			s.Cancel(st, b)
			s.Go(st, 1, 1200*ms)
			changed(t, s, st, 0, left(&a, -1, 0))
			s.At(4 * time.Second)
			s.Go(st, 1, 4*time.Second)
			s.Go(st, 1, 4600*ms)
			changed(t, s, st, 1, left(&a, 3, 30*time.Second)) // which binds, too
			s.Go(st, 1, 34*time.Second)
			s.At(10 * time.Second)
			s.Go(st, 9, 34100*ms)
		}},
		{"allowance/rate/over", "after that time, calls are not held, and a limit that is stated anew holds at once", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			learn := func(n int64, d time.Duration) {
				changed(t, s, st, 1, store.Note{Kind: store.NoteLearn, Value: n, For: d})
			}
			learn(600_000, 10*time.Second)
			s.Go(st, 1, 0)
			s.At(10 * time.Second)
			s.Go(st, 50, 10*time.Second)
			learn(200_000, time.Minute)
			s.Go(st, 1, 10*time.Second)
			s.Go(st, 1, 10200*ms)
			learn(0, time.Minute)
			s.Go(st, 50, 10*time.Second)
			learn(200_000, time.Minute)
			s.Report(st, store.Note{Kind: store.NoteResume})
			s.Go(st, 50, 10*time.Second)
		}},
		{"allowance/said", "where good answers say what is left, a refusal that does not teaches no pace", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a, b := s.Go(st, 1, 0), s.Go(st, 1, 0)
			changed(t, s, st, 1, left(&a, 9, 5*time.Second), bare(&b, 5*time.Second))
			s.At(5 * time.Second)
			c := s.Go(st, 1, 5*time.Second)
			changed(t, s, st, 1, left(&c, 9, 5*time.Second))
			s.Go(st, 1, 5*time.Second)
			s.Go(st, 8, 5*time.Second)
		}},
		{"allowance/taught", "readings of good answers take the place of the pace", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a, b := s.Go(st, 16, 0), s.Go(st, 1, 0)
			changed(t, s, st, 1, left(&a, -1, 0), bare(&b, 80*time.Second))
			s.At(80 * time.Second)
			c := s.Go(st, 1, 80*time.Second)
			s.Go(st, 1, 85*time.Second)
			changed(t, s, st, 1, left(&c, 9, 5*time.Second))
			s.Go(st, 8, 80*time.Second)
			s.Go(st, 1, 85*time.Second)
		}},
		{"allowance/pause", "a pause is an allowance of nothing, and one call goes first after it", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			changed(t, s, st, 0, left(new(s.Go(st, 1, 0)), -1, 0))
			s.Pause(st, 10*time.Second)
			g := s.Go(st, 1, 10*time.Second)
			s.Go(st, 1, 10100*ms)
			if paused := s.Status(st).Limits[0].Paused; Since(paused) != 10*time.Second {
				t.Fatalf("paused until %v", Since(paused))
			}
			s.At(10 * time.Second)
			changed(t, s, st, 1, left(&g, -1, 0))
			s.Go(st, 5, 10*time.Second)
		}},
		{"allowance/unanswered", "where nobody reports answers, a pause ends as if nothing had been said", func(_ testing.TB, s *Session) {
			st := s.Stack(key)
			s.Go(st, 1, 0)
			s.Pause(st, 10*time.Second)
			s.Go(st, 1, 10*time.Second)
			s.Go(st, 50, 10*time.Second)
		}},
		{"allowance/resume", "an operator takes back what was said", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			changed(t, s, st, 1, left(nil, 0, time.Hour))
			s.Go(st, 1, time.Hour)
			s.Report(st, store.Note{Kind: store.NoteResume})
			s.Go(st, 9, 0)
		}},
		{"allowance/news", "callers that wait hear of it when there is more, or less", func(t testing.TB, s *Session) {
			st := s.Stack(key)
			a := s.Go(st, 1, 0)
			changed(t, s, st, 0, left(&a, 5, 10*time.Second))
			b := s.Go(st, 5, 0)
			s.Go(st, 1, 10*time.Second)
			s.At(ms)
			changed(t, s, st, 1, left(nil, 2, 10*time.Second))
			changed(t, s, st, 1, left(&b, 3, 10*time.Second))
		}},
	}
}

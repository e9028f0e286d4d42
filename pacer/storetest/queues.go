package storetest

import (
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// firstID is the least ID that a call may have. IDs have 15 digits.
const firstID = 100_000_000_000_000

// permitAhead is how long before its slot a call requests its permits, if it was granted the slot without them.
const permitAhead = 35 * ms

// newCall returns a call that may have to queue, with an ID of its own. IDs grow.
func (s *Session) newCall() *store.Call {
	s.ids++
	return &store.Call{Cost: 1, MaxWait: store.Forever, ID: firstID + s.ids, Flow: 1, Weight: 1}
}

// hasQueue reports whether calls queue for a limit.
func hasQueue(spec *specs.Spec) bool {
	return spec.Algorithm == specs.Concurrency || spec.Queue != specs.NoQueue
}

// anyQueue reports whether calls of a stack have to carry an ID.
func anyQueue(st *store.Stack) bool {
	for i := range st.Limits {
		if hasQueue(&st.Limits[i].Spec) {
			return true
		}
	}
	return false
}

// hasPermits reports whether a grant has all the permits of its stack.
func hasPermits(st *store.Stack, g *store.Grant) bool {
	for i := range st.Limits {
		if c := g.Charges[i]; st.Limits[i].Spec.Algorithm == specs.Concurrency && c.From != 0 && c.To == 0 {
			return false
		}
	}
	return true
}

// checkQueued checks the rules for every queued call.
func (s *Session) checkQueued(c *store.Call, g *store.Grant) {
	s.t.Helper()
	switch {
	case c.ID == 0:
		s.t.Fatal("a call without an ID is queued")
	case g.OK || len(g.Charges) != 0:
		s.t.Fatalf("queued, and yet granted (%v) or charged %v", g.OK, g.Charges)
	case g.At <= g.Now:
		s.t.Fatalf("asked to come again at %v, at %v: that never ends", Since(g.At), Since(g.Now))
	case g.Ahead < 0 || g.Binds < 0:
		s.t.Fatalf("queued for limit %d behind %d others", g.Binds, g.Ahead)
	case c.MaxWait == 0:
		s.t.Fatal("a call that cannot wait is queued")
	}
}

// goes reserves a call that goes at once, with its permits.
func (s *Session) goes(st store.Stack, c *store.Call) store.Grant {
	s.t.Helper()
	g := s.Ask(st, *c)
	if !g.OK || g.At != s.now || !hasPermits(&st, &g) {
		s.t.Fatalf("at %v: call %d got %+v, want to go now, with its permits", Since(s.now), c.ID-firstID, g)
	}
	return g
}

// stands reserves a call that is queued behind so many others, and records its first request.
func (s *Session) stands(st store.Stack, c *store.Call, ahead int64) store.Grant {
	s.t.Helper()
	g := s.Ask(st, *c)
	if !g.Queued || g.Ahead != ahead {
		s.t.Fatalf("at %v: call %d got %+v, want to queue behind %d", Since(s.now), c.ID-firstID, g, ahead)
	}
	if c.Since == 0 {
		c.Since = g.Now
	}
	return g
}

// far reserves a call with a distant slot: it gets the slot, and no permit.
func (s *Session) far(st store.Stack, c *store.Call, want time.Duration) store.Grant {
	s.t.Helper()
	g := s.Ask(st, *c)
	if !g.OK || Since(g.At) != want || hasPermits(&st, &g) {
		s.t.Fatalf("at %v: call %d got %+v, want the slot %v, without a permit", Since(s.now), c.ID-firstID, g, want)
	}
	if c.Since == 0 {
		c.Since = g.Now
	}
	return g
}

// fill reserves calls until the next one has to queue, and returns the last grant.
func (s *Session) fill(st store.Stack) (last store.Grant) {
	s.t.Helper()
	for range 100 {
		c := s.newCall()
		g := s.Ask(st, *c)
		if g.Queued {
			s.release(st, c)
			return last
		}
		last = g
	}
	s.t.Fatal("no line after 100 calls")
	return last
}

// holding returns a call that has a slot without its permits, as it requests both again.
func (s *Session) holding(c *store.Call, g store.Grant) *store.Call {
	again := *c
	again.Held, again.NotBefore = g.Charges, max(0, g.At.Sub(s.now))
	return &again
}

// notes makes a note of a kind about a call, for each limit of a stack with a queue.
func notes(kind store.NoteKind, st *store.Stack, c *store.Call, began store.Instant) []store.Note {
	var all []store.Note
	for i := range st.Limits {
		if !hasQueue(&st.Limits[i].Spec) {
			continue
		}
		n := c.Left(i)
		n.Kind, n.At = kind, began
		all = append(all, n)
	}
	return all
}

// release reports that calls are over, or have left the queue.
func (s *Session) release(st store.Stack, calls ...*store.Call) {
	s.t.Helper()
	for _, c := range calls {
		s.Report(st, notes(store.NoteRelease, &st, c, 0)...)
	}
}

// renew reports that a call, which began at Epoch, is running.
func (s *Session) renew(st store.Stack, c *store.Call) {
	s.t.Helper()
	s.Report(st, notes(store.NoteRenew, &st, c, Epoch)...)
}

// expect checks the status of limit i.
func (s *Session) expect(st store.Stack, i int, remaining, line int64) store.LimitStatus {
	s.t.Helper()
	in := s.Status(st).Limits[i]
	if in.Remaining != remaining || in.Queued != line {
		s.t.Fatalf("at %v: %s has %d left and %d queued, want %d and %d", Since(s.now), st.Limits[i].Policy, in.Remaining, in.Queued, remaining, line)
	}
	return in
}

// calls checks whom the store calls when something happens: only these, in order. A store that is no [store.Notifier] may call none.
func (s *Session) calls(t testing.TB, want []int64, happens func()) {
	t.Helper()
	s.notifies(t, store.Wake, want, happens)
}

// notifies checks of which changes of a kind the store notifies listeners: of these calls, or of 0 for a change about none.
func (s *Session) notifies(t testing.TB, kind store.ChangeKind, want []int64, happens func()) {
	t.Helper()
	n, ok := s.Store.(store.Notifier)
	if !ok {
		happens()
		return
	}
	received := make(chan int64, 1024)
	ready := make(chan struct{}, 1024)
	stop := n.Listen(s.upstream, func(news store.News) {
		if news.Missed {
			ready <- struct{}{}
		}
		for _, c := range news.Changes {
			if c.Kind == kind {
				received <- c.ID
			}
		}
	})
	defer stop()
	patience := time.NewTimer(time.Minute)
	defer patience.Stop()
	select {
	case <-ready:
	case <-patience.C:
		t.Fatal("the store does not say that it listens")
	}
	happens()
	for i, id := range want {
		select {
		case got := <-received:
			if got != id {
				t.Fatalf("number %d that was called is %d, want %d", i, got-firstID, id-firstID)
			}
		case <-patience.C:
			t.Fatalf("call %d was not called", id-firstID)
		}
	}
	quiet := time.NewTimer(50 * ms) //realtime: a store that calls too many may do so later
	defer quiet.Stop()
	select {
	case got := <-received:
		t.Fatalf("call %d was called, too", got-firstID)
	case <-quiet.C:
	}
}

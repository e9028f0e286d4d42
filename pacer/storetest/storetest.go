// Package storetest is the conformance suite that every [store.Store] must pass. It uses the standard library only.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t testing.TB) storetest.Fixture { … })
//	}
//
// Each case names the rule that it protects, so a failure reads as what was broken and not only as numbers that differ. The suite judges
// with code of its own: nothing here calls the engine.
package storetest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// A Fixture is a store under test.
type Fixture struct {
	// Store is the store. It may hold state of earlier cases: each case uses an upstream of its own.
	Store store.Store
	// SetTime sets the store's clock, which must stand still until it is set again.
	SetTime func(store.Instant)
	// State returns all that the store holds of an upstream, except when it expires. Without it, the suite judges refusals by later replies.
	State func(upstream string) string
	// Seeds bounds how many random histories each case about a property plays. Defaults to as many as the suite has.
	Seeds int
}

// seeds returns how many of n random histories to play.
func (f *Fixture) seeds(n uint64) uint64 {
	if f.Seeds > 0 {
		return min(n, uint64(f.Seeds))
	}
	return n
}

// Epoch is when the cases begin: Wednesday, 2025-01-01 00:00:00 UTC, the start of a minute, an hour, a day
// and a month.
const Epoch = store.Instant(1_735_689_600_000_000)

// A Case is one conformance test.
type Case struct {
	Name string
	Rule string // what it protects, in one sentence
	Test func(t testing.TB, s *Session)
}

// Run runs every case against a store.
func Run(t *testing.T, fixture func(t testing.TB) Fixture) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("the rule: %s", c.Rule)
				}
			})
			c.Test(t, NewSession(t, fixture(t)))
		})
	}
}

// Cases returns all cases.
func Cases() []Case {
	var all []Case
	for _, part := range [][]Case{
		gcraCases(), exactCases(), windowCases(), jointCases(), cancelCases(), pauseCases(), heedCases(), allowanceCases(), statedCases(), marginCases(), changedCases(), costCases(), claimCases(), longQueueCases(),
		choiceCases(), choicePermitCases(), sharedCases(), registryCases(), settingsCases(), bookingCases(), statusCases(), inFlightCases(), laneCases(), fairCases(), floorCases(), propertyCases(),
	} {
		all = append(all, part...)
	}
	return all
}

// upstreams numbers the upstreams of this process, so that no two cases share one.
var upstreams atomic.Int64

// A Session drives a store through one case: it holds the time and an upstream.
type Session struct {
	Fixture

	t        testing.TB
	upstream string
	now      store.Instant
	ids      int64 // of calls that may have to queue, given so far
}

// NewSession begins a case at Epoch, with an upstream of its own.
func NewSession(t testing.TB, f Fixture) *Session {
	s := &Session{Fixture: f, t: t, upstream: fmt.Sprintf("case-%d-%d", time.Now().UnixNano(), upstreams.Add(1))}
	s.At(0)
	return s
}

// At sets the time to d after Epoch.
func (s *Session) At(d time.Duration) { s.Set(Epoch + store.Instant(d.Microseconds())) }

// Set sets the time.
func (s *Session) Set(now store.Instant) {
	s.now = now
	s.SetTime(now)
}

// Since returns how long after Epoch an instant is.
func Since(t store.Instant) time.Duration { return t.Sub(Epoch) }

// Key is a policy for one scope value; a policy without a scope has none.
type Key struct {
	Policy policies.Policy
	Scope  string
	Left   bool  // the allowance of the policy, and not the policy
	First  int64 // with Left: see specs.Spec.First
}

// Stack returns the stack of some keys.
func (s *Session) Stack(keys ...Key) store.Stack {
	st := store.Stack{Upstream: s.upstream}
	for _, k := range keys {
		if err := k.Policy.Validate(); err != nil {
			s.t.Fatal(err)
		}
		l := store.Limit{Policy: k.Policy.Name(), Scope: k.Scope, Spec: k.Policy.Spec()}
		if k.Left {
			l = readings.AllowanceOf(l)
			l.Spec.First = k.First
		}
		st.Limits = append(st.Limits, l)
	}
	return st
}

// Ask reserves one call.
func (s *Session) Ask(st store.Stack, c store.Call) store.Grant {
	s.t.Helper()
	return s.AskAll(st, c)[0]
}

// AskAll reserves some calls in one operation.
func (s *Session) AskAll(st store.Stack, calls ...store.Call) []store.Grant {
	s.t.Helper()
	grants := make([]store.Grant, len(calls))
	if err := s.Store.Reserve(s.t.Context(), st, calls, grants); err != nil {
		s.t.Fatalf("Reserve: %v", err)
	}
	s.check(st, calls, grants)
	return grants
}

// AskEach reserves calls of some stacks: in one operation, if the store is one that can do so.
func (s *Session) AskEach(batches []store.Batch) {
	s.t.Helper()
	if backing, ok := s.Store.(store.Shared); ok {
		for i := range batches {
			batches[i].Grants = make([]store.Grant, len(batches[i].Calls))
		}
		s.askAll(backing, batches)
	}
	for i := range batches {
		b := &batches[i]
		if b.Grants == nil {
			b.Grants = s.AskAll(b.Stack, b.Calls...)
		}
		s.check(b.Stack, b.Calls, b.Grants)
	}
}

// askAll reserves calls of some stacks in as many operations as that takes: each decides some of the calls, from the first on.
func (s *Session) askAll(backing store.Shared, batches []store.Batch) {
	s.t.Helper()
	rest := slices.Clone(batches)
	for len(rest) > 0 {
		if err := backing.ReserveAll(s.t.Context(), rest); err != nil {
			s.t.Fatalf("ReserveAll: %v", err)
		}
		var left []store.Batch
		for i, b := range rest {
			n := slices.IndexFunc(b.Grants, func(g store.Grant) bool { return g.Deferred })
			if len(b.Calls) > 0 && (len(left) > 0 && n != 0 || n == 0 && i == 0) {
				s.t.Fatalf("ReserveAll decided %d calls of stack %d of %d behind one that it left", n, i, len(rest))
			}
			if n >= 0 {
				left = append(left, store.Batch{Stack: b.Stack, Calls: b.Calls[n:], Grants: b.Grants[n:]})
			}
		}
		rest = left
	}
}

// check checks what holds of every grant.
func (s *Session) check(st store.Stack, calls []store.Call, grants []store.Grant) {
	s.t.Helper()
	for i := range grants {
		g := &grants[i]
		if g.Now != s.now {
			s.t.Fatalf("the store's now is %v after Epoch, want %v", Since(g.Now), Since(s.now))
		}
		if g.Queued {
			s.checkQueued(&calls[i], g)
			continue
		}
		if g.At < s.now+store.Instant(calls[i].NotBefore.Microseconds()) {
			s.t.Fatalf("slot %v is before the call was made or wanted to go, at %v: never early", Since(g.At), Since(s.now))
		}
		if g.OK && g.Slack < 0 {
			s.t.Fatalf("slack is %v: must not be negative", g.Slack)
		}
		if g.OK && len(g.Charges) != len(st.Limits) {
			s.t.Fatalf("%d charges for %d limits", len(g.Charges), len(st.Limits))
		}
		s.checkChoice(&calls[i], g)
		if want := g.Wait() <= calls[i].MaxWait; g.OK != want && !g.OK {
			// A calendar's horizon may refuse what MaxWait allows, and permits a call that cannot wait. Nothing else.
			excused := calls[i].MaxWait == 0 && g.Binds >= 0 && st.Limits[g.Binds].Spec.Algorithm == specs.Concurrency
			for j := range st.Limits {
				excused = excused || st.Limits[j].Spec.Calendar != nil
			}
			if !excused {
				s.t.Fatalf("refused a wait of %v, within MaxWait %v", g.Wait(), calls[i].MaxWait)
			}
		}
		if g.OK && g.Wait() > calls[i].MaxWait {
			s.t.Fatalf("granted a wait of %v, beyond MaxWait %v", g.Wait(), calls[i].MaxWait)
		}
	}
}

// Go reserves a call of cost n without a bound on its wait, and checks its slot.
func (s *Session) Go(st store.Stack, n int64, want time.Duration) store.Grant {
	s.t.Helper()
	g := s.Ask(st, store.Call{Cost: n, MaxWait: store.Forever})
	if !g.OK {
		s.t.Fatalf("at %v: refused", Since(s.now))
	}
	if Since(g.At) != want {
		s.t.Fatalf("at %v: a call of cost %d got the slot %v, want %v", Since(s.now), n, Since(g.At), want)
	}
	return g
}

// Cancel gives grants of one stack back.
func (s *Session) Cancel(st store.Stack, grants ...store.Grant) {
	s.t.Helper()
	if err := s.Store.Cancel(s.t.Context(), st, grants); err != nil {
		s.t.Fatalf("Cancel: %v", err)
	}
}

// CancelEach gives grants of some stacks back: in one operation, if the store is one that can do so.
func (s *Session) CancelEach(batches []store.Batch) {
	s.t.Helper()
	if store, ok := s.Store.(store.Shared); ok {
		if err := store.CancelAll(s.t.Context(), batches); err != nil {
			s.t.Fatalf("CancelAll: %v", err)
		}
		return
	}
	for i := range batches {
		s.Cancel(batches[i].Stack, batches[i].Grants...)
	}
}

// Pause reports that nothing is left of each allowance of a stack for d.
func (s *Session) Pause(st store.Stack, d time.Duration) {
	s.t.Helper()
	for i := range st.Limits {
		if st.Limits[i].Spec.Algorithm == specs.Allowance {
			s.Report(st, store.Pause(i, d))
		}
	}
}

// left returns the key of the allowance of a policy.
func left(k Key) Key {
	k.Left = true
	return k
}

// Report passes notes to the store, and returns how many of them made a difference.
func (s *Session) Report(st store.Stack, notes ...store.Note) int {
	s.t.Helper()
	now, changed, err := s.Store.Report(s.t.Context(), st, notes)
	if err != nil {
		s.t.Fatalf("Report: %v", err)
	}
	if now != s.now {
		s.t.Fatalf("Report at %v, want %v", Since(now), Since(s.now))
	}
	return changed
}

// Status looks at a stack.
func (s *Session) Status(st store.Stack) store.StackStatus {
	s.t.Helper()
	status, err := s.Store.Status(s.t.Context(), st)
	if err != nil {
		s.t.Fatalf("Status: %v", err)
	}
	if status.Now != s.now || len(status.Limits) != len(st.Limits) {
		s.t.Fatalf("Status: now %v with %d limits, want %v with %d", Since(status.Now), len(status.Limits), Since(s.now), len(st.Limits))
	}
	if store, ok := s.Store.(store.Shared); ok {
		s.checkPauses(store, st, &status)
	}
	return status
}

// checkPauses checks that a query for pauses only returns the same pauses.
func (s *Session) checkPauses(store store.Shared, st store.Stack, status *store.StackStatus) {
	s.t.Helper()
	seen, err := store.Pauses(s.t.Context(), st)
	if err != nil || seen.Now != s.now || len(seen.Limits) != len(st.Limits) {
		s.t.Fatalf("Pauses: now %v with %d limits, %v", Since(seen.Now), len(seen.Limits), err)
	}
	for i := range seen.Limits {
		if seen.Limits[i].Paused != status.Limits[i].Paused {
			s.t.Fatalf("Pauses: limit %d until %v, Status says until %v", i, seen.Limits[i].Paused, status.Limits[i].Paused)
		}
	}
}

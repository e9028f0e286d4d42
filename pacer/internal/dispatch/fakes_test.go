package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/internal/usage"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// No goroutine outlives what started it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a store of one account: of slots that follow each other, or of permits. It remembers its requests.
type fake struct {
	way     time.Duration // there and back, half of it each
	gap     time.Duration // between two slots
	permits int           // of a stack with permits
	mute    bool          // it wakes no call
	local   bool          // its slots are local ones
	noShare bool          // it is out of reach, and the process has no share without it

	mu       sync.Mutex
	taken    map[store.Instant]int
	from     store.Instant // no slot is earlier
	paused   store.Instant
	held     map[int64]bool
	queue    []int64
	requests [][]store.Call
	log      []string     // "reserve n" and "cancel n", in order
	freed    int          // permits that came back
	fail     func() error // for the next request
	receive  func(store.News)
}

var errDown = errors.New("the store is down")

func instant(at time.Time) store.Instant { return store.Instant(at.UnixMicro()) }

func (f *fake) travel() { time.Sleep(f.way / 2) }

func (f *fake) Reserve(_ context.Context, _ store.Stack, calls []store.Call, grants []store.Grant) error {
	f.travel()
	defer f.travel()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, slices.Clone(calls))
	f.log = append(f.log, fmt.Sprint("reserve ", len(calls)))
	if fail := f.fail; fail != nil {
		f.fail = nil
		return fail()
	}
	now := instant(time.Now())
	for i := range calls {
		if calls[i].ID != 0 {
			f.permit(now, &calls[i], &grants[i])
		} else {
			f.slot(now, &calls[i], &grants[i])
		}
	}
	return nil
}

// slot grants the first slot that is free.
func (f *fake) slot(now store.Instant, c *store.Call, g *store.Grant) {
	at, binds, paused := max(now, f.from).Add(c.NotBefore), store.BindsNothing, store.Instant(0)
	if f.paused > at {
		at, binds, paused = f.paused, 0, f.paused
	}
	for one, near := f.near(at); near; one, near = f.near(at) {
		at, binds = one.Add(f.gap), 0
	}
	if f.noShare {
		at, binds = now.Add(store.Forever+time.Second), store.BindsStore
	}
	*g = store.Grant{OK: at.Sub(now) <= c.MaxWait, Now: now, At: at, Binds: binds, Paused: paused, Charges: g.Charges[:0], Local: f.local}
	g.Charges = append(g.Charges, store.Charge{From: int64(at)})
	if f.local {
		g.Receipt = at
	}
	if g.OK {
		if f.taken == nil {
			f.taken = make(map[store.Instant]int)
		}
		f.taken[at]++
	}
}

// near returns a slot that is taken, and closer to an instant than the gap.
func (f *fake) near(at store.Instant) (store.Instant, bool) {
	for one := range f.taken {
		if d := at.Sub(one); d < f.gap && -d < f.gap {
			return one, true
		}
	}
	return 0, false
}

// permit grants a permit, or has the call queued.
func (f *fake) permit(now store.Instant, c *store.Call, g *store.Grant) {
	i := slices.Index(f.queue, c.ID)
	if i < 0 {
		i = len(f.queue)
		f.queue = append(f.queue, c.ID)
	}
	*g = store.Grant{Now: now, At: now.Add(time.Second), Charges: g.Charges[:0], Queued: true, Ahead: int64(i)}
	g.Charges = append(g.Charges, store.Charge{From: c.ID})
	if f.held[c.ID] || i < f.permits-len(f.held) {
		if f.held == nil {
			f.held = make(map[int64]bool)
		}
		f.queue = slices.Delete(f.queue, i, i+1)
		f.held[c.ID] = true
		g.OK, g.Queued, g.At, g.Slack, g.Binds, g.Charges[0].To = true, false, now, time.Second, store.BindsNothing, 1
	}
}

func (f *fake) Cancel(_ context.Context, _ store.Stack, grants []store.Grant) error {
	f.travel()
	defer f.travel()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, fmt.Sprint("cancel ", len(grants)))
	for i := range grants {
		if at := grants[i].At; f.taken[at] > 1 {
			f.taken[at]--
		} else {
			delete(f.taken, at)
		}
	}
	return nil
}

func (f *fake) Report(_ context.Context, _ store.Stack, all []store.Note) (store.Instant, int, error) {
	f.travel()
	defer f.travel()
	f.mu.Lock()
	for i := range all {
		id := all[i].Value
		if all[i].Kind != store.NoteRelease {
			continue
		}
		if f.held[id] {
			f.freed++
		}
		delete(f.held, id)
		f.queue = slices.DeleteFunc(f.queue, func(one int64) bool { return one == id })
	}
	var wake int64
	if len(f.queue) > 0 && len(f.held) < f.permits && !f.mute {
		wake = f.queue[0]
	}
	receive := f.receive
	f.mu.Unlock()
	if wake != 0 && receive != nil {
		receive(store.News{Changes: []store.Change{{Kind: store.Wake, ID: wake}}})
	}
	return instant(time.Now()), 0, nil
}

func (f *fake) Status(_ context.Context, stack store.Stack) (store.StackStatus, error) {
	f.travel()
	defer f.travel()
	f.mu.Lock()
	defer f.mu.Unlock()
	st := store.StackStatus{Now: instant(time.Now()), Limits: make([]store.LimitStatus, len(stack.Limits))}
	for i := range st.Limits {
		st.Limits[i].Paused = f.paused
	}
	return st, nil
}

// Listen implements [store.Notifier].
func (f *fake) Listen(_ string, receive func(store.News)) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.receive = receive
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.receive = nil
	}
}

// Exchangeable implements [store.Exchanger].
func (f *fake) Exchangeable(g *store.Grant) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.local && g.Local && g.At > instant(time.Now())
}

// Returning implements [store.Exchanger].
func (f *fake) Returning(*store.Grant) bool { return false }

// pause pauses the whole upstream, and returns the news of it.
func (f *fake) pause(d time.Duration) store.Change {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := instant(time.Now())
	f.paused = now.Add(d)
	return store.Change{Kind: store.Paused, Now: now, Until: f.paused}
}

// charged returns how many slots are taken.
func (f *fake) charged() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, calls := range f.taken {
		n += calls
	}
	return n
}

// ahead returns how many slots are taken that are still to come.
func (f *fake) ahead() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for at := range f.taken {
		if at > instant(time.Now()) {
			n++
		}
	}
	return n
}

// sent returns how many requests for slots or permits there were, and the calls in all of them.
func (f *fake) sent() (requests, calls int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.requests {
		calls += len(one)
	}
	return len(f.requests), calls
}

// request returns the calls of one of them.
func (f *fake) request(i int) []store.Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[i]
}

// history returns what was done, in order, and forgets it.
func (f *fake) history() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	log := f.log
	f.log = nil
	return log
}

// refused is the error of a refusal.
type refused = *dispatch.NotYetError

// rig is waiters over a store, and what became of calls.
type rig struct {
	*dispatch.Dispatcher

	start time.Time

	mu   sync.Mutex
	went []string        // the names of calls, in the order in which they went
	when []time.Duration // since the start
}

func newRig(t *testing.T, s store.Store, change func(*dispatch.Config)) *rig {
	t.Helper()
	r := &rig{start: time.Now()}
	c := dispatch.Config{
		Upstream: "api", Store: s, Given: s, MaxLate: 500 * ms,
		Meter: usage.NewMeter([]string{"limit"}, true),
	}
	if change != nil {
		change(&c)
	}
	r.Dispatcher = dispatch.New(&c)
	t.Cleanup(r.close)
	return r
}

func (r *rig) close() {
	r.Close()
	r.Leases.Close()
	r.Drain()
}

// rate and inFlight are stacks of one limit.
var (
	rate     = []store.Limit{{Policy: "limit"}}
	inFlight = []store.Limit{{Policy: "permits", Spec: policies.InFlight(1).Spec()}}
)

// request returns a request for a call that waits.
func request(limits []store.Limit) *dispatch.Request {
	return &dispatch.Request{
		Limits: limits, Call: store.Call{Cost: 1, MaxWait: store.Forever}, WillWait: true, HasQueue: limits[0].Spec.HasQueue(),
	}
}

// wait has a call wait, and notes when it goes.
func (r *rig) wait(ctx context.Context, name string, q *dispatch.Request) (*dispatch.Call, error) {
	c := new(dispatch.Call)
	if err := r.Reserve(ctx, c, q); err != nil {
		return nil, err
	}
	if err := c.Wait(ctx); err != nil {
		return nil, err
	}
	r.note(name)
	return c, nil
}

func (r *rig) note(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.went = append(r.went, name)
	r.when = append(r.when, time.Since(r.start))
}

// history returns which calls went, and when.
func (r *rig) history() ([]string, []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.went), slices.Clone(r.when)
}

package failover

import (
	"context"
	"slices"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/internal/charges"
	"github.com/headway-go/headway/pacer/internal/link"
	"github.com/headway-go/headway/pacer/store"
)

// MaxProcesses bounds the number of processes that this one believes.
const MaxProcesses = 10_000

// A Store is a [store.Member] on top of a [store.Shared]. It consists of parts, each with one purpose.
type Store struct {
	*contact
	*member
	*heartbeats
	*settings
	*operations
}

var _ store.Booker = (*Store)(nil)

// New returns a member on top of a shared store. It begins to work with its first operation.
func New(backing store.Shared, c *Config) *Store {
	config, l, m := *c, &charges.Ledger{}, &member{turn: make(chan struct{}, 1), checks: make(chan struct{}, 1)}
	b := charges.NewBill(m.isReturningAt)
	w := &Store{member: m, contact: &contact{
		config: &config, link: link.New(backing, c.Timeout, c.Owner.Requested), fleet: &fleet{}, dropped: b.DroppedSince, kick: make(chan struct{}, 1),
	}}
	w.settings = &settings{contact: w.contact, ledger: l, turning: make(chan struct{}, 1)}
	w.changes = batch.NewAnswered(1, batch.FitChanges, w.settings.send)
	w.heartbeats = newHeartbeats(w.contact, w.settings)
	p := &payer{contact: w.contact, bill: b, once: numbers{by: w.id, open: make(map[int64]struct{})}, turn: make(chan struct{}, 1)}
	a := charges.NewAccounts(l, b, w.Now, c.InForce.PolicyOf, c.Owner.Permits)
	m.contact, m.settings, m.heartbeats, m.payer, m.accounts = w.contact, w.settings, w.heartbeats, p, a
	w.operations = &operations{contact: w.contact, member: m, settings: w.settings, ledger: l, accounts: a, bill: b, payer: p}
	w.cancels = batch.NewAnswered(batch.MaxSending, batch.FitRefunds, w.sendCancels)
	w.redemptions = batch.NewAnswered(1, batch.FitRedemptions, w.sendRedemptions)
	return w
}

// Reserve implements [store.Store].
func (w *Store) Reserve(ctx context.Context, stack store.Stack, calls []store.Call, grants []store.Grant) error {
	return store.InParts(grants, func(done int) error {
		one := []store.Batch{{Stack: stack.Clone(), Calls: slices.Clone(calls[done:]), Grants: make([]store.Grant, len(calls)-done)}}
		var errs [1]error
		if w.ReserveEach(ctx, one, errs[:]); errs[0] != nil {
			return errs[0]
		}
		copy(grants[done:], one[0].Grants)
		return nil
	}, func(all []store.Grant) { _ = w.Cancel(context.WithoutCancel(ctx), stack, all) })
}

// Cancel implements [store.Store].
func (w *Store) Cancel(ctx context.Context, stack store.Stack, grants []store.Grant) error {
	return w.CancelAll(ctx, []store.Batch{{Stack: stack, Grants: grants}})
}

// Exchangeable implements [store.Exchanger].
func (w *Store) Exchangeable(g *store.Grant) bool {
	is, over := charges.IsLocal(g)
	return is && !over && w.is(shared)
}

// Returning implements [store.Exchanger].
func (w *Store) Returning(g *store.Grant) bool {
	is, _ := charges.IsLocal(g)
	return is && w.isReturningAt(g.At)
}

// Listen implements [store.Notifier].
func (w *Store) Listen(upstream string, listener func(store.News)) (stop func()) {
	w.listener.Store(&listener)
	quiet := w.member.accounts.Listen(upstream, func(n store.News) {
		// Of its own local news, this process needs only which queued call is to wake.
		if len(n.Changes) > 0 && n.Changes[0].Kind == store.Wake {
			listener(n)
		}
	})
	n, is := link.As[store.Notifier](w.link)
	if !is {
		return quiet
	}
	loud := n.Listen(upstream, listener)
	return func() {
		quiet()
		loud()
	}
}

// Echoes implements [store.Member].
func (w *Store) Echoes() bool {
	_, is := link.As[store.Notifier](w.link)
	return is && w.is(shared)
}

// Registry implements [store.Member].
func (w *Store) Registry() store.Registry {
	if w.is(local) {
		return nil
	}
	return w.link.Registry()
}

// Ready implements [store.Readier]: it tries the shared store, whatever the state is.
func (w *Store) Ready(ctx context.Context, upstream string) error { return w.link.Ready(ctx, upstream) }

// Close implements [store.Member]: it leaves the fleet, and waits for what is under way. From then on, grants are all that it gives back.
func (w *Store) Close() {
	again, ran := w.member.leave()
	if again {
		return
	}
	w.cancels.Wait()
	if ran {
		w.member.payer.payLast(context.Background())
	}
	if w.is(shared) {
		w.heartbeats.leave(context.Background())
	}
	w.link.Close()
	w.redemptions.Wait()
	w.changes.Wait()
	w.cancels.Wait() // what was granted meanwhile to callers that have gone
}

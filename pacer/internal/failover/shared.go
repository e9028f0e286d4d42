package failover

import (
	"context"
	"errors"
	"slices"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Only the shared store keeps descriptions of the processes, settings of operators, and the outcomes of bookings.

type boundedRegistry struct {
	*Store
	store.Registry
}

// Index implements [store.Registry].
func (w boundedRegistry) Index(ctx context.Context, upstream string) (*store.Index, error) {
	answer := make(chan *store.Index, 1)
	err := w.within(ctx, "index", 0, func(ctx context.Context) error {
		index, err := w.Registry.Index(ctx, upstream)
		answer <- index
		return err
	})
	if err != nil {
		return nil, err
	}
	return <-answer, nil
}

// Registry implements [store.Member]: each operation is bounded in time as all others are.
func (w *Store) Registry() store.Registry {
	if w.state.Load() == local {
		return nil
	}
	if r, ok := w.store.(store.Registry); ok {
		return boundedRegistry{w, r}
	}
	return nil
}

// looksAgain is how many descriptions a process sends before it reads the others' policies again, even if the number of versions is the
// same.
const looksAgain = 16

// maxTexts bounds the different policies in which it looks for fair shares: anyone who can write to the store can name any number.
const maxTexts = 1 << 12

// findFair finds the policies that some process shares fairly, if processes have different ones: while that is rolled out, or taken back, this
// process may not.
func (w *Store) findFair(ctx context.Context, registry store.Registry, versions int) {
	if w.looks++; versions == w.versions && (versions <= 1 || w.looks < looksAgain) {
		return
	}
	var names []string
	if versions > 1 {
		index, err := registry.Index(ctx, w.config.Upstream)
		if err != nil {
			return
		}
		seen := make(map[string]bool)
		for i := range index.Processes {
			for _, text := range index.Processes[i].Policies {
				if seen[text] || len(seen) == maxTexts {
					continue
				}
				seen[text] = true
				p, err := policies.Parse(text)
				if err == nil && p.FairBy() != "" {
					names = append(names, p.Name())
				}
			}
		}
		slices.Sort(names)
	}
	w.versions, w.looks = versions, 0
	w.config.InForce.SetFair(slices.Compact(names))
}

// Ready implements [store.Readier]: it tries the shared store, whatever the state is. Of one that is no Readier it reads the upstream's
// pause, which is little, but an answer.
func (w *Store) Ready(ctx context.Context, upstream string) error {
	r, ok := w.store.(store.Readier)
	if !ok {
		return w.within(ctx, "ready", 0, func(ctx context.Context) error {
			_, err := w.store.Pauses(ctx, store.Stack{Upstream: upstream})
			if err != nil && w.store.Fault(err) == store.Unreachable {
				return unreachable(err)
			}
			return err
		})
	}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return store.ErrClosed
	}
	w.running.Add(1)
	w.mu.Unlock()
	defer w.running.Done()
	return r.Ready(ctx, upstream)
}

// A process reads the settings of operators when it joins the fleet, when the store has begun a new epoch, as it does with each
// setting, and when the store is back. If it could not read them, it tries again with its next heartbeat.

// Settings implements [store.Settable].
func (w *Store) Settings(ctx context.Context, upstream string) (*store.Settings, error) {
	return w.set(ctx, "settings", func(ctx context.Context, s store.Settable) (*store.Settings, error) { return s.Settings(ctx, upstream) })
}

// Set implements [store.Settable]. Changes that come while one is under way share the next request: each request begins an epoch, which all
// processes have to heed.
func (w *Store) Set(ctx context.Context, upstream string, changes []store.Setting) (*store.Settings, error) {
	all, err := w.changes.Do(ctx, batch.Set{Upstream: upstream, Settings: slices.Clone(changes)})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// sendChanges makes changes in one request, or each in its own if there is no room for all of them.
func (w *Store) sendChanges(all []*batch.Change) {
	send := func(some []*batch.Change) (*store.Settings, error) {
		return w.set(some[0].Ctx, "set", func(ctx context.Context, s store.Settable) (*store.Settings, error) {
			return s.Set(ctx, some[0].Value.Upstream, batch.Merged(some))
		})
	}
	settings, err := send(all)
	for i, c := range all {
		if c.Answer, c.Err = settings, err; isFull(err) && len(all) > 1 {
			c.Answer, c.Err = send(all[i : i+1])
		}
	}
}

// isFull reports whether an error is the answer of a store that keeps no more settings.
func isFull(err error) bool {
	_, is := errors.AsType[*store.SettingsError](err)
	return is
}

func (w *Store) set(ctx context.Context, name string, do func(context.Context, store.Settable) (*store.Settings, error)) (*store.Settings, error) {
	s, ok := w.store.(store.Settable)
	if !ok {
		return nil, store.ErrNoSettings
	}
	answer := make(chan *store.Settings, 1)
	err := w.reach(ctx, name, func(ctx context.Context) error {
		all, err := do(ctx, s)
		answer <- all
		return err
	})
	if err != nil {
		return nil, err
	}
	return <-answer, nil
}

// doubtSettings has what is set be read and heeded soon.
func (w *Store) doubtSettings() {
	if _, ok := w.store.(store.Settable); !ok {
		return
	}
	w.doubted.Store(true)
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// readSettings reads what is set, if that is in doubt.
func (w *Store) readSettings(ctx context.Context) {
	if !w.doubted.Swap(false) {
		return
	}
	all, err := w.Settings(ctx, w.config.Upstream)
	if err != nil {
		w.doubted.Store(true)
		return
	}
	w.config.InForce.Read(all)
}

var _ store.Booker = (*Store)(nil)

// Only the shared store knows the outcome of a booking: a process that is without it could redeem what another one has redeemed. So
// bookings are neither made nor redeemed locally, whatever the mode, and an answer that is lost is an error.

// Epoch implements [store.Booker].
func (w *Store) Epoch() (store.Epoch, error) {
	if _, ok := w.store.(store.Redeemer); !ok {
		return store.Epoch{}, store.ErrNoBookings
	}
	if w.state.Load() != shared {
		return store.Epoch{}, w.refused()
	}
	return w.knownEpoch(), nil
}

// Booked implements [store.Booker]. A store that grants the slot again has not forgotten it. The store needs no other reminder than
// that it was taken.
func (w *Store) Booked(stack store.Stack, g store.Grant) {
	w.ledger.releasedAll(&stack, []store.Grant{g})
}

// Redeem implements [store.Redeemer].
func (w *Store) Redeem(ctx context.Context, _ string, all []store.Booking) ([]store.Redemption, error) {
	if _, ok := w.store.(store.Redeemer); !ok {
		return nil, store.ErrNoBookings
	}
	ask, err := w.ensureJoined(ctx)
	if err != nil {
		return nil, err
	}
	if !ask {
		return nil, w.refused()
	}
	copied := slices.Clone(all) // the request may last longer than this
	for i := range copied {
		b := &copied[i]
		b.Limits, b.Refund = slices.Clone(b.Limits), slices.Clone(b.Refund)
		if b.Refund != nil {
			w.forgets(&store.Stack{Limits: b.Limits}, []store.Grant{{Charges: b.Refund}})
		}
	}
	return w.redemptions.Do(ctx, copied...)
}

// sendRedemptions changes records in one request. If one of them is at fault, the others do not suffer from it.
func (w *Store) sendRedemptions(all []*batch.Redemption) {
	began, bookings := w.Now(), make([]store.Booking, len(all))
	for i, x := range all {
		bookings[i] = x.Value
	}
	answer := make(chan []store.Redemption, 1)
	err := w.reach(all[0].Ctx, "redeem", func(ctx context.Context) error {
		answers, err := w.store.(store.Redeemer).Redeem(ctx, w.config.Upstream, bookings) //nolint:forcetypeassert // it is one: see Redeem
		if err == nil {
			answer <- answers[:len(bookings)]
		}
		return err
	})
	if half := len(all) / 2; half > 0 && err != nil && w.unfit(err) {
		w.sendRedemptions(all[:half])
		w.sendRedemptions(all[half:])
		return
	}
	w.fellBack(err, began)
	answers := make([]store.Redemption, len(all))
	if err == nil {
		answers = <-answer
		w.observe(answers[0].Now)
	}
	for i, x := range all {
		x.Answer, x.Err = answers[i], err
	}
}

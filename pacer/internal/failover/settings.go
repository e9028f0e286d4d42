package failover

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/internal/charges"
	"github.com/headway-go/headway/pacer/internal/link"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// settings are what operators have set and reset. Only the shared store keeps them, and begins an epoch of its data with each. A process
// applies one epoch after the other: it reads what was set and reset, and forgets the latter, since no record of it must bring it back. It
// reads them, too, when it joins the fleet and when the store is back, and after a failure with its next heartbeat.
type settings struct {
	contact *contact
	ledger  *charges.Ledger
	changes batch.Answered[batch.Set, *store.Settings]

	epoch   atomic.Pointer[store.Epoch] // the last one that was applied
	turning chan struct{}               // filled while one is applied
	heeded  atomic.Int32                // reservations that are made again, because of a reset
	doubted atomic.Bool                 // what is set may have changed

	mu       sync.Mutex
	changed  [2]time.Time   // when it met the last epochs that began on purpose
	resumed  []store.Change // what was reset, until calls that wait receive it
	versions int            // how many different lists of policies processes had when it last looked, and descriptions since
	looks    int
}

// ask sends a request to a store that keeps settings.
func (s *settings) ask(ctx context.Context, name string, op func(context.Context, store.Settable) (*store.Settings, error)) (*store.Settings, error) {
	keeps, is := link.As[store.Settable](s.contact.link)
	if !is {
		return nil, store.ErrNoSettings
	}
	return link.Ask(ctx, s.contact.link, link.Request{Name: name}, func(ctx context.Context, _ store.Shared) (*store.Settings, error) { return op(ctx, keeps) })
}

// Settings implements [store.Settable].
func (s *settings) Settings(ctx context.Context, upstream string) (*store.Settings, error) {
	return s.ask(ctx, "settings", func(ctx context.Context, s store.Settable) (*store.Settings, error) { return s.Settings(ctx, upstream) })
}

// Set implements [store.Settable]. Changes that come while one is under way share the next request: each request begins an epoch, which all
// processes have to apply.
func (s *settings) Set(ctx context.Context, upstream string, changes []store.Setting) (*store.Settings, error) {
	all, err := s.changes.Do(ctx, batch.Set{Upstream: upstream, Settings: slices.Clone(changes)})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// send makes changes in one request, or each in its own if there is no room for all of them.
func (s *settings) send(all []*batch.Change) {
	once := func(some []*batch.Change) (*store.Settings, error) {
		return s.ask(some[0].Ctx, "set", func(ctx context.Context, s store.Settable) (*store.Settings, error) {
			return s.Set(ctx, some[0].Value.Upstream, batch.Merged(some))
		})
	}
	answer, err := once(all)
	for i, c := range all {
		if c.Answer, c.Err = answer, err; link.IsFull(err) && len(all) > 1 {
			c.Answer, c.Err = once(all[i : i+1])
		}
	}
}

// doubt has what is set be read and applied soon.
func (s *settings) doubt() {
	if _, is := link.As[store.Settable](s.contact.link); is {
		s.doubted.Store(true)
		s.contact.wake()
	}
}

// read reads what is set, if that is in doubt.
func (s *settings) read(ctx context.Context) {
	if !s.doubted.Swap(false) {
		return
	}
	all, err := s.Settings(ctx, s.contact.config.Upstream)
	if err != nil {
		s.doubted.Store(true)
		return
	}
	s.contact.config.InForce.Read(all)
}

// known returns the epoch of the store's data, as far as this process knows; zero for none.
func (s *settings) known() store.Epoch {
	if last := s.epoch.Load(); last != nil {
		return *last
	}
	return store.Epoch{}
}

// isKnown reports whether an epoch is one that this process knows, and no data was lost since. It applies one that began on purpose.
func (s *settings) isKnown(ctx context.Context, epoch store.Epoch) (bool, error) {
	if before := s.known(); epoch.Began != before.Began || epoch.Resets <= before.Resets {
		return epoch.Began == before.Began, nil
	}
	s.turning <- struct{}{}
	return s.heed(ctx, epoch)
}

// heed is isKnown for a caller that has filled turning, which heed empties. Without an answer, this process stays in the epoch before. Calls
// that wait receive it, too: news of it may be lost.
func (s *settings) heed(ctx context.Context, epoch store.Epoch) (bool, error) {
	defer s.report() // when the next one may turn
	defer func() { <-s.turning }()
	before := s.known()
	if epoch.Began != before.Began || epoch.Resets != store.AnyResets && epoch.Resets <= before.Resets { // another operation has met it, too
		return epoch.Began == before.Began, nil
	}
	all, err := s.Settings(ctx, s.contact.config.Upstream)
	if err != nil && (errors.Is(err, store.ErrUnreachable) || ctx.Err() != nil) {
		return false, err
	}
	var resets []store.Reset
	if all != nil {
		resets = all.Resets
	}
	now, _ := s.contact.lastSeen()
	epoch, news := s.ledger.Heed(resets, before, epoch, now)
	s.epoch.Store(&epoch)
	s.mu.Lock()
	if epoch.Resets > before.Resets {
		s.changed[0], s.changed[1] = s.changed[1], time.Now()
	}
	s.resumed = append(s.resumed, news...)
	s.mu.Unlock()
	if all != nil {
		s.contact.config.InForce.Read(all) // before the operation that met it goes on
	} else {
		s.doubt()
	}
	return true, nil
}

// whileHeeding runs an operation, whatever was reset or set since, while the process applies an epoch. The operation calls await.
func (s *settings) whileHeeding(ctx context.Context, epoch store.Epoch, do func()) {
	s.heeded.Add(1)
	defer s.heeded.Add(-1)
	var heeding sync.WaitGroup
	defer heeding.Wait()
	select {
	case s.turning <- struct{}{}:
		heeding.Go(func() { _, _ = s.heed(ctx, epoch) })
	default: // another operation applies it, or the next one will
	}
	do()
}

// await waits until no epoch is being applied: the process forgets what was reset before it remembers anything.
func (s *settings) await() {
	s.turning <- struct{}{}
	<-s.turning
}

// often: two epochs that begin within it make a process expect a third.
const often = time.Second

// isChanging reports whether epochs begin so often that the store would refuse most requests that name the last one.
func (s *settings) isChanging() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed[1].Sub(s.changed[0]) < often && time.Since(s.changed[1]) < often
}

// report passes resets on to the calls that wait, if the shared store decides about them.
func (s *settings) report() {
	if !s.contact.is(shared) {
		return
	}
	s.mu.Lock()
	all := s.resumed
	s.resumed = nil
	s.mu.Unlock()
	if len(all) > 0 {
		s.contact.config.Owner.Resumed(all)
	}
}

const (
	// looksAgain is after how many descriptions a process reads the others' policies again, even if there are as many versions.
	looksAgain = 16
	// maxTexts bounds the different policies in which it looks for fair shares: anyone who can write to the store can name any number.
	maxTexts = 1 << 12
)

// findFair finds the policies that some process shares fairly, if processes have different ones: during a roll-out, this one may not.
func (s *settings) findFair(ctx context.Context, registry store.Registry, versions int) {
	if s.looks++; versions == s.versions && (versions <= 1 || s.looks < looksAgain) {
		return
	}
	var names []string
	if versions > 1 {
		index, err := registry.Index(ctx, s.contact.config.Upstream)
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
				if p, err := policies.Parse(text); err == nil && p.FairBy() != "" {
					names = append(names, p.Name())
				}
			}
		}
		slices.Sort(names)
	}
	s.versions, s.looks = versions, 0
	s.contact.config.InForce.SetFair(slices.Compact(names))
}

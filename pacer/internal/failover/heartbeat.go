package failover

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/pacer/internal/charges"
	"github.com/headway-go/headway/pacer/internal/link"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// heartbeats are what this process reports of itself, and what it learns by the answers.
type heartbeats struct {
	contact  *contact
	settings *settings
	ledger   *charges.Ledger
	id       string

	contradicted atomic.Bool // the store has shown that it lost something, or may have, and was not reminded of it yet

	mu       sync.Mutex
	unscoped []store.Limit // of policies without a scope
	keep     time.Duration // for how long an account of the upstream can matter
}

func newHeartbeats(c *contact, s *settings) *heartbeats {
	h := &heartbeats{contact: c, settings: s, ledger: s.ledger, id: strconv.FormatUint(rand.Uint64(), 36)}
	h.SetPolicies(c.config.Policies)
	return h
}

// SetPolicies sets the policies of all limits, those of lanes included, from now on.
func (h *heartbeats) SetPolicies(all []policies.Policy) {
	var unscoped []store.Limit
	keep := time.Duration(0)
	for _, p := range all {
		s := p.Spec()
		if len(p.Scopes()) == 0 && len(unscoped) < readings.MaxLimits-maxCurious {
			unscoped = append(unscoped, store.Limit{Policy: p.Name(), Spec: s})
		}
		keep = max(keep, time.Duration((s.Buckets+2)*s.Interval+max(0, s.Tolerance())+s.Within)*time.Microsecond)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unscoped = unscoped
	h.keep = max(h.keep, min(keep, specs.MaxPeriod)+2*time.Hour) // accounts of those before matter as long
}

// maxCurious bounds the scoped limits that one heartbeat reads. The rest take turns.
const maxCurious = 16

// lasting returns for how long an account can matter, and the limits without a scope.
func (h *heartbeats) lasting() (time.Duration, []store.Limit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.keep, h.unscoped
}

// send sends a heartbeat, which reads what limits hold: those without a scope, and some that this process used lately.
func (h *heartbeats) send(ctx context.Context, barrier time.Duration) (store.Membership, error) {
	c, lives := h.contact, h.contact.schedule().TTL
	soonest := c.Now().Add(lives - time.Second) // until when it holds if its answer is lost
	last := c.change(func(s *standing) { s.until = min(s.until, soonest) })
	b := store.Heartbeat{TTL: lives, Barrier: barrier, Until: last.until, Began: h.settings.known().Began}
	if _, unscoped := h.lasting(); c.config.Mode == Local {
		b.Limits = append(h.ledger.Used(int64(c.Now().Add(-time.Minute)), maxCurious), unscoped...)
	}
	sent, running := time.Now(), c.config.Owner.Permits()
	p, err := h.request(ctx, &b)
	if err != nil {
		return p, err
	}
	c.change(func(s *standing) { s.answered(sent, &p, lives) })
	known := h.settings.known()
	if !known.IsZero() && b.Until <= p.Now && c.is(local) { // it cannot find out by itself that it has lost something
		h.contradicted.Store(true)
	}
	if len(p.Holds) == len(b.Limits) && (known.IsZero() || known.Began == p.Epoch.Began) && !h.contradicted.Load() { // it has not forgotten
		h.ledger.Learned(b.Limits, p.Holds, running, p.Now)
	}
	return p, nil
}

// leave reports that the process leaves.
func (h *heartbeats) leave(ctx context.Context) {
	_, _ = h.request(ctx, &store.Heartbeat{})
	h.describe(ctx, true)
}

func (h *heartbeats) request(ctx context.Context, b *store.Heartbeat) (store.Membership, error) {
	b.ID = h.id
	b.Keep, _ = h.lasting()
	b.Now, _ = h.contact.lastSeen()
	p, err := link.Ask(ctx, h.contact.link, link.Request{Name: "heartbeat"}, func(ctx context.Context, s store.Shared) (store.Membership, error) {
		return s.Heartbeat(ctx, h.contact.config.Upstream, *b)
	})
	if err == nil {
		h.contact.observe(p.Now)
	}
	return p, err
}

// describe describes this process to a store that is a Registry.
func (h *heartbeats) describe(ctx context.Context, left bool) {
	c := h.contact
	registry := c.link.Registry()
	if registry == nil {
		return
	}
	about, received := c.config.Owner.About(c.Now(), left)
	about.ID, about.Every = h.id, c.schedule().Describe
	about.Keep, _ = h.lasting()
	versions, err := registry.Describe(ctx, c.config.Upstream, about)
	if err != nil {
		return
	}
	if received(versions); !left {
		h.settings.findFair(ctx, registry, versions)
	}
}

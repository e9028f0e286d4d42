package failover

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// errAtBarrier is why a process is local that joined while the others were about to return to the store.
var errAtBarrier = errors.New("pacer: the processes of the fleet are just coming back to the store")

// errResting is why no request goes to a store that has just failed.
var errResting = fmt.Errorf("%w: it failed before, and is tried again soon", store.ErrUnreachable)

// Intervals and bounds.
const (
	// checkEvery is how often a process checks whether it has something to report, and the longest time without an answer of the store while
	// calls wait.
	checkEvery = 125 * time.Millisecond
	// heartbeatEvery is how often a process of a small fleet sends a heartbeat, at first sooner, and heartbeatTTL for how long one
	// counts: see Schedule.
	firstHeartbeat = heartbeatEvery / 16
	heartbeatEvery = 3 * time.Second
	heartbeatTTL   = 10 * time.Second
	// probeEvery is how long after a failure a store is tried again, by one request at a time; the longer it is lost, the more rarely, but
	// at least every longestProbe.
	probeEvery   = 100 * time.Millisecond
	longestProbe = time.Second
	// maxBarrier bounds for how long a process waits for the others.
	maxBarrier = 10 * time.Second
	// maxProbes bounds how many requests may be without an answer while a store is tried again, if its client does not give
	// up by itself.
	maxProbes = 8
	// MaxProcesses bounds the number of processes that this one believes.
	MaxProcesses = 10_000
)

// A Store is a [store.Member] on top of a [store.Shared].
type Store struct {
	store  store.Shared
	id     string
	config Config
	keep   time.Duration

	unscoped []store.Limit // of policies without a scope
	breaker  breaker

	contact     contact
	budget      atomic.Int64 // for how long a request may take before the first contact, as a time.Duration
	ledger      ledger
	local       localStore
	once        operations
	punctual    bool // the store's operations end when their contexts do
	cancels     batch.Cancels
	redemptions batch.Redemptions
	changes     batch.Changes

	state    atomic.Int32 // a state
	epoch    atomic.Pointer[store.Epoch]
	lastSeen atomic.Int64 // the latest store time that it returned
	furthest atomic.Int64 // the latest slot that the store granted
	absences atomic.Int64
	away     atomic.Pointer[absence] // the present time without the store; nil for none
	failure  atomic.Pointer[error]   // why the state is local
	doubted  atomic.Bool             // what operators have set may have changed

	contradicted atomic.Bool   // the store has shown that it lost something, or may have, and was not reminded of it yet
	pending      atomic.Int32  // operations without an answer
	heeded       atomic.Int32  // reservations that are made again, because of a reset
	turning      chan struct{} // filled while the process heeds a reset: one after the other
	kick         chan struct{}
	checks       chan struct{} // requests to check whether the store is what it was
	closing      chan struct{}
	line         chan struct{} // filled by operations of callers that are under way
	finished     chan struct{}
	last         atomic.Pointer[time.Time] // while leaving: until when what is owed may still be paid

	mu         sync.Mutex
	gone       chan struct{}  // closed when the store is lost: nobody waits any longer for what is under way
	leaving    bool           // no goroutine may begin
	closed     bool           // no operation may begin
	running    sync.WaitGroup // operations begun
	lastSeenAt time.Time
	standing   standing

	resyncing chan struct{} // filled while the process returns to the store
	barrier   atomic.Int64  // while resyncing: when this process stops deciding by itself, as a store.Instant; 0 otherwise

	listener atomic.Pointer[func(store.News)] // receives that the process is back

	versions, looks int // of run alone: how many different policies there are, and descriptions since it saw that

	changed   time.Time      // under mu: when it met an epoch that began on purpose
	changing  bool           // under mu: and another one just before
	lostSince time.Time      // under mu: when it lost the store
	resumed   []store.Change // under mu: what was reset, until calls that wait heed it
}

// A state is who decides.
type state = int32

const (
	unknown state = iota // before the first contact
	shared               // the store decides
	local                // this process decides for itself
)

// New returns a member on top of a shared store. It begins to work with its first operation.
func New(backing store.Shared, c *Config) *Store {
	w := &Store{
		store:     backing,
		config:    *c,
		id:        strconv.FormatUint(rand.Uint64(), 36),
		turning:   make(chan struct{}, 1),
		resyncing: make(chan struct{}, 1),
		kick:      make(chan struct{}, 1),
		checks:    make(chan struct{}, 1),
		closing:   make(chan struct{}),
		line:      make(chan struct{}, maxAtOnce),
	}
	p, knows := backing.(store.Punctual)
	w.punctual, w.gone, w.cancels = knows && p.Punctual(), make(chan struct{}), batch.NewCancels(w.sendCancels)
	w.redemptions, w.changes = batch.NewRedemptions(w.sendRedemptions), batch.NewChanges(w.sendChanges)
	w.once.by, w.once.open = w.id, make(map[int64]struct{})
	w.local.waits = w.isReturningAt
	w.local.policy = c.InForce.PolicyOf
	w.SetPolicies(c.Policies)
	w.local.permits, w.local.firstID, w.local.reserved = c.Owner.Permits, newID(), make(map[store.Key]int64)
	w.absences.Store(1)
	w.local.store = memstore.New(memstore.WithClock(w.Now))
	return w
}

// SetPolicies sets the policies of all limits, those of lanes included, from now on.
func (w *Store) SetPolicies(all []policies.Policy) {
	var unscoped []store.Limit
	keep := time.Duration(0)
	for _, p := range all {
		s := p.Spec()
		if len(p.Scopes()) == 0 && len(unscoped) < readings.MaxLimits-maxCurious {
			unscoped = append(unscoped, store.Limit{Policy: p.Name(), Spec: s})
		}
		keep = max(keep, time.Duration((s.Buckets+2)*s.Interval+max(0, s.Tolerance())+s.Within)*time.Microsecond)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unscoped = unscoped
	w.keep = max(w.keep, min(keep, specs.MaxPeriod)+2*time.Hour) // accounts of those before matter as long
}

// remembered returns for how long an account of the upstream can matter.
func (w *Store) remembered() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.keep
}

// Now implements [store.Member]: the last store time that was returned, and what has passed since.
func (w *Store) Now() store.Instant {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lastSeenAt.IsZero() {
		return store.Instant(time.Now().UnixMicro())
	}
	return store.Instant(w.lastSeen.Load() + time.Since(w.lastSeenAt).Microseconds())
}

// observe notes what the store's time is.
func (w *Store) observe(now store.Instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if int64(now) > w.lastSeen.Load() {
		w.lastSeen.Store(int64(now))
		w.lastSeenAt = time.Now()
	}
}

// ensureJoined reports whether the shared store decides. The first call joins the fleet, and those that come meanwhile wait for that. While
// there is no contact, it returns an error at once that matches store.ErrNoContact.
func (w *Store) ensureJoined(ctx context.Context) (bool, error) {
	if s := w.state.Load(); s != unknown {
		return s == shared, nil
	}
	a, _, err := w.beginContact(ctx)
	if err != nil {
		return false, err
	}
	if a.first {
		select {
		case <-a.done:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	switch s := w.state.Load(); {
	case s != unknown:
		return s == shared, nil
	case w.isClosing():
		return false, store.ErrClosed
	case a.isOver() && w.deniedBy(a):
		return false, a.err
	}
	return false, w.noContact(nil)
}

// Close implements [store.Member]: it leaves the fleet, and waits for what is under way. From then on, grants are all that it gives back.
func (w *Store) Close() {
	w.mu.Lock()
	already, running := w.leaving, w.finished
	w.leaving = true
	w.mu.Unlock()
	if already {
		return
	}
	close(w.closing)
	if running != nil {
		<-running
	}
	w.cancels.Wait()
	if running != nil {
		w.payLast(context.Background())
	}
	if w.state.Load() == shared {
		_, _ = w.heartbeat(context.Background(), true, 0)
		w.describe(context.Background(), true)
	}
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.running.Wait()
	w.redemptions.Wait()
	w.changes.Wait()
	w.cancels.Wait() // what was granted meanwhile to callers that have gone
}

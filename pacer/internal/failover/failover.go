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

	"github.com/sony/gobreaker/v2"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// errGathering is why a process is alone that came when the others were just coming back.
var errGathering = errors.New("pacer: the processes of the fleet are just coming back to the store")

// errResting is why a store is not asked that has just failed.
var errResting = fmt.Errorf("%w: it failed before, and is tried again soon", store.ErrUnreachable)

// The watch over a store.
const (
	// lookEvery is how often a process looks whether it has something to say to the store, and for how long it does without
	// hearing of it while calls wait.
	lookEvery = 125 * time.Millisecond
	// beatEvery is how often a process of a small fleet says that it is there, at first sooner, and beatLives for how long that
	// holds: see pulses.
	firstBeat = beatEvery / 16
	beatEvery = 3 * time.Second
	beatLives = 10 * time.Second
	// probeEvery is how long after a failure a store is tried again, by one request at a time.
	probeEvery = 100 * time.Millisecond
	// firstContact is how many times StoreTimeout the very first operation may take: it has to connect, and who does not know
	// the fleet does not know its share.
	firstContact = 4
	// maxGather bounds for how long a process waits for the others.
	maxGather = 10 * time.Second
	// maxProbes bounds how many requests may be without an answer while a store is tried again, if its client does not give
	// up by itself.
	maxProbes = 8
	// maxProcesses bounds what is believed of the number of processes.
	MaxProcesses = 10_000
)

// watched is a Shared with somebody who watches over it: it answers within a bound of time, whatever becomes of the
// store.
//
// It is together with the fleet, and asks the store, or alone. Every failure makes it alone at once. One goroutine, which
// runs from the first call until close, says that the process is there while it is together, and tries to come back while
// it is alone. Coming back means: tell the store what it knew, in case that it forgot; what was spent alone; and what could
// not be said meanwhile.
type Store struct {
	store    store.Shared
	upstream string
	id       string
	mode     Mode
	config   Config
	timeout  time.Duration
	keep     time.Duration
	breaker  *gobreaker.TwoStepCircuitBreaker[struct{}]

	known   recall
	local   localStore
	batch   *batch.Reservations
	cancels *batch.Cancels

	state    atomic.Int32 // a standing
	era      atomic.Int64
	told     atomic.Int64 // the latest store time that the store told
	latest   atomic.Int64 // the latest slot that the store granted
	absences atomic.Int64
	lost     atomic.Int64          // the store time when it was last asked in vain
	failure  atomic.Pointer[error] // why it is alone
	waiting  atomic.Int32          // operations without an answer
	kick     chan struct{}
	looks    chan struct{} // something says that the store may not be what it was
	closing  chan struct{}
	finished chan struct{}

	mu        sync.Mutex
	leaving   bool           // no more goroutine is begun
	closed    bool           // no more operation is begun
	asking    sync.WaitGroup // operations begun
	toldAt    time.Time
	processes int
	rank      int
	counted   time.Time // when so many processes were there

	joining sync.Mutex
	gather  store.Instant // of a process that is coming back: when it decides no more by itself; 0 if it is not

	heard atomic.Pointer[func(store.News)] // whom to tell that the process is back

	fell time.Time // under mu: when it lost the store
}

// A standing is how a process stands to its fleet.
type standing = int32

const (
	unknown  standing = iota // before the first call
	together                 // the store decides
	apart                    // this process decides for itself
)

func New(backing store.Shared, c *Config) *Store {
	w := &Store{
		store:     backing,
		config:    *c,
		upstream:  c.Upstream,
		id:        strconv.FormatUint(rand.Uint64(), 36),
		mode:      c.Mode,
		timeout:   c.Timeout,
		processes: max(1, c.Processes),
		kick:      make(chan struct{}, 1),
		looks:     make(chan struct{}, 1),
		closing:   make(chan struct{}),
	}
	punctual := false
	if p, ok := backing.(interface{ Punctual() bool }); ok {
		punctual = p.Punctual()
	}
	w.batch, w.cancels = batch.New(w, w.timeout, punctual), batch.NewCancels(w.cancelTogether)
	w.local.policies = make(map[string]policies.Policy)
	for _, p := range c.Policies {
		w.local.policies[p.Name()] = p
		s := p.Spec()
		w.keep = max(w.keep, time.Duration((s.Buckets+2)*s.Interval+max(0, s.Tolerance())+s.Within)*time.Microsecond)
	}
	w.keep = min(w.keep, policies.MaxPeriod) + 2*time.Hour
	w.local.leases = c.Permits
	w.absences.Store(1)
	w.local.store = memstore.New(memstore.WithClock(w.Now))
	w.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        "headway " + c.Upstream,
		Timeout:     probeEvery,
		ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures > 0 },
	})
	return w
}

// Now estimates store time: the last that was told, and what has passed since.
func (w *Store) Now() store.Instant {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.toldAt.IsZero() {
		return store.Instant(time.Now().UnixMicro())
	}
	return store.Instant(w.told.Load() + time.Since(w.toldAt).Microseconds())
}

// heardNow notes what the store's time is.
func (w *Store) heardNow(now store.Instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if int64(now) > w.told.Load() {
		w.told.Store(int64(now))
		w.toldAt = time.Now()
	}
}

// pulses is how often a process speaks to the store beside its calls. The more processes there are, the less often: all of
// them together send some fifty beats, as many pings, and a hundred descriptions a second at most, whatever their number, up to
// five thousand.
type Pulses struct {
	Beat     time.Duration // between two beats, more or less
	TTL      time.Duration // for how long a beat holds
	Describe time.Duration // between two descriptions, at most
	Look     time.Duration // without hearing of the store, while calls wait, at least
	Spread   time.Duration // within which all look, when something says to all of them that they should
}

// pulsesOf returns that for a fleet of n processes.
func PulsesOf(n int) Pulses {
	all := time.Duration(n) * time.Second
	beat := max(beatEvery, all/40)
	return Pulses{
		Beat:     beat,
		TTL:      max(beatLives, beat*10/3),
		Describe: min(max(beatEvery, all/80), longestDescribe),
		Look:     max(lookEvery, all/20),
		Spread:   all / 10_000,
	}
}

// longestDescribe is how often the processes of the largest fleets say what went: before a tally forgets it.
const longestDescribe = time.Minute

func (w *Store) pulses() Pulses {
	n, _ := w.fleet()
	return PulsesOf(n)
}

// Check implements [store.Member]: the process asks the store whether it is what it was. When all do so at once, they take a little while.
func (w *Store) Check() {
	select {
	case w.looks <- struct{}{}:
	default:
	}
}

// fleet returns how many processes there are, and how many came before this one.
func (w *Store) fleet() (n, rank int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.processes, w.rank
}

// count notes how many processes are there. A store that has just forgotten knows fewer than there are, for as long as a
// beat holds.
func (w *Store) count(alive, rank int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	alive = min(max(1, alive), MaxProcesses)
	if alive >= w.processes || !w.counted.IsZero() && time.Since(w.counted) > PulsesOf(w.processes).TTL || w.era.Load() == 0 {
		w.processes, w.rank, w.counted = alive, min(max(0, rank), alive-1), time.Now()
	}
}

// asks reports whether the store is to be asked. The first call joins the fleet.
func (w *Store) asks(ctx context.Context) (bool, error) {
	if s := w.state.Load(); s != unknown {
		return s == together, nil
	}
	w.joining.Lock()
	defer w.joining.Unlock()
	if s := w.state.Load(); s != unknown {
		return s == together, nil
	}
	began := w.Now()
	wait, err := w.join(ctx)
	if err != nil && w.store.Fault(err) != store.Unreachable {
		return false, err // a mistake in the configuration: it has never worked
	}
	w.mu.Lock()
	leaving := w.leaving
	if !leaving {
		w.finished = make(chan struct{}) // from here on, close waits for run
	}
	w.mu.Unlock()
	if leaving {
		return false, store.ErrClosed
	}
	if err == nil && wait > 0 {
		err = errGathering
	}
	if err != nil {
		w.part(err, began)
	}
	go w.run() //nolint:gosec,contextcheck // it runs until the Pacer is closed, for all calls
	return err == nil, nil
}

// reach runs an operation of the store, unless it has just failed: it returns an ErrUnreachable then, and if the store
// does not answer in time.
func (w *Store) reach(ctx context.Context, name string, op func(context.Context) error) error {
	done, err := w.breaker.Allow()
	if err != nil {
		return errResting
	}
	err = w.within(ctx, name, op)
	if w.isFailure(err) {
		done(err)
		return unreachable(err)
	}
	done(nil)
	return err
}

// isFailure reports whether an operation's error says that the store cannot be asked.
func (w *Store) isFailure(err error) bool {
	switch {
	case err == nil, forgot(err) != nil, errors.Is(err, store.ErrClosed):
		return false
	case errors.Is(err, store.ErrUnreachable):
		return true
	}
	fault := w.store.Fault(err)
	return fault != store.Unfit && (fault != store.Denied || w.state.Load() != unknown)
}

func unreachable(err error) error {
	if errors.Is(err, store.ErrUnreachable) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnreachable, err)
}

// overdue is the error of an operation that nobody waits for any longer.
func (w *Store) overdue() error {
	return fmt.Errorf("%w: no answer within %v, or another operation failed meanwhile", store.ErrUnreachable, w.timeout)
}

// within waits for an operation for as long as the store may take, whatever its client's own timeouts and retries are.
func (w *Store) within(ctx context.Context, name string, op func(context.Context) error) (err error) {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return store.ErrClosed
	}
	w.asking.Add(1)
	w.waiting.Add(1)
	gone := w.batch.Gone()
	w.mu.Unlock()
	timeout, began := w.timeout, time.Now()
	if w.state.Load() == unknown {
		timeout *= firstContact
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	answer := make(chan error, 1)
	go func() {
		defer w.asking.Done()
		defer w.waiting.Add(-1)
		defer cancel()
		answer <- op(ctx)
	}()
	defer func() { w.asked(name, 0, began, err) }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
	case <-gone:
	}
	select {
	case err := <-answer:
		return err
	default:
		return w.overdue()
	}
}

// part makes the process pace alone, because of an error of an operation that began at an instant.
func (w *Store) part(err error, began store.Instant) {
	w.failed(err)
	w.lost.CompareAndSwap(0, int64(began))
	was := w.state.Swap(apart)
	if was == together {
		w.batch.Restart()
	}
	if was != apart {
		w.fallsBack(err)
	}
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// failed remembers why the store cannot be asked.
func (w *Store) failed(err error) {
	if !errors.Is(err, errResting) {
		w.failure.Store(&err)
	}
}

// forgot returns what an error says of a store that has forgotten; nil if it says something else.
func forgot(err error) *store.ForgotError {
	f, _ := errors.AsType[*store.ForgotError](err)
	return f
}

// wasReset reports whether an operation met an era that began by a deliberate reset, and is to be done again. What is
// remembered must not bring back what was reset.
func (w *Store) wasReset(era int64) bool {
	if before := w.era.Load(); store.Incarnation(era) != store.Incarnation(before) {
		return false
	} else if era != before {
		w.known.clear()
		w.era.Store(era)
	}
	return true
}

// parted reports whether the answer to an operation means that the process is alone, and makes it so.
func (w *Store) parted(err error, began store.Instant) bool {
	if !errors.Is(err, store.ErrUnreachable) && forgot(err) == nil {
		return false
	}
	w.part(err, began)
	return true
}

// absence describes how the process is alone.
func (w *Store) absence() absence {
	w.mu.Lock()
	defer w.mu.Unlock()
	return absence{number: int(w.absences.Load()), processes: w.processes, rank: w.rank, since: store.Instant(w.lost.Load())}
}

// refused returns the error of a process that does not pace alone.
func (w *Store) refused() error {
	err := store.ErrUnreachable
	if p := w.failure.Load(); p != nil && errors.Is(*p, store.ErrUnreachable) {
		err = *p
	}
	return err
}

// Close implements [store.Member]: it leaves the fleet, and waits for what is under way.
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
	w.cancels.Close()
	if w.state.Load() == together {
		_, _ = w.pulse(context.Background(), true, 0)
		w.describe(context.Background(), true)
	}
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.asking.Wait()
	w.batch.Close()
}

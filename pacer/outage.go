package pacer

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

	"github.com/headway-go/headway/policies"
)

// An Outage says what becomes of calls while a [SharedStore] is out of reach.
type Outage uint8

// What becomes of calls.
const (
	// PaceAlone paces each process from memory, at its share of every limit: the limit divided by the number of processes
	// that were alive when the store was last heard. When it is back, it is told what was spent meanwhile.
	PaceAlone Outage = iota
	// RefuseCalls refuses calls with a [*StoreError] that matches [ErrUnreachable].
	RefuseCalls
	// LetThrough lets every call go at once. Nothing of that is counted afterwards.
	LetThrough
)

// ErrUnreachable matches the [*StoreError] of a store that did not answer within [Config].StoreTimeout, or that is not
// asked because it did not answer before.
var ErrUnreachable = errors.New("pacer: the store is out of reach")

// errGathering is why a process is alone that came when the others were just coming back.
var errGathering = errors.New("pacer: the processes of the fleet are just coming back to the store")

// The watch over a store.
const (
	// lookEvery is how often a process looks whether it has something to say to the store, and for how long it does without
	// hearing of it while calls wait.
	lookEvery = 125 * time.Millisecond
	// beatEvery is how often a process says that it is there, at first sooner, and beatLives for how long that holds.
	firstBeat = beatEvery / 16
	beatEvery = 3 * time.Second
	beatLives = 10 * time.Second
	// probeEvery is how long after a failure a store is tried again, by one request at a time.
	probeEvery = 100 * time.Millisecond
	// maxProcesses bounds what is believed of the number of processes.
	maxProcesses = 10_000
)

// watched is a SharedStore with somebody who watches over it: it answers within a bound of time, whatever becomes of the
// store.
//
// It is together with the fleet, and asks the store, or alone. Every failure makes it alone at once. One goroutine, which
// runs from the first call until close, says that the process is there while it is together, and tries to come back while
// it is alone. Coming back means: tell the store what it knew, in case that it forgot; what was spent alone; and what could
// not be said meanwhile.
type watched struct {
	store    SharedStore
	upstream string
	id       string
	outage   Outage
	timeout  time.Duration
	keep     time.Duration
	breaker  *gobreaker.TwoStepCircuitBreaker[struct{}]

	known recall
	alone alone

	state    atomic.Int32 // a standing
	era      atomic.Int64
	told     atomic.Int64 // the latest store time that the store told
	latest   atomic.Int64 // the latest slot that the store granted
	absences atomic.Int64
	lost     atomic.Int64          // the store time when it was last asked in vain
	failure  atomic.Pointer[error] // why it is alone
	kick     chan struct{}
	closing  chan struct{}
	finished chan struct{}

	mu        sync.Mutex
	leaving   bool // no more goroutine is begun
	closed    bool // no more operation is begun
	asking    sync.WaitGroup
	toldAt    time.Time
	processes int
	rank      int
	gone      chan struct{} // closed when the process is apart: whoever still waits for the store need not
	counted   time.Time     // when so many processes were there

	joining sync.Mutex
	gather  Instant // of a process that is coming back: when it decides no more by itself; 0 if it is not

	heard atomic.Pointer[func(News)] // whom to tell that the process is back
}

// A standing is how a process stands to its fleet.
type standing = int32

const (
	unknown  standing = iota // before the first call
	together                 // the store decides
	apart                    // this process decides for itself
)

func newWatched(store SharedStore, c *Config, timeout time.Duration) *watched {
	w := &watched{
		store:     store,
		upstream:  c.Upstream,
		id:        strconv.FormatUint(rand.Uint64(), 36), //nolint:gosec // it only has to differ from the others
		outage:    c.Outage,
		timeout:   timeout,
		processes: max(1, c.Processes),
		kick:      make(chan struct{}, 1),
		closing:   make(chan struct{}),
		gone:      make(chan struct{}),
	}
	w.alone.policies = make(map[string]policies.Policy)
	for _, p := range c.Policies {
		w.alone.policies[p.Name()] = p
		s := p.Spec()
		w.keep = max(w.keep, time.Duration((s.Buckets+2)*s.Interval+max(0, s.Tolerance()))*time.Microsecond)
	}
	w.keep = min(w.keep, policies.MaxPeriod) + 2*time.Hour
	w.absences.Store(1)
	w.alone.store = NewMemoryStore(MemoryClock(w.now))
	w.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        "headway " + c.Upstream,
		Timeout:     probeEvery,
		ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures > 0 },
	})
	return w
}

// now estimates store time: the last that was told, and what has passed since.
func (w *watched) now() Instant {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.toldAt.IsZero() {
		return Instant(time.Now().UnixMicro())
	}
	return Instant(w.told.Load() + time.Since(w.toldAt).Microseconds())
}

// heardNow notes what the store's time is.
func (w *watched) heardNow(now Instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if int64(now) > w.told.Load() {
		w.told.Store(int64(now))
		w.toldAt = time.Now()
	}
}

// fleet returns how many processes there are.
func (w *watched) fleet() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.processes
}

// count notes how many processes are there. A store that has just forgotten knows fewer than there are, for as long as a
// beat holds.
func (w *watched) count(alive, rank int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	alive = min(max(1, alive), maxProcesses)
	if alive >= w.processes || !w.counted.IsZero() && time.Since(w.counted) > beatLives || w.era.Load() == 0 {
		w.processes, w.rank, w.counted = alive, min(max(0, rank), alive-1), time.Now()
	}
}

// asks reports whether the store is to be asked. The first call joins the fleet.
func (w *watched) asks(ctx context.Context) (bool, error) {
	if s := w.state.Load(); s != unknown {
		return s == together, nil
	}
	w.joining.Lock()
	defer w.joining.Unlock()
	if s := w.state.Load(); s != unknown {
		return s == together, nil
	}
	began := w.now()
	wait, err := w.join(ctx)
	if err != nil && w.store.Fault(err) != Unreachable {
		return false, err // a mistake in the configuration: it has never worked
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leaving {
		return false, ErrClosed
	}
	w.finished = make(chan struct{})
	if err == nil && wait > 0 {
		err = errGathering
	}
	if err != nil {
		w.part(err, began)
	}
	go w.run()
	return err == nil, nil
}

// reach runs an operation of the store, unless it has just failed: it returns an ErrUnreachable then, and if the store
// does not answer in time. If the operation succeeds after all, later than that, undo is called.
func (w *watched) reach(ctx context.Context, op func(context.Context) error, undo func(context.Context)) error {
	done, err := w.breaker.Allow()
	if err != nil {
		return fmt.Errorf("%w: it failed before, and is tried again soon", ErrUnreachable)
	}
	err = w.within(ctx, op, undo)
	switch {
	case err == nil, forgot(err) != nil:
		done(nil)
	case errors.Is(err, ErrUnreachable):
		done(err)
	case errors.Is(err, ErrClosed), w.store.Fault(err) == Unfit, w.store.Fault(err) == Denied && w.state.Load() == unknown:
		done(nil)
	default:
		done(err)
		err = fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

// within waits for an operation for as long as the store may take, whatever its client's own timeouts and retries are.
func (w *watched) within(ctx context.Context, op func(context.Context) error, undo func(context.Context)) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	w.asking.Add(1)
	gone := w.gone
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.timeout)
	answer := make(chan error, 1)
	var settled atomic.Bool // answered in time, or given up
	go func() {
		defer w.asking.Done()
		defer cancel()
		err := op(ctx)
		if settled.CompareAndSwap(false, true) {
			answer <- err
		} else if err == nil && undo != nil {
			undo(context.WithoutCancel(ctx))
		}
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
	case <-gone:
	}
	if !settled.CompareAndSwap(false, true) {
		return <-answer
	}
	return fmt.Errorf("%w: no answer within %v, or another operation failed meanwhile", ErrUnreachable, w.timeout)
}

// part makes the process pace alone, because of an error of an operation that began at an instant.
func (w *watched) part(err error, began Instant) {
	w.failure.Store(&err)
	w.lost.CompareAndSwap(0, int64(began))
	if w.state.Swap(apart) == together {
		w.mu.Lock()
		close(w.gone)
		w.gone = make(chan struct{})
		w.mu.Unlock()
	}
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// forgot returns what an error says of a store that has forgotten; nil if it says something else.
func forgot(err error) *ForgotError {
	f, _ := errors.AsType[*ForgotError](err)
	return f
}

// wasReset reports whether an operation met an era that began by a deliberate reset, and is to be done again. What is
// remembered must not bring back what was reset.
func (w *watched) wasReset(era int64) bool {
	if before := w.era.Load(); Incarnation(era) != Incarnation(before) {
		return false
	} else if era != before {
		w.known.clear()
		w.era.Store(era)
	}
	return true
}

// parted reports whether the answer to an operation means that the process is alone, and makes it so.
func (w *watched) parted(err error, began Instant) bool {
	if !errors.Is(err, ErrUnreachable) && forgot(err) == nil {
		return false
	}
	w.part(err, began)
	return true
}

// absence describes how the process is alone.
func (w *watched) absence() absence {
	w.mu.Lock()
	defer w.mu.Unlock()
	return absence{number: int(w.absences.Load()), processes: w.processes, rank: w.rank, since: Instant(w.lost.Load())}
}

// refused returns the error of a process that does not pace alone.
func (w *watched) refused() error {
	err := error(ErrUnreachable)
	if p := w.failure.Load(); p != nil && errors.Is(*p, ErrUnreachable) {
		err = *p
	}
	return err
}

// run says that the process is there, and tries to come back when it is alone.
func (w *watched) run() {
	defer close(w.finished)
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	pause, last := firstBeat, time.Now()
	for {
		select {
		case <-w.closing:
			return
		case <-w.kick:
		case <-timer.C:
		}
		ctx, next := context.Background(), lookEvery
		if w.state.Load() == together && (time.Since(last) >= pause || w.uneasy()) {
			// Those who came at the same time as this process are soon known: it beats sooner at first.
			pause, last = min(2*pause, beatEvery), time.Now()
			began := w.now()
			w.parted(w.beat(ctx), began)
		}
		if w.state.Load() == apart {
			wait, err := w.rejoin(ctx)
			switch {
			case err != nil:
				next = probeEvery
			case wait > 0:
				next = wait
			default:
				pause = firstBeat
			}
		}
		timer.Reset(next)
	}
}

// uneasy reports whether calls wait for slots that the store granted while nothing has been heard of it for a while. A
// process that loses the store must know when that was: until then others have got slots that it does not know of.
func (w *watched) uneasy() bool {
	w.mu.Lock()
	silence := time.Since(w.toldAt)
	w.mu.Unlock()
	return silence >= lookEvery && w.latest.Load() > int64(w.now())
}

// beat says that the process is there, and what it has not said yet. It returns a ForgotError if the store is not the one
// that it was.
func (w *watched) beat(ctx context.Context) error {
	p, err := w.pulse(ctx, beatLives, 0)
	if err != nil {
		return err
	}
	if !w.wasReset(p.Era) {
		return &ForgotError{Era: p.Era}
	}
	return w.settle(ctx)
}

func (w *watched) pulse(ctx context.Context, lives, gather time.Duration) (Pulse, error) {
	var p Pulse
	b := Beat{ID: w.id, Lives: lives, Now: Instant(w.told.Load()), Keep: w.keep, Gather: gather}
	answer := make(chan Pulse, 1)
	err := w.reach(ctx, func(ctx context.Context) error {
		p, err := w.store.Beat(ctx, w.upstream, b)
		answer <- p
		return err
	}, nil)
	if err != nil {
		return p, err
	}
	p = <-answer
	w.heardNow(p.Now)
	w.count(p.Alive, p.Rank)
	return p, nil
}

// rejoin comes back to the fleet, or returns for how long the process still has to wait for the others.
func (w *watched) rejoin(ctx context.Context) (time.Duration, error) {
	w.joining.Lock()
	defer w.joining.Unlock()
	if w.state.Load() == together {
		return 0, nil
	}
	wait, err := w.join(ctx)
	if err != nil {
		w.gather = 0
	}
	return wait, err
}

// join tells the store everything that it should know, and makes it the one that decides. The caller holds joining.
//
// Processes that lost the store do not find it again at the same moment. If the first to come back got all of the limits
// while the others still spend their shares, the upstream would see too much. So they agree on a time, go on alone until
// then, and come back together.
func (w *watched) join(ctx context.Context) (wait time.Duration, err error) {
	if w.gather == 0 {
		gather := time.Duration(0)
		if w.state.Load() == apart && w.outage == PaceAlone {
			gather = 2*probeEvery + w.timeout
		}
		p, err := w.pulse(ctx, beatLives, gather)
		if err != nil {
			return 0, err
		}
		w.wasReset(p.Era)
		for _, m := range w.known.messages(p.Now) {
			if err := w.remind(ctx, m); err != nil {
				return 0, err
			}
		}
		w.era.Store(p.Era)
		if w.outage == PaceAlone {
			w.gather = p.Gather
		}
	}
	if wait := w.gather.Sub(w.now()); wait > 0 {
		return wait, nil
	}
	if err := w.settle(ctx); err != nil {
		return 0, err
	}
	w.gather = 0
	w.lost.Store(0)
	w.absences.Add(1) // the next one is another
	w.state.Store(together)
	if heard := w.heard.Load(); heard != nil {
		(*heard)(News{Changes: []Change{{Kind: Rejoined, Now: w.now()}}})
	}
	return 0, w.settle(ctx) // what was spent in the very last moment
}

// settle tells the store what was spent alone.
func (w *watched) settle(ctx context.Context) error {
	b := w.alone.take()
	err := w.pay(ctx, &b)
	if err != nil {
		w.alone.put(b)
	}
	return err
}

// remind tells the store what it knew. A key that holds something else must not keep the others from being told.
func (w *watched) remind(ctx context.Context, m message) error {
	err := w.say(ctx, m.limits, m.notes)
	if err == nil || !w.unfit(err) {
		return err
	}
	for i := range m.limits {
		var notes []Note
		for _, n := range m.notes {
			if n.Limit == i {
				n.Limit = 0
				notes = append(notes, n)
			}
		}
		if err := w.say(ctx, m.limits[i:i+1], notes); err != nil && !w.unfit(err) {
			return err
		}
	}
	return nil
}

// pay tells the store what was spent alone, and what else it was not told. What is paid leaves the bill.
func (w *watched) pay(ctx context.Context, b *bill) error {
	now := w.now()
	for k, t := range b.spent {
		if err := w.say(ctx, []Limit{t.limit}, t.due(int64(now))); err != nil && !w.unfit(err) {
			return err
		}
		delete(b.spent, k)
	}
	for k, p := range b.pauses {
		if d := p.until.Sub(now); d > 0 {
			var limits []Limit
			note := Note{Kind: NotePause, Limit: WholeUpstream, For: d}
			if k != (pauseKey{}) {
				limits, note.Limit = []Limit{p.limit}, 0
			}
			if err := w.say(ctx, limits, []Note{note}); err != nil && !w.unfit(err) {
				return err
			}
		}
		delete(b.pauses, k)
	}
	for len(b.owed) > 0 {
		d := &b.owed[0]
		var err error
		if d.grants != nil {
			err = w.giveBack(ctx, &Stack{Upstream: w.upstream, Limits: d.limits}, d.grants)
		} else {
			err = w.say(ctx, d.limits, d.notes)
		}
		if err != nil && !w.unfit(err) {
			return err
		}
		b.owed = b.owed[1:]
	}
	return nil
}

// unfit reports whether an error is about one stack only, so that saying it again would not help.
func (w *watched) unfit(err error) bool {
	return !errors.Is(err, ErrUnreachable) && w.store.Fault(err) == Unfit
}

// say tells the store notes about some limits.
func (w *watched) say(ctx context.Context, limits []Limit, notes []Note) error {
	if len(notes) == 0 {
		return nil
	}
	stack := Stack{Upstream: w.upstream, Limits: limits}
	return w.reach(ctx, func(ctx context.Context) error {
		_, _, err := w.store.Report(ctx, stack, notes)
		return err
	}, nil)
}

func (w *watched) giveBack(ctx context.Context, stack *Stack, grants []Grant) error {
	err := w.reach(ctx, func(ctx context.Context) error { return w.store.Cancel(ctx, *stack, grants) }, nil)
	if err == nil {
		w.known.cancelled(stack, grants)
	}
	return err
}

// Reserve implements [Store].
func (w *watched) Reserve(ctx context.Context, stack Stack, calls []Call, grants []Grant) error {
	ask, err := w.asks(ctx)
	if err != nil {
		return err
	}
	if began := w.now(); ask {
		err = w.reserve(ctx, stack, calls, grants)
		if f := forgot(err); f != nil && w.wasReset(f.Era) {
			err = w.reserve(ctx, stack, calls, grants)
		}
		if !w.parted(err, began) {
			return err
		}
		// A store that can be reached is told at once what it forgot, unless the process can do without it meanwhile.
		if forgot(err) != nil && w.outage != PaceAlone {
			if _, err := w.rejoin(ctx); err == nil {
				return w.reserve(ctx, stack, calls, grants)
			}
		}
	}
	switch w.outage {
	case PaceAlone:
		return w.alone.reserve(ctx, &w.known, &stack, calls, grants, w.absence())
	case LetThrough:
		now := w.now()
		for i := range grants {
			grants[i] = Grant{OK: true, Now: now, At: now, Binds: BindsNothing, Charges: make([]Charge, len(stack.Limits)), alone: &ticket{}}
		}
		return nil
	case RefuseCalls:
	}
	return w.refused()
}

// reserve asks the store. Grants that come too late are given back.
func (w *watched) reserve(ctx context.Context, stack Stack, calls []Call, grants []Grant) error {
	stack.Era, stack.Told = w.era.Load(), Instant(w.told.Load())
	got := make([]Grant, len(grants)) // the operation may go on after this returns
	for i := range got {
		got[i].Charges = make([]Charge, 0, len(stack.Limits))
	}
	err := w.reach(ctx, func(ctx context.Context) error {
		return w.store.Reserve(ctx, stack, calls, got)
	}, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		for i := range got {
			if got[i].OK {
				_ = w.store.Cancel(ctx, stack, got[i:i+1])
			}
		}
	})
	if err != nil {
		return err
	}
	copy(grants, got)
	w.known.granted(&stack, grants)
	for i := range grants {
		if at := int64(grants[i].At); grants[i].OK && at > w.latest.Load() {
			w.latest.Store(at) // races do not matter: one of the late ones is enough
		}
	}
	if len(grants) > 0 {
		w.heardNow(grants[0].Now)
	}
	return nil
}

// Cancel implements [Store].
func (w *watched) Cancel(ctx context.Context, stack Stack, grants []Grant) error {
	var mine, theirs []Grant
	for i := range grants {
		if grants[i].alone != nil {
			mine = append(mine, grants[i])
		} else {
			theirs = append(theirs, grants[i])
		}
	}
	if len(mine) > 0 && w.outage == PaceAlone {
		notes, err := w.alone.cancel(ctx, &stack, mine)
		if err != nil {
			return err
		}
		w.sayOrOwe(ctx, &stack, notes)
	}
	if len(theirs) == 0 {
		return nil
	}
	if began := w.now(); w.state.Load() == together {
		if err := w.giveBack(ctx, &stack, theirs); !w.parted(err, began) {
			return err
		}
	}
	w.owe(debt{limits: stack.Limits, grants: theirs})
	return nil
}

// sayOrOwe tells the store notes now, or when it is back.
func (w *watched) sayOrOwe(ctx context.Context, stack *Stack, notes []Note) {
	if len(notes) == 0 {
		return
	}
	if began := w.now(); w.state.Load() == together && !w.parted(w.say(ctx, stack.Limits, notes), began) {
		return
	}
	w.owe(debt{limits: stack.Limits, notes: notes})
}

func (w *watched) owe(d debt) {
	w.alone.mu.Lock()
	defer w.alone.mu.Unlock()
	w.alone.owe(d)
}

// Report implements [Store].
func (w *watched) Report(ctx context.Context, stack Stack, notes []Note) (now Instant, changed int, err error) {
	ask, err := w.asks(ctx)
	if err != nil {
		return 0, 0, err
	}
	if began := w.now(); ask {
		if now, changed, err = w.report(ctx, stack, notes); !w.parted(err, began) {
			return now, changed, err
		}
	}
	switch w.outage {
	case PaceAlone:
		return w.alone.report(ctx, &stack, notes, w.fleet())
	case LetThrough:
		return w.now(), 0, nil
	case RefuseCalls:
	}
	return 0, 0, w.refused()
}

func (w *watched) report(ctx context.Context, stack Stack, notes []Note) (Instant, int, error) {
	// A call that was paced alone and is settled with the store: a rate's interval was never the store's.
	kept := make([]Note, 0, len(notes))
	for i := range notes {
		n := &notes[i]
		if n.Kind == NoteSettle && n.alone && n.Actual <= n.Cost && stack.Limits[n.Limit].Spec.Algorithm == policies.GCRA {
			continue
		}
		kept = append(kept, *n)
	}
	type reply struct {
		now     Instant
		changed int
	}
	answer := make(chan reply, 1)
	err := w.reach(ctx, func(ctx context.Context) error {
		now, changed, err := w.store.Report(ctx, stack, kept)
		answer <- reply{now, changed}
		return err
	}, nil)
	if err != nil {
		return 0, 0, err
	}
	r := <-answer
	w.heardNow(r.now)
	w.known.mu.Lock()
	defer w.known.mu.Unlock()
	for i := range kept {
		if n := &kept[i]; n.Kind == NotePause {
			l := &Limit{}
			if n.Limit >= 0 {
				l = &stack.Limits[n.Limit]
			}
			w.known.pause(l, r.now+Instant(n.For.Microseconds()), int64(r.now))
		}
	}
	return r.now, r.changed, nil
}

// Status implements [Store].
func (w *watched) Status(ctx context.Context, stack Stack) (StackStatus, error) {
	ask, err := w.asks(ctx)
	if err != nil {
		return StackStatus{}, err
	}
	if began := w.now(); ask {
		answer := make(chan StackStatus, 1)
		err = w.reach(ctx, func(ctx context.Context) error {
			s, err := w.store.Status(ctx, stack)
			answer <- s
			return err
		}, nil)
		if err == nil {
			return <-answer, nil
		}
		if !w.parted(err, began) {
			return StackStatus{}, err
		}
	}
	if w.outage != PaceAlone {
		return StackStatus{}, w.refused()
	}
	w.alone.mu.Lock()
	defer w.alone.mu.Unlock()
	return w.alone.store.Status(ctx, w.alone.share(&stack, w.fleet()))
}

// Listen implements [Notifier].
func (w *watched) Listen(upstream string, heard func(News)) (stop func()) {
	w.heard.Store(&heard)
	n, ok := w.store.(Notifier)
	if !ok {
		return func() {}
	}
	return n.Listen(upstream, heard)
}

// tells reports whether a change is heard of without being told by whom it comes from.
func (w *watched) tells() bool {
	_, ok := w.store.(Notifier)
	return ok && w.state.Load() == together
}

// close leaves the fleet, and waits for what is under way.
func (w *watched) close() {
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
	if w.state.Load() == together {
		_, _ = w.pulse(context.Background(), 0, 0)
	}
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.asking.Wait()
}

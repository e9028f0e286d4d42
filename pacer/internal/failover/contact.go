package failover

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/pacer/internal/charges"
	"github.com/headway-go/headway/pacer/internal/link"
	"github.com/headway-go/headway/pacer/store"
)

// A state is who decides.
type state = int32

const (
	unknown state = iota // before the first contact
	shared               // the store decides
	local                // this process decides for itself
)

// A contact is whether this process reaches its store, and so who decides.
type contact struct {
	*fleet

	link    *link.Link
	config  *Config
	dropped func() int // slots and notes since its last call
	kick    chan struct{}

	state   atomic.Int32                    // a state
	away    atomic.Pointer[charges.Absence] // the present time without the store; nil for none
	failure atomic.Pointer[failure]         // why the state is local

	mu        sync.Mutex
	lostSince time.Time // when it lost the store, or first failed to reach it
	losses    int       // how often it lost the store
}

// A failure is an error of the store, and when it was found.
type failure struct {
	err error
	at  time.Time
}

// is reports whether the state is one.
func (c *contact) is(s state) bool { return c.state.Load() == s }

// enter sets who decides, and returns who did.
func (c *contact) enter(s state) (was state) {
	c.link.Try(0)
	return c.state.Swap(s)
}

// fellBack reports whether the answer to an operation that began at an instant makes the state local.
func (c *contact) fellBack(err error, began store.Instant) bool {
	is := errors.Is(err, store.ErrUnreachable) || link.Forgot(err) != nil
	if is {
		c.fallBack(err, began)
	}
	return is
}

// fallBack makes the state local, because of an error of an operation that began at an instant.
func (c *contact) fallBack(err error, began store.Instant) {
	c.failed(err)
	away := c.newAbsence(began)
	c.mu.Lock() // the process may be about to return
	was := c.enter(local)
	if was == shared {
		c.losses++
		if link.Forgot(err) == nil { // otherwise it answers what is under way
			c.link.Abandon()
		}
	}
	if was != local && !errors.Is(err, errAtBarrier) {
		c.change((*standing).lost)
	}
	c.away.CompareAndSwap(nil, away)
	c.mu.Unlock()
	if was != local {
		c.reportLoss(err, false)
	}
	c.wake()
}

// wake lets the goroutine of this process do its work now.
func (c *contact) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// goBack makes the state shared.
func (c *contact) goBack() {
	c.mu.Lock() // an operation may be about to fail
	was, away := c.enter(shared), c.away.Swap(nil)
	reported := !c.lostSince.IsZero()
	c.mu.Unlock()
	if away != nil && away.Over != nil {
		close(away.Over)
	}
	if was == local || was == unknown && reported {
		c.reportReturn()
	}
}

// observe notes what the store's time is. If its clock has stepped forward, calls must request slots anew: those that they wait for may be
// long past, if the clock had stepped back and only other processes had seen the time before. After a reply that was read more than a second
// late, the next one looks the same, and costs each queue two requests.
func (c *contact) observe(now store.Instant) {
	if c.fleet.observe(now) {
		c.config.Owner.Resumed([]store.Change{{Kind: store.Resumed, Now: now}})
	}
}

// failed remembers why the store is out of reach.
func (c *contact) failed(err error) {
	if !errors.Is(err, link.ErrResting) {
		c.failure.Store(&failure{err, time.Now()})
	}
}

// resting returns for how long a store that has failed gets no request.
func (c *contact) resting() time.Duration {
	if f := c.failure.Load(); f != nil && errors.Is(f.err, store.ErrUnreachable) {
		return time.Until(f.at.Add(probeEvery))
	}
	return 0
}

// newAbsence describes a time without the store that is noticed now, by an operation that began at an instant.
func (c *contact) newAbsence(began store.Instant) *charges.Absence {
	s := c.standing()
	a := &charges.Absence{Processes: max(1, s.n, c.config.Processes), Rank: s.rank, Counted: s.hasShare(time.Now()), Since: began, Found: c.Now()}
	if !a.Counted && c.config.Processes == 0 && c.config.Mode == Local {
		a.Over = make(chan struct{})
	}
	return a
}

// absence returns the present time without the store; one that begins now if there is none.
func (c *contact) absence() *charges.Absence {
	if a := c.away.Load(); a != nil {
		return a
	}
	return c.newAbsence(c.Now())
}

// matures gives this process a share if it had none when it lost the store, and heartbeats that were answered since bring it one.
func (c *contact) matures() {
	a := c.away.Load()
	if a == nil || a.Over == nil {
		return
	}
	if next := c.newAbsence(a.Since); next.Over == nil && c.away.CompareAndSwap(a, next) {
		close(a.Over)
	}
}

// refused returns the error of a process that refuses calls while the store is out of reach.
func (c *contact) refused() error {
	if f := c.failure.Load(); f != nil && errors.Is(f.err, store.ErrUnreachable) {
		return f.err
	}
	return store.ErrUnreachable
}

// reportLoss reports that the store is lost, or that it has never answered: the latter once, and once that calls wait.
func (c *contact) reportLoss(err error, never bool) {
	away, change := c.absence(), Change{Lost: true, Never: never, Err: err}
	c.mu.Lock()
	isNew := c.lostSince.IsZero()
	if isNew {
		c.lostSince = time.Now()
	}
	c.mu.Unlock()
	if !never && away.Over == nil {
		change.Processes, isNew = away.Processes, true
	}
	if isNew {
		c.config.Owner.FailedOver(change)
	}
}

// reportReturn reports that the store is back.
func (c *contact) reportReturn() {
	change := Change{Processes: c.standing().n, Dropped: c.dropped()}
	c.mu.Lock()
	if !c.lostSince.IsZero() { // otherwise the loss is being reported just now
		change.For = time.Since(c.lostSince)
	}
	c.lostSince = time.Time{}
	c.mu.Unlock()
	c.config.Owner.FailedOver(change)
}

// Losses returns how often this process lost the shared store.
func (c *contact) Losses() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.losses
}

// probePause returns how long after a failed attempt to return a process makes the next one: a sixteenth of the time since the loss.
func (c *contact) probePause() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lostSince.IsZero() {
		return probeEvery
	}
	return min(max(time.Since(c.lostSince)/16, probeEvery), longestProbe)
}

package leases

import (
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/internal/batch"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// renewals is how often a lease is renewed before it would run out.
const renewals = 3

// A Config sets how permits are reported.
type Config struct {
	// Report sends reports to the store. closed is whether Close was called.
	Report func(all []readings.Report, closed bool)
	// Direct is whether Report takes no time.
	Direct bool
	// PassOn is called with the lease of a call that is over. It returns true if another call has its permits, or may have them soon.
	PassOn func(*Lease) bool
}

// Leases are the leases of a process's calls.
type Leases struct {
	config Config

	mu       sync.Mutex
	inFlight map[int64]*Lease // by the call's ID
	closed   bool
	renewal  *time.Timer // nil while nothing is in flight
	due      time.Time   // when that is
	running  sync.WaitGroup

	over *batch.Requests[*Lease] // that give back
	turn chan struct{}           // holds the one that reports
}

// A Lease is a call's right to its permits.
type Lease struct {
	ID     int64
	Limits []store.Limit // of its permits
	Began  store.Instant
	Passed Passing
	Kept   time.Time // until when its permits are kept though no call waits for them: see PassOn
	places []store.Note

	// Under Leases.mu.
	length  time.Duration // the shortest
	guard   time.Duration // for how long its permits stay taken when the call is done
	renewed time.Time
	alive   func() bool // nil: yes
	asking  bool        // that is called, and has not returned
	ended   bool        // it returned false
	done    bool
}

// Passing is what passing a lease on needs.
type Passing struct {
	Queue  uint64        // the number of the queue whose calls may have it; 0 for none
	Limits []store.Limit // of that queue
	Since  time.Time     // when the store granted the permits
	Part   float64       // of a slice, one half to one and a half: so leases of the same moment end at different times
	Flow   int64         // whose calls have their fair share of the permits; 0 for none
	Assume int64         // for how many microseconds the call counted there
}

// New returns an empty set of leases.
func New(c Config) *Leases {
	s := &Leases{config: c, inFlight: make(map[int64]*Lease), turn: make(chan struct{}, 1)}
	s.over = batch.New(1, func(all []*Lease) int { return len(all) }, s.leave)
	return s
}

// Take records that a call was granted its permits, those of the limits that count calls in flight. It returns nil if there are none.
func (s *Leases) Take(id int64, limits []store.Limit, began store.Instant, requested time.Time, p Passing) *Lease {
	f := &Lease{ID: id, Began: began, Passed: p, renewed: requested}
	for i := range limits {
		l := &limits[i]
		if l.Spec.Algorithm != specs.Concurrency {
			continue
		}
		f.Limits = append(f.Limits, *l)
		length := time.Duration(l.Spec.Interval) * time.Microsecond
		if f.length == 0 || length < f.length {
			f.length = length
		}
		f.guard = max(f.guard, time.Duration(l.Spec.Guard)*time.Microsecond)
	}
	if len(f.Limits) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight[f.ID] = f
	switch every := f.length / renewals; {
	case s.renewal == nil:
		s.renewIn(every)
	case s.due.Sub(requested) > every && s.renewal.Stop(): // a renewal that runs already sees this one, too
		s.renewIn(every)
	}
	return f
}

// Pass gives the lease of a call that is over to another call, which begins now, and returns it. It returns nil if the lease has ended.
func (s *Leases) Pass(f *Lease, now store.Instant) *Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.inFlight[f.ID] != f {
		return nil
	}
	heir := &Lease{ID: f.ID, Limits: f.Limits, Began: now, Passed: f.Passed, length: f.length, guard: f.guard, renewed: f.renewed}
	s.inFlight[f.ID] = heir
	return heir
}

// remove forgets a call. The caller holds mu.
func (s *Leases) remove(f *Lease) {
	if s.inFlight[f.ID] == f { // otherwise it was passed on
		delete(s.inFlight, f.ID)
	}
	if len(s.inFlight) == 0 && s.renewal != nil {
		s.renewal.Stop()
		s.renewal = nil
	}
}

// with does something about a lease under mu, unless it is nil.
func (s *Leases) with(f *Lease, do func()) {
	if f != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		do()
	}
}

// WhileAlive sets the function that reports whether a call is still running.
func (s *Leases) WhileAlive(f *Lease, alive func() bool) { s.with(f, func() { f.alive = alive }) }

// LetRunOut ends the renewals of a call that nobody releases: its permits return when its lease runs out.
func (s *Leases) LetRunOut(f *Lease) { s.WhileAlive(f, func() bool { return false }) }

// Holds reports whether a call still has its permits: it is not over, and its lease has not run out.
func (s *Leases) Holds(f *Lease) (holds bool) {
	s.with(f, func() { holds = !f.done })
	return holds
}

// Forget forgets a call whose permits were given back otherwise.
func (s *Leases) Forget(f *Lease) {
	s.with(f, func() {
		f.done = true
		s.remove(f)
	})
}

// Release records that a call is over: after the guard, its permits are passed on or given back.
func (s *Leases) Release(f *Lease) {
	ends := false
	s.with(f, func() {
		switch guarded := f.guard > 0 && !s.closed; {
		case f.done:
		case guarded:
			time.AfterFunc(f.guard, func() { s.end(f) })
		default:
			ends = true
		}
		f.done = true
	})
	if ends {
		s.end(f)
	}
}

// end passes the permits of a call on, or gives them back.
func (s *Leases) end(f *Lease) {
	if !s.config.PassOn(f) {
		s.GiveBack(f)
	}
}

// GiveBack gives back the permits of a call that is over, unless they were given back or passed on before.
func (s *Leases) GiveBack(f *Lease) {
	s.mu.Lock()
	is := s.inFlight[f.ID] == f
	s.remove(f)
	s.mu.Unlock()
	if is {
		s.Leave(f.ID, f.Limits, nil)
	}
}

// Leave reports that a call is over, or has left the store's queue, where it counted what the places have for each limit; nil for nothing.
func (s *Leases) Leave(id int64, limits []store.Limit, places []store.Note) {
	one := &Lease{ID: id, Limits: limits, places: places}
	s.mu.Lock()
	now := s.config.Direct || s.closed
	if !now { // before Close waits for it
		s.over.Add(one)
	}
	s.mu.Unlock()
	if now {
		s.leave([]*Lease{one})
	}
}

// leave reports calls that are over.
func (s *Leases) leave(over []*Lease) { s.send(store.NoteRelease, func() []*Lease { return over }) }

// send sends a note of a kind about each permit of some calls. Renewals and releases take turns, however many calls end meanwhile. A store
// that panics still gets the next reports.
func (s *Leases) send(kind store.NoteKind, calls func() []*Lease) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	all := calls()
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	telemetry.Guard("a store", func() { s.config.Report(pack(all, kind), closed) })
}

// Close gives back the pending permits, and ends the renewals.
func (s *Leases) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	if s.renewal != nil {
		s.renewal.Stop()
		s.renewal = nil
	}
	var done []*Lease
	for _, f := range s.inFlight {
		if f.done {
			done = append(done, f)
		}
	}
	s.mu.Unlock()
	for _, f := range done { // its guard may end later, and does nothing then
		s.end(f)
	}
	s.running.Wait()
	s.over.Wait()
}

// Held reports which calls of this process hold permits.
func (s *Leases) Held() []readings.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Lease, 0, len(s.inFlight))
	for _, f := range s.inFlight {
		all = append(all, f)
	}
	return pack(all, store.NoteRenew)
}

// pack makes reports with a note of a kind about each permit of some calls.
func pack(all []*Lease, kind store.NoteKind) []readings.Report {
	var m readings.Reports
	for _, f := range all {
		for i := range f.Limits {
			n := store.Note{At: f.Began}
			if f.places != nil {
				n = f.places[i]
			}
			n.Kind, n.Value = kind, f.ID
			m.Add(&f.Limits[i], n)
		}
	}
	return m.All
}

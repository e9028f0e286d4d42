package pacer

import (
	"context"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/internal/notes"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// leases are those of the calls of this process that have places in flight. A timer, which runs while there are any, renews
// them, so that a place whose process is gone comes back by itself; a goroutine, which runs while there is something to
// say, gives places back. Both speak one at a time: a renewal that came after a release would take the place again.
type leases struct {
	life context.Context //nolint:containedctx // of what is said for calls whose own contexts may have ended

	mu      sync.Mutex
	aloft   map[int64]*lease // by the call's id
	over    []*lease         // to be given back
	saying  bool
	closed  bool
	renewal *time.Timer // nil while nothing is aloft
	due     time.Time   // when that is
	running sync.WaitGroup

	speaking chan struct{} // holds one who does
}

// A lease is a call's right to its places in flight. It is under leases.mu.
type lease struct {
	id      int64
	limits  []store.Limit // of its places
	began   store.Instant
	length  time.Duration // the shortest
	guard   time.Duration // for how long its places stay taken when it is over
	renewed time.Time
	alive   func() bool // nil: yes
	landing bool        // it is over
	timer   *time.Timer // of the guard
	passed  passing
	kept    time.Time // until when its places are kept though nobody of the process waits for them; under sleepers.mu
}

// renewals is how often a lease is renewed before it could run out.
const renewals = 3

// took notes that a reservation has got its places, if it needs any. The caller holds pacer.sleepers.mu, if anybody else
// knows the reservation.
func (s *leases) took(p *Pacer, r *Reservation) {
	f := &lease{id: r.call[0].ID, began: r.grant[0].At, renewed: r.asked}
	for i := range r.stack.Limits {
		l := &r.stack.Limits[i]
		if l.Spec.Algorithm != policies.Leases {
			continue
		}
		f.limits = append(f.limits, *l)
		length := time.Duration(l.Spec.Interval) * time.Microsecond
		if f.length == 0 || length < f.length {
			f.length = length
		}
		f.guard = max(f.guard, time.Duration(l.Spec.Guard)*time.Microsecond)
	}
	if len(f.limits) == 0 {
		return
	}
	r.lease, f.passed = f, p.passing(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aloft == nil {
		s.aloft = make(map[int64]*lease)
	}
	s.aloft[f.id] = f
	switch every := f.length / renewals; {
	case s.renewal == nil:
		s.renewIn(p, every)
	case s.due.Sub(r.asked) > every && s.renewal.Stop(): // one that renews already sees this one, too
		s.renewIn(p, every)
	}
}

// renewIn has the leases renewed after a time, unless the Pacer is closed. The caller holds mu.
func (s *leases) renewIn(p *Pacer, d time.Duration) {
	if !s.closed {
		s.due = time.Now().Add(d)
		s.renewal = time.AfterFunc(d, func() { s.renew(p) })
	}
}

// remove forgets a call. The caller holds mu.
func (s *leases) remove(f *lease) {
	if s.aloft[f.id] == f { // otherwise it was passed on
		delete(s.aloft, f.id)
	}
	if len(s.aloft) == 0 && s.renewal != nil {
		s.renewal.Stop()
		s.renewal = nil
	}
}

// whileAlive sets how it is known that a call is not over.
func (s *leases) whileAlive(r *Reservation, alive func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.lease != nil {
		r.lease.alive = alive
	}
}

// gone forgets a call whose places were given back otherwise.
func (s *leases) gone(f *lease) {
	if f == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.landing = true
	s.remove(f)
}

// dropped forgets the places of a reservation that is about to get others, or none. The caller holds pacer.sleepers.mu.
func (s *leases) dropped(r *Reservation) {
	s.gone(r.lease)
	r.lease = nil
}

// release gives back the places of a call that is over.
func (p *Pacer) release(r *Reservation) {
	s, f := &p.leases, r.lease
	if f == nil {
		return
	}
	s.mu.Lock()
	if f.landing {
		s.mu.Unlock()
		return
	}
	f.landing = true
	if f.guard > 0 && !s.closed {
		f.timer = time.AfterFunc(f.guard, func() { s.land(p, f) })
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.land(p, f)
}

// land gives the places of a call back, or passes them on.
func (s *leases) land(p *Pacer, f *lease) {
	if !p.passOn(f) {
		s.drop(p, f)
	}
}

// drop gives the places of a call back.
func (s *leases) drop(p *Pacer, f *lease) {
	s.mu.Lock()
	if s.aloft[f.id] != f {
		s.mu.Unlock()
		return
	}
	s.remove(f)
	s.mu.Unlock()
	s.giveBack(p, f)
}

// giveBack tells the store that a call is over, or has left the line.
func (s *leases) giveBack(p *Pacer, f *lease) {
	s.mu.Lock()
	s.over = append(s.over, f)
	switch {
	case s.saying: // it takes this along
		s.mu.Unlock()
	case p.direct != nil || s.closed:
		s.mu.Unlock()
		s.say(p)
	default:
		s.saying = true
		s.running.Add(1)
		s.mu.Unlock()
		go func() {
			defer s.running.Done()
			s.say(p)
		}()
	}
}

// say tells the store which calls are over, until there is nothing more to say.
func (s *leases) say(p *Pacer) {
	s.speaking <- struct{}{}
	defer func() { <-s.speaking }()
	for {
		s.mu.Lock()
		over := s.over
		s.over = nil
		if len(over) == 0 {
			s.saying = false
			s.mu.Unlock()
			return
		}
		closed := s.closed
		s.mu.Unlock()
		p.tell(pack(over, store.NoteRelease), closed)
	}
}

// tell reports messages. What is lost comes back when its leases run out.
func (p *Pacer) tell(all []notes.Report, closed bool) {
	ctx, cancel := context.WithTimeout(p.leases.life, storeTimeout)
	defer cancel()
	to := p.store
	if closed { // a member does not ask any more
		to = p.given
	}
	for _, m := range all {
		_, _, _ = to.Report(ctx, store.Stack{Upstream: p.upstream, Limits: m.Limits}, m.Notes)
	}
}

// renew renews the leases.
func (s *leases) renew(p *Pacer) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.running.Add(1)
	s.mu.Unlock()
	defer s.running.Done()
	s.speaking <- struct{}{}
	defer func() { <-s.speaking }()
	p.tell(pack(s.live(p), store.NoteRenew), false)
}

// live returns the calls whose leases are to be renewed, and sees to it that this is done again. It forgets those whose
// leases have run out.
func (s *leases) live(p *Pacer) (all []*lease) {
	now, next := time.Now(), time.Duration(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.aloft {
		switch {
		case f.landing || f.alive == nil || f.alive():
			f.renewed = now
			all = append(all, f)
		case now.Sub(f.renewed) >= f.length:
			f.landing = true
			delete(s.aloft, f.id)
			continue
		}
		if every := f.length / renewals; next == 0 || every < next {
			next = every
		}
	}
	if s.renewal != nil {
		s.renewal.Stop() // one that was begun while this one waited
	}
	s.renewal = nil
	if next > 0 {
		s.renewIn(p, next)
	}
	return all
}

// messages says which calls of this process have places.
func (s *leases) messages() []notes.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*lease, 0, len(s.aloft))
	for _, f := range s.aloft {
		all = append(all, f)
	}
	return pack(all, store.NoteRenew)
}

// pack makes messages with a note of a kind about each place of some calls.
func pack(all []*lease, kind store.NoteKind) []notes.Report {
	var m notes.Reports
	for _, f := range all {
		for i := range f.limits {
			m.Add(&f.limits[i], store.Note{Kind: kind, Value: f.id, At: f.began})
		}
	}
	return m.All
}

// close gives back what is to be given back, and renews nothing any more.
func (s *leases) close(p *Pacer) {
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
	var landing []*lease
	for _, f := range s.aloft {
		if f.landing {
			landing = append(landing, f)
		}
	}
	s.mu.Unlock()
	for _, f := range landing {
		if f.timer != nil {
			f.timer.Stop()
		}
		s.land(p, f)
	}
	s.running.Wait()
}

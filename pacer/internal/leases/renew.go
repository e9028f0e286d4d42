package leases

import (
	"time"

	"github.com/headway-go/headway/pacer/internal/telemetry"
	"github.com/headway-go/headway/pacer/store"
)

// renewIn schedules a renewal, unless Close was called. The caller holds mu.
func (s *Leases) renewIn(d time.Duration) {
	if !s.closed {
		s.due = time.Now().Add(d)
		s.renewal = time.AfterFunc(d, s.renew)
	}
}

// renew renews the leases.
func (s *Leases) renew() {
	ended := s.ended()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.running.Add(1)
	s.mu.Unlock()
	defer s.running.Done()
	s.send(store.NoteRenew, func() []*Lease { return s.live(ended) })
}

// ended returns the calls that have ended by the functions of WhileAlive, which it calls under no lock. A call whose function panics counts
// as running.
func (s *Leases) ended() map[*Lease]bool {
	functions := make(map[*Lease]func() bool)
	s.mu.Lock()
	for _, f := range s.inFlight {
		if !f.done && f.alive != nil {
			functions[f] = f.alive
		}
	}
	s.mu.Unlock()
	over := make(map[*Lease]bool)
	for f, alive := range functions {
		telemetry.Guard("a function of WhileAlive", func() { over[f] = !alive() })
	}
	return over
}

// live returns the calls whose leases must be renewed, and schedules the next renewal. It forgets those whose leases have run out.
func (s *Leases) live(ended map[*Lease]bool) (all []*Lease) {
	now, next := time.Now(), time.Duration(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.inFlight {
		switch {
		case f.done || !ended[f]:
			f.renewed = now
			all = append(all, f)
		case now.Sub(f.renewed) >= f.length:
			f.done = true
			delete(s.inFlight, f.ID)
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
		s.renewIn(next)
	}
	return all
}

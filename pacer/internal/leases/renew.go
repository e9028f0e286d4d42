package leases

import (
	"sync"
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
	s.findEnded()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.running.Add(1)
	s.mu.Unlock()
	defer s.running.Done()
	s.send(store.NoteRenew, s.live)
}

// patience is how long a renewal waits for functions of WhileAlive.
const patience = time.Second

// findEnded learns from the functions of WhileAlive which calls have ended, and calls them under no lock. A call whose function panics, or has
// not returned, counts as running.
func (s *Leases) findEnded() {
	var asking sync.WaitGroup
	s.mu.Lock()
	for _, f := range s.inFlight {
		if f.done || f.alive == nil || f.asking {
			continue
		}
		f.asking = true
		alive := f.alive
		asking.Go(func() {
			running := true
			telemetry.Guard("a function of WhileAlive", func() { running = alive() })
			s.mu.Lock()
			defer s.mu.Unlock()
			f.asking, f.ended = false, !running
		})
	}
	s.mu.Unlock()
	all := make(chan struct{})
	go func() {
		asking.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-time.After(patience):
	}
}

// live returns the calls whose leases must be renewed, and schedules the next renewal. It forgets those whose leases have run out.
func (s *Leases) live() (all []*Lease) {
	now, next := time.Now(), time.Duration(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.inFlight {
		switch {
		case f.done || !f.ended:
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

package faulttest_test

import (
	"context"
	"time"

	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
)

// An observedStore notes when its store did not answer, or so late that the process may pace locally, and what it granted.
type observedStore struct {
	*redisstore.Store

	run    *run
	member *member
}

// Reserve implements [store.Store].
func (s observedStore) Reserve(ctx context.Context, stack store.Stack, calls []store.Call, grants []store.Grant) error {
	began := time.Now()
	err := s.Store.Reserve(ctx, stack, calls, grants)
	if err == nil {
		s.member.granted.add(grants)
	}
	return s.run.requested(began, err)
}

// ReserveAll implements [store.Shared].
func (s observedStore) ReserveAll(ctx context.Context, batches []store.Batch) error {
	began := time.Now()
	err := s.Store.ReserveAll(ctx, batches)
	if err == nil {
		for i := range batches {
			s.member.granted.add(batches[i].Grants)
		}
	}
	return s.run.requested(began, err)
}

// Cancel implements [store.Store].
func (s observedStore) Cancel(ctx context.Context, stack store.Stack, grants []store.Grant) error {
	began := time.Now()
	return s.run.requested(began, s.Store.Cancel(ctx, stack, grants))
}

// Report implements [store.Store].
func (s observedStore) Report(ctx context.Context, stack store.Stack, notes []store.Note) (store.Instant, int, error) {
	began := time.Now()
	now, changed, err := s.Store.Report(ctx, stack, notes)
	return now, changed, s.run.requested(began, err)
}

// Status implements [store.Store].
func (s observedStore) Status(ctx context.Context, stack store.Stack) (store.StackStatus, error) {
	began := time.Now()
	status, err := s.Store.Status(ctx, stack)
	return status, s.run.requested(began, err)
}

// Heartbeat implements [store.Shared].
func (s observedStore) Heartbeat(ctx context.Context, upstream string, b store.Heartbeat) (store.Membership, error) {
	began := time.Now()
	membership, err := s.Store.Heartbeat(ctx, upstream, b)
	if err == nil {
		s.member.mu.Lock()
		s.member.heartbeat = began
		s.member.joined = s.member.joined || membership.Alive >= len(s.run.fleet)
		s.member.mu.Unlock()
	}
	return membership, s.run.requested(began, err)
}

// heartbeats waits until each process has sent a heartbeat from now on, and read the answer.
func (r *run) heartbeats() {
	now := time.Now()
	for _, m := range r.fleet {
		if !await(func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.heartbeat.After(now)
		}) {
			r.complainf("no heartbeat for %v", patience)
		}
	}
	lasts(100 * ms) // to read it
}

// acquaint waits until each process knows how many there are.
func (r *run) acquaint() {
	for _, m := range r.fleet {
		if !await(func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.joined
		}) {
			r.complainf("a process knows of no other")
		}
	}
}

// requested records the store's answer to a request at an instant. It returns the error.
func (r *run) requested(began time.Time, err error) error {
	if over := time.Now(); err != nil || !over.Before(began.Add(answerLate)) {
		r.silent(trouble{"a store that does not answer in time", began, over})
	}
	return err
}

// fellBack returns the hook of a process, for when it loses the store, and has it back: it may be called late.
func (r *run) fellBack(process int) func(hooks.Failover) {
	return func(f hooks.Failover) {
		now := time.Now()
		r.silent(trouble{"a local process", now.Add(-f.For), now})
		r.mu.Lock()
		defer r.mu.Unlock()
		if f.On {
			r.absences = append(r.absences, absence{process: process, from: now})
			return
		}
		for i := range r.absences {
			if a := &r.absences[i]; a.process == process && a.to.IsZero() {
				a.from, a.to = now.Add(-f.For), now
			}
		}
	}
}

func (r *run) silent(x trouble) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silences = append(r.silences, x)
}

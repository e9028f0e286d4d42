package redisstore

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// reply reads a script's reply, a flat array of integers.
type reply struct {
	values []int64
	err    error
}

func (r *reply) int() int64 {
	if r.err != nil {
		return 0
	}
	if len(r.values) == 0 {
		r.err = errors.New("the reply is too short: is there a proxy between this program and Redis?")
		return 0
	}
	n := r.values[0]
	r.values = r.values[1:]
	return n
}

// maxInstant is the latest instant of a script, up to which its numbers are exact.
const maxInstant = 1 << 53

// maxRefused is the latest slot of a refused call: its NotBefore may be as large as a time.Duration.
const maxRefused = maxInstant + math.MaxInt64/1000

// upTo returns the next number, from least to most: every number of a reply is hostile until then.
func (r *reply) upTo(least, most int64) int64 {
	n := r.int()
	if n < least || n > most {
		if r.err == nil {
			r.err = fmt.Errorf("the reply has %d where a number from %d to %d should be", n, least, most)
		}
		return max(least, min(most, 0))
	}
	return n
}

func (r *reply) instant() store.Instant { return store.Instant(r.upTo(0, maxInstant)) }

func (r *reply) count() int64 { return r.upTo(0, maxInstant) }

// negate makes the next number positive, and reports whether it was negative.
func (r *reply) negate() bool {
	if len(r.values) == 0 || r.values[0] >= 0 {
		return false
	}
	r.values[0] = -r.values[0]
	return true
}

// binds returns the index of the binding limit, below limits: see reserve.lua.
func (r *reply) binds(limits int) int {
	if n := int(r.upTo(0, int64(limits))); n > 0 {
		return n - 1
	}
	return store.BindsNothing
}

// status reads the state of a stack with that number of limits: see status.lua.
func (r *reply) status(now int64, limits int) store.StackStatus {
	st := store.StackStatus{Now: store.Instant(now), Limits: make([]store.LimitStatus, limits)}
	for i := range st.Limits {
		st.Limits[i] = store.LimitStatus{
			Remaining: r.count(), Next: r.instant(), Backlog: r.count(), Paused: r.instant(),
			Pace: r.count(), Queued: r.count(), Margin: r.count(), Full: r.instant(),
		}
	}
	return st
}

// epoch reads an epoch.
func (r *reply) epoch() store.Epoch { return store.Epoch{Began: r.instant(), Resets: r.count()} }

// holding reads what a limit holds.
func (r *reply) holding(l *store.Limit) (h store.Holding) {
	n := r.int()
	if n < 0 || n > int64(len(r.values)) {
		r.err = cmp.Or(r.err, fmt.Errorf("the reply announces %d numbers and has %d", n, len(r.values)))
		return h
	}
	rest := reply{values: r.values[:n]}
	r.values = r.values[n:]
	switch l.Spec.Algorithm {
	case specs.GCRA:
		h.Taken = min(store.Forever, time.Duration(min(rest.count(), store.Forever.Microseconds()))*time.Microsecond)
	case specs.Concurrency:
		h.Permits, h.Until = rest.count(), rest.instant()
	case specs.Allowance:
	case specs.Window:
		for len(rest.values) > 0 && rest.err == nil {
			h.Buckets = append(h.Buckets, store.Charge{From: rest.upTo(-maxInstant, maxInstant), To: rest.upTo(-maxInstant, maxInstant)})
		}
	}
	r.err = cmp.Or(r.err, rest.done())
	return h
}

// done returns the first error. Values left over are one, too.
func (r *reply) done() error {
	if r.err == nil && len(r.values) > 0 {
		r.err = fmt.Errorf("the reply is %d values too long", len(r.values))
	}
	return r.err
}

package redisstore

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// reply walks through a script's reply: a flat array of integers.
type reply struct {
	values []int64
	err    error
}

func (r *reply) int() int64 {
	if r.err != nil {
		return 0
	}
	if len(r.values) == 0 {
		r.err = errors.New("the reply is too short: does something stand between this program and Redis?")
		return 0
	}
	n := r.values[0]
	r.values = r.values[1:]
	return n
}

func (r *reply) instant() store.Instant { return store.Instant(r.int()) }

// epoch reads an epoch.
func (r *reply) epoch() store.Epoch { return store.Epoch{Began: r.instant(), Resets: r.int()} }

// holding reads what a limit holds.
func (r *reply) holding(l *store.Limit) (h store.Holding) {
	n := r.int()
	if n < 0 || n > int64(len(r.values)) {
		r.err = cmp.Or(r.err, fmt.Errorf("the reply speaks of %d numbers where there are %d", n, len(r.values)))
		return h
	}
	rest := reply{values: r.values[:n]}
	r.values = r.values[n:]
	switch l.Spec.Algorithm {
	case policies.GCRA:
		h.Taken = min(store.Forever, time.Duration(min(rest.int(), store.Forever.Microseconds()))*time.Microsecond)
	case policies.Leases:
		h.Permits, h.Until = rest.int(), rest.instant()
	case policies.Window:
		for len(rest.values) > 0 && rest.err == nil {
			h.Buckets = append(h.Buckets, store.Charge{From: rest.int(), To: rest.int()})
		}
	}
	r.err = cmp.Or(r.err, rest.done())
	return h
}

// done returns the first error; values left over are one, too.
func (r *reply) done() error {
	if r.err == nil && len(r.values) > 0 {
		r.err = fmt.Errorf("the reply is %d values too long", len(r.values))
	}
	return r.err
}

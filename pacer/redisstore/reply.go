package redisstore

import (
	"errors"
	"fmt"

	"github.com/headway-go/headway/pacer/store"
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

// done returns the first error; values left over are one, too.
func (r *reply) done() error {
	if r.err == nil && len(r.values) > 0 {
		r.err = fmt.Errorf("the reply is %d values too long", len(r.values))
	}
	return r.err
}

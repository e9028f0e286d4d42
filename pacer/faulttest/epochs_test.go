package faulttest_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
)

// A reset of the tightest policy begins an epoch of it. Slots that were granted before are good: their calls go, and count among
// themselves. So do those that are granted from then on: what is given back of an earlier epoch makes no room in a later one.

// reset resets the tightest policy, as an operator does who has a store and no process.
func (r *run) reset() {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	way := newRoute()
	defer way.close()
	rdb := r.site.connect(way)
	defer func() { _ = rdb.Close() }()
	operator, err := redisstore.New(rdb)
	require.NoError(r.t, err)
	policy := r.rules[0].policy
	stack := store.Stack{Upstream: r.upstream, Limits: []store.Limit{{Policy: policy.Name(), Spec: policy.Spec()}}}
	now, _, err := operator.Report(ctx, stack, []store.Note{{Kind: store.NoteReset}})
	at := span{from: time.UnixMicro(int64(now)), to: time.UnixMicro(int64(now))}
	for err != nil && ctx.Err() == nil { // it may have been done, or not
		lasts(10 * ms)
		_, _, err = operator.Report(ctx, stack, []store.Note{{Kind: store.NoteReset}})
		at = span{from: began.Round(0), to: time.Now().Round(0)}
	}
	if err != nil {
		r.complainf("a reset: %v", err)
	}
	r.resets = append(r.resets, at)
}

// epochs parts the calls of a policy by the epochs in which they were granted. It leaves out those whose epoch is unknown.
func (r *run) epochs(x *rule, calls []gone) [][]gone {
	if x.policy.Name() != tightest {
		return [][]gone{calls}
	}
	all := make([][]gone, len(r.resets)+1)
	for _, c := range calls {
		granted, known := c.by.granted.when(c.slot)
		if !known { // by the process itself, or its slot is not known: somewhen while it was under way
			granted = span{from: c.began.Round(0), to: c.at.Round(0)}
		}
		if n, known := r.epoch(granted); known {
			all[n] = append(all[n], c)
		}
	}
	return all
}

// epoch returns how many resets there were before something that happened within a span, if that is known.
func (r *run) epoch(of span) (before int, known bool) {
	n := slices.IndexFunc(r.resets, func(x span) bool { return of.from.Before(x.to) })
	if n < 0 {
		return len(r.resets), true
	}
	return n, of.to.Before(r.resets[n].from)
}

// grants knows when a process was granted its slots.
type grants struct {
	mu  sync.Mutex
	all map[store.Instant]span // by the slot: when it was granted first, and last
}

// add notes what was granted.
func (g *grants) add(all []store.Grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil {
		g.all = make(map[store.Instant]span)
	}
	for i := range all {
		if !all[i].OK {
			continue
		}
		at, now := all[i].At, time.UnixMicro(int64(all[i].Now))
		x, ok := g.all[at]
		if !ok {
			x.from = now
		}
		x.to = now
		g.all[at] = x
	}
}

// when returns when a slot was granted: several calls may have the same.
func (g *grants) when(slot time.Time) (span, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	x, ok := g.all[store.Instant(slot.UnixMicro())]
	return x, ok
}

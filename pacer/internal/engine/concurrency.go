package engine

import (
	"math"
	"slices"
)

// Concurrency counts the calls that run at once. Each has a lease: it counts until it is released or its lease runs out,
// whichever is first.
type Concurrency struct {
	inert

	leases  map[int64]lease // by the call's id
	soonest int64           // no lease runs out before
	queue   Queue
	learned int64 // a lower limit that the upstream reported, until till; 0 for none
	till    int64
}

// A lease is the permit of a running call.
type lease struct{ until, began int64 } // began is 0 if it counted from the start

// most returns how many calls may run.
func (f *Concurrency) most(l *Limit, now int64) int64 {
	if now < f.till && f.learned < l.Spec.Limit {
		return f.learned
	}
	return l.Spec.Limit
}

// running returns how many calls count.
func (f *Concurrency) running(l *Limit, now int64) int64 {
	if l.Spec.After == 0 {
		return int64(len(f.leases))
	}
	n := int64(0)
	for _, one := range f.leases {
		if one.began <= now-l.Spec.After {
			n++
		}
	}
	return n
}

// free returns how many more calls may start now. If only long calls count, and not too many of them run, there is no bound.
func (f *Concurrency) free(l *Limit, now int64) int64 {
	free := f.most(l, now) - f.running(l, now)
	if l.Spec.After > 0 && free > 0 {
		return math.MaxInt64
	}
	return free
}

// purge drops expired leases and queued calls that are considered dead, and reports whether there were any.
func (f *Concurrency) purge(now int64) bool {
	dead := f.queue.purge(now)
	if len(f.leases) == 0 || now < f.soonest {
		return dead
	}
	f.soonest = forever
	for id, one := range f.leases {
		if one.until <= now {
			delete(f.leases, id)
			dead = true
		} else {
			f.soonest = min(f.soonest, one.until)
		}
	}
	return dead
}

// lease gives a call a permit.
func (f *Concurrency) lease(id, began, until int64) {
	if len(f.leases) == 0 {
		f.leases, f.soonest = make(map[int64]lease), until
	}
	f.leases[id] = lease{until, began}
	f.soonest = min(f.soonest, until)
}

// expiry returns when the nth lease expires, counting from 0; forever if there are fewer.
func (f *Concurrency) expiry(n int64) int64 {
	ends := make([]int64, 0, len(f.leases))
	for _, one := range f.leases {
		ends = append(ends, one.until)
	}
	if n >= int64(len(ends)) {
		return forever
	}
	slices.Sort(ends)
	return ends[n]
}

// Earliest implements [Account]: a permit is not bound to a time, so it does not restrict the slot.
func (f *Concurrency) Earliest(_ *Limit, _, e, _ int64, _ int) Placement { return Placement{At: e} }

// Commit implements [Account]: see Renew.
func (f *Concurrency) Commit(*Limit, int64, Placement, int64) (Charge, int64) {
	return Charge{}, 0
}

// Cancel implements [Account].
func (f *Concurrency) Cancel(l *Limit, _ int64, c Charge) (more bool) {
	if id, has := c.permit(); has {
		f.Release(l, Left{ID: id})
	}
	return false
}

// forget drops the past.
func (f *Concurrency) forget(now int64) {
	if f.till <= now {
		f.learned, f.till = 0, 0
	}
}

// Learn implements [Account].
func (f *Concurrency) Learn(l *Limit, now, value, until int64) bool {
	before := f.most(l, now)
	f.learned, f.till = max(1, value), until
	if value <= 0 || value >= l.Spec.Limit || until <= now {
		f.learned, f.till = 0, 0
	}
	f.forget(now)
	return f.most(l, now) != before
}

// Renew implements [Account].
func (f *Concurrency) Renew(l *Limit, now, id, began int64) {
	if before := f.leases[id].began; before > 0 || l.Spec.After == 0 {
		began = before
	}
	f.lease(id, began, now+l.Spec.Interval)
}

// Release implements [Account].
func (f *Concurrency) Release(l *Limit, c Left) bool {
	_, had := f.leases[c.ID]
	delete(f.leases, c.ID)
	return f.queue.leave(l, c) || had
}

// Reset implements [Account].
func (f *Concurrency) Reset(int64) { *f = Concurrency{} }

// Expires implements [Account].
func (f *Concurrency) Expires() int64 {
	ends := max(f.till, f.queue.furthest)
	for _, one := range f.leases {
		ends = max(ends, one.until)
	}
	return ends
}

// Inspect implements [Account].
func (f *Concurrency) Inspect(l *Limit, now int64) Inspection {
	live := Concurrency{learned: f.learned, till: f.till}
	for id, one := range f.leases {
		if one.until > now {
			live.lease(id, one.began, one.until)
		}
	}
	in := Inspection{Next: now, Pace: f.most(l, now), Queued: f.queue.length(now), Full: now}
	for _, one := range live.leases {
		in.Full = max(in.Full, one.until)
	}
	if in.Pace < l.Spec.Limit {
		in.Full = max(in.Full, f.till)
	}
	in.Remaining = max(0, in.Pace-live.running(l, now))
	if in.Remaining == 0 || in.Queued > 0 {
		if in.Next = live.expiry(0); in.Next == forever {
			in.Next = now
		}
	}
	return in
}

package feedback

import (
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// maxKeys bounds the keys that a process knows of: those without calls in flight. With them it is twice as many.
const maxKeys = 1 << 16

// A Usage knows the calls of this process that are in flight, and what the store received about each key. Its zero value is ready, and it
// is safe for concurrent use.
type Usage struct {
	mu   sync.Mutex
	keys map[store.Key]*record
}

// A record is what is known of one key.
type record struct {
	open   int64 // cost of tracked calls that are not answered, those that are queued included
	bucket int64 // of a window: the latest one that a call was charged to
	done   int64 // cost of tracked calls of that bucket that were answered
	known  int64 // how much of that the store knows

	left   int64 // as noted last; −1: never
	step   int64 // how many steps it may move until the next note
	at     time.Time
	value  int64 // a lower limit, as noted last; 0 for none
	valued time.Time
}

// Tracked is one tracked call, as its [Usage] knows it. Its zero value is one that is not in flight. The owner of the call sees to it that
// its methods are not called concurrently.
type Tracked struct {
	records []*record // of each limit; nil if the call is not in flight
	reached []int64   // for each limit: what had been answered when the call was admitted; nil if it was not

	room struct { // for what most calls need, to save allocations
		records [store.FewLimits]*record
		reached [store.FewLimits]int64
	}
}

// reachedBy returns the cost of the calls, this one included, that had reached the upstream when it answered, as far as a limit
// is concerned; false if that is not known.
func (t *Tracked) reachedBy(call *store.Call, limit int) (int64, bool) {
	if t == nil || limit >= len(t.reached) {
		return 0, false
	}
	return t.reached[limit] + cost(call, limit), true
}

// cost returns what a call costs the limit with this index.
func cost(c *store.Call, i int) int64 {
	if i >= len(c.Costs) {
		return c.Cost
	}
	return c.Costs[i]
}

// A Mark is what a note is about.
type Mark struct {
	key     store.Key
	left    bool // it was a note of what is left
	bucket  int64
	reached int64 // of that bucket
}

// of returns the record of a key. The caller holds mu.
func (u *Usage) of(k store.Key) *record {
	if one := u.keys[k]; one != nil {
		return one
	}
	if u.keys == nil {
		u.keys = make(map[store.Key]*record)
	}
	if len(u.keys) >= maxKeys {
		for k, one := range u.keys {
			if one.open == 0 || len(u.keys) >= 2*maxKeys {
				delete(u.keys, k)
			}
		}
	}
	one := &record{left: -1, step: 1}
	u.keys[k] = one
	return one
}

// update replaces the record of a key by what a function makes of it, which calls nobody.
func (u *Usage) update(k store.Key, f func(record) record) {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.of(k)
	*one = f(*one)
}

// Enter counts a call as in flight, if it is to be tracked, and is not already.
func (u *Usage) Enter(t *Tracked, limits []store.Limit, call *store.Call) {
	if !call.Tracked || t.records != nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	t.records = t.room.records[:0]
	for i := range limits {
		one := u.of(limits[i].Key())
		one.open += cost(call, i)
		t.records = append(t.records, one)
	}
}

// Admit remembers what had been answered when a tracked call was admitted, by what its grant charged.
func (u *Usage) Admit(t *Tracked, call *store.Call, charges []store.Charge) {
	if !call.Tracked {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	t.reached = t.room.reached[:0]
	for i, one := range t.records {
		done, b := int64(0), charges[i].From
		if b > one.bucket {
			one.bucket, one.done, one.known = b, 0, 0
		}
		if one.bucket == b {
			done = one.done
		}
		t.reached = append(t.reached, done)
	}
}

// Leave counts a tracked call as no longer in flight, which never was answered.
func (u *Usage) Leave(t *Tracked, call *store.Call) { u.leave(t, call, nil) }

// Answered counts a tracked call as done, of which its grant charged this.
func (u *Usage) Answered(t *Tracked, call *store.Call, charges []store.Charge) {
	u.leave(t, call, charges)
}

func (u *Usage) leave(t *Tracked, call *store.Call, charges []store.Charge) {
	if !call.Tracked {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, one := range t.records {
		n := cost(call, i)
		one.open = max(0, one.open-n)
		if charges != nil && one.bucket == charges[i].From {
			one.done += n
		}
	}
	t.records = nil
}

// Delivered notes that the store knows, and how many notes made a difference: if none did, the next ones may be rarer.
func (u *Usage) Delivered(marks []Mark, changed int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range marks {
		m := &marks[i]
		one := u.of(m.key)
		if m.bucket == one.bucket {
			one.known = max(one.known, m.reached)
		}
		if m.left {
			if one.step = min(maxStepGrowth, 2*one.step); changed > 0 {
				one.step = 1
			}
		}
	}
}

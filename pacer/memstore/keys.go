package memstore

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/pacer/store"
)

// keys holds the accounts of a store in shards, each with a lock. The upstream and the scope value choose the shard, so one lock guards the
// policies of one scope, or of none.
//
// An operation that needs several accounts locks all of their shards, in order, before it reads any: so a stack is decided as a whole,
// without deadlock.
type keys struct {
	most  int64 // how many there may be
	seed  maphash.Seed
	count atomic.Int64 // how many there are

	sweepAt   atomic.Int64 // when a shard is next looked through
	sweepNext atomic.Uint32
	roomNext  uint32 // the shard that makeRoom looks through next, under the locks of all

	shards [shards]shard
}

// shards is the number of shards: one for each bit of a shardSet.
const shards = 64

// A shardSet is some of the shards.
type shardSet uint64

const allShards = ^shardSet(0)

// A shard is some of the keys.
type shard struct {
	shardState

	_ [128 - unsafe.Sizeof(shardState{})%128]byte // no two shards in one cache line, nor in two that are fetched together
}

type shardState struct {
	mu   sync.Mutex
	keys map[uint64]*account // by the hash of their keys
	ring ring[*account]      // all of them
}

// A ring is values through which eviction walks.
type ring[T any] struct {
	all  []T
	hand int
}

// walk looks at the next n values, and drops those that are gone.
func (r *ring[T]) walk(n int, gone func(T) bool) {
	for range min(n, len(r.all)) {
		if r.hand >= len(r.all) {
			r.hand = 0
		}
		if !gone(r.all[r.hand]) {
			r.hand++
			continue
		}
		var none T
		last := len(r.all) - 1
		r.all[r.hand], r.all[last] = r.all[last], none
		r.all = r.all[:last]
	}
}

// An account is that of one key. The shard's lock guards it.
type account struct {
	engine.Kept

	key  accountKey
	hash uint64
	next *account // of the same hash: by a chance of one in 2^64
	gone bool     // evicted: it is not to be used any more
}

type accountKey struct {
	upstream, policy, scope string
	permits                 bool // of calls in flight: they have nothing in common with other accounts of the key
}

func keyOf(upstream string, l *store.Limit, scope string) accountKey {
	return accountKey{upstream, l.Policy, scope, engine.AreRunning(&l.Spec)}
}

// opened is a stack whose accounts are locked.
type opened struct {
	shards shardSet
	now    int64
	added  int  // keys that were made
	wrote  bool // something was charged or reported: what was turned is kept
	turned []turned
}

// turned is what happens to an account if something is charged or reported under a limit with another grid.
type turned struct {
	*account

	next engine.Kept
}

const (
	// evictGrace is how long a key is kept past its last effect, in µs: a clock that steps back a little still finds it.
	evictGrace = 1_000_000
	// evictBeside is how many keys are checked for each new one. With two, a shard shrinks faster than it can grow, while keys expire.
	evictBeside = 2
	// sweepEvery is how often, in µs, a call checks sweepKeys keys of any shard, so that unused ones go, too.
	sweepEvery = 1_000
	sweepKeys  = 128
	// roomKeys is how many keys a call checks, while all others wait, if it needs a new one and the store is full.
	roomKeys = 512
)

// A location is the place of a key's account. It consists of hashes that add up, so the part that many keys have in common is hashed once.
type location struct{ shard, hash uint64 }

// hash hashes a part of a key.
func (k *keys) hash(part string) uint64 {
	if part == "" {
		return 0
	}
	return maphash.String(k.seed, part)
}

// of returns the location of a policy's keys, without the scope.
func (k *keys) of(upstream, policy string) location {
	home := k.hash(upstream)
	return location{home, home ^ bits.RotateLeft64(k.hash(policy), 1)}
}

// scoped returns the location of the key for a scope value.
func (k *keys) scoped(p location, scope string) location {
	h := k.hash(scope)
	return location{p.shard + h, p.hash + h}
}

// set returns only the shard of a key.
func (p location) set() shardSet { return 1 << (p.shard % shards) }

// at returns the shard of a key.
func (k *keys) at(p location) *shard { return &k.shards[p.shard%shards] }

// get returns the account of a key; nil without one.
func (sh *shard) get(hash uint64, key *accountKey) *account {
	a := sh.keys[hash]
	for a != nil && a.key != *key {
		a = a.next
	}
	return a
}

// add keeps an account.
func (sh *shard) add(a *account) {
	if sh.keys == nil {
		sh.keys = make(map[uint64]*account)
	}
	a.next = sh.keys[a.hash]
	sh.keys[a.hash] = a
	sh.ring.all = append(sh.ring.all, a)
}

// remove forgets an account, but for the ring.
func (sh *shard) remove(a *account) {
	a.gone = true
	switch first := sh.keys[a.hash]; {
	case first != a:
		for first.next != a {
			first = first.next
		}
		first.next = a.next
	case a.next != nil:
		sh.keys[a.hash] = a.next
	default:
		delete(sh.keys, a.hash)
	}
}

// first returns the first of some shards.
func (k *keys) first(s shardSet) *shard { return &k.shards[bits.TrailingZeros64(uint64(s))%shards] }

func (k *keys) lock(s shardSet) {
	for ; s != 0; s &= s - 1 {
		k.first(s).mu.Lock()
	}
}

func (k *keys) unlock(s shardSet) {
	for ; s != 0; s &= s - 1 {
		k.first(s).mu.Unlock()
	}
}

// shardsOf returns the shards of a stack's keys.
func (k *keys) shardsOf(stack *store.Stack) shardSet {
	s := shardSet(0)
	for i := range stack.Limits {
		_, p := k.key(stack, i)
		s |= p.set()
	}
	return s
}

// key returns the key of a limit, and its location.
func (k *keys) key(stack *store.Stack, limit int) (accountKey, location) {
	l := &stack.Limits[limit]
	return keyOf(stack.Upstream, l, l.Scope), k.scoped(k.of(stack.Upstream, l.Policy), l.Scope)
}

// find appends the accounts of a stack, whose shards are locked, to entries. It makes missing ones, and keeps them if keep is set: all or,
// if there is no room, none.
func (k *keys) find(entries []engine.Entry, o *opened, stack *store.Stack, reach int64, keep bool) ([]engine.Entry, error) {
	missing := 0
	for i := range stack.Limits {
		l := &stack.Limits[i]
		key, at := k.key(stack, i)
		e := engine.Entry{Limit: engine.Limit{Spec: &l.Spec}}
		if l.Spec.Calendar != nil {
			e.Limit.Bounds = l.Spec.Calendar.Bounds(o.now, o.now+reach)
		}
		switch a := k.at(at).get(at.hash, &key); {
		case !l.Spec.Algorithm.Known():
			return nil, fmt.Errorf("policy %q: unknown algorithm %d", l.Policy, l.Spec.Algorithm)
		case a == nil:
			e.Account = engine.NewAccount(l.Spec.Algorithm)
			missing++
		case a.Serves(&e.Limit, o.now, keep):
			e.Account = a.Account
		default:
			o.turned = append(o.turned, turned{a, a.Turned(&e.Limit, o.now)})
			e.Account = o.turned[len(o.turned)-1].next.Account
		}
		entries = append(entries, e)
	}
	if missing > 0 && keep {
		return entries, k.make(entries, o, stack, missing)
	}
	return entries, nil
}

// make keeps the missing accounts of a stack.
func (k *keys) make(entries []engine.Entry, o *opened, stack *store.Stack, missing int) error {
	if k.count.Add(int64(missing)) > k.most {
		k.count.Add(-int64(missing))
		return ErrFull
	}
	for i := range stack.Limits {
		key, at := k.key(stack, i)
		if sh := k.at(at); sh.get(at.hash, &key) == nil {
			sh.add(&account{Kept: engine.NewKept(&entries[i].Limit, entries[i].Account), key: key, hash: at.hash})
			o.added++
		}
	}
	k.count.Add(int64(o.added - missing)) // a stack that names a key twice
	return nil
}

// makeRoom evicts keys without effect until those of a stack fit, if a bounded search finds enough. All shards are locked, and none of the
// stack's accounts was looked up: an evicted one could be among them.
func (k *keys) makeRoom(stack *store.Stack, now int64) error {
	left := roomKeys
	for range shards {
		if k.fits(stack) || left == 0 {
			break
		}
		sh := &k.shards[k.roomNext%shards]
		k.roomNext++
		n := min(left, len(sh.ring.all))
		k.evict(sh, now, n, (*engine.Kept).Expires)
		left -= n
	}
	if k.fits(stack) {
		return nil
	}
	return ErrFull
}

// fits reports whether the missing keys of a stack may be made. All shards are locked.
func (k *keys) fits(stack *store.Stack) bool {
	missing := int64(0)
	for i := range stack.Limits {
		if key, at := k.key(stack, i); k.at(at).get(at.hash, &key) == nil {
			missing++
		}
	}
	return k.count.Load()+missing <= k.most
}

// matters returns until when an account has a meaning. Having been reset matters less: see keys.makeRoom.
func matters(a *engine.Kept) int64 { return max(a.Expires(), a.Remembers()) }

// evict forgets those of the next n keys in a shard's ring that mean nothing any more.
func (k *keys) evict(sh *shard, now int64, n int, until func(*engine.Kept) int64) {
	sh.ring.walk(n, func(a *account) bool {
		gone := until(&a.Kept)+evictGrace <= now
		if gone {
			sh.remove(a)
			k.count.Add(-1)
		}
		return gone
	})
}

// evictBeside checks some keys for each new one.
func (k *keys) evictBeside(o *opened) {
	if o.added == 0 {
		return
	}
	for s := o.shards; s != 0; s &= s - 1 {
		k.evict(k.first(s), o.now, evictBeside*o.added, matters)
	}
}

// look calls see for each shard, locked.
func (k *keys) look(see func(i int, sh *shard)) {
	for i := range k.shards {
		sh := &k.shards[i]
		sh.mu.Lock()
		see(i, sh)
		sh.mu.Unlock()
	}
}

// sweep checks some keys of the next shard, if that is due. The caller holds no lock.
func (k *keys) sweep(now int64) {
	due := k.sweepAt.Load()
	if now < due || !k.sweepAt.CompareAndSwap(due, now+sweepEvery) {
		return
	}
	sh := &k.shards[k.sweepNext.Add(1)%shards]
	if sh.mu.TryLock() { // a call that uses it need not wait
		k.evict(sh, now, sweepKeys, matters)
		sh.mu.Unlock()
	}
}

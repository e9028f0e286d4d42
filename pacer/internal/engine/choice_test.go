package engine_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/luascripts/numbers"
	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/policies"
)

// A pool is accounts of several keys, any one of which may bind a call: of each key, one for each of some specs.
type pool struct {
	*rig

	choices []engine.Choice
}

func newPool(t testing.TB, keys ...[]policies.Spec) *pool {
	t.Helper()
	p := &pool{rig: newRig(t, slices.Concat(keys...)...)}
	at := 0
	for _, specs := range keys {
		p.choices = append(p.choices, engine.Choice{Stack: p.stack[at : at+len(specs)]})
		at += len(specs)
	}
	return p
}

// permitsOf are keys that allow so many calls in flight, with long leases.
func permitsOf(limits ...int64) (keys [][]policies.Spec) {
	for _, n := range limits {
		keys = append(keys, []policies.Spec{inFlight(n, 60_000*ms)})
	}
	return keys
}

// any asks for a call by any key, and returns the answer in times after the epoch.
func (p *pool) any(now int64, first int, c engine.Call) (choice int, b booking, called []int64) {
	p.t.Helper()
	c.Cost, c.MaxWait = 1, always
	choice, g, charges, called := engine.ReserveAnyQueued(epoch+now, 0, p.stack, p.choices, first, c, nil)
	g.At -= epoch
	return choice, booking{g, charges}, called
}

// queued asks for a call that is to be queued for a key, behind so many others.
func (p *pool) queued(now int64, c engine.Call, want int, ahead int64) booking {
	p.t.Helper()
	choice, b, _ := p.any(now, 0, c)
	require.True(p.t, b.Queued, "%+v", b)
	require.Equal(p.t, want, choice)
	require.Equal(p.t, ahead, b.Ahead)
	return b
}

// byKey asks for a call that is to go now by a key.
func (p *pool) byKey(now int64, c engine.Call, want int) booking {
	p.t.Helper()
	choice, b, _ := p.any(now, 0, c)
	require.True(p.t, b.OK && b.At == now, "%+v", b)
	require.Equal(p.t, want, choice)
	return b
}

// lengths returns how many calls are queued for each account.
func (p *pool) lengths(now int64) (all []int64) {
	for i := range p.stack {
		all = append(all, p.stack[i].Account.Inspect(&p.stack[i].Limit, epoch+now).Queued)
	}
	return all
}

// A call goes by a key that has a permit, of several the first one from the one that it prefers. When there is none, it joins the queue in
// which the fewest permits have to come back for it, for each that the key has.
func TestChoicesOfPermits(t *testing.T) {
	t.Parallel()
	p := newPool(t, permitsOf(1, 2, 4)...)
	for i, want := range []int{2, 2, 2, 2, 0, 1, 1} {
		choice, b, _ := p.any(0, 2, id(int64(i+1)))
		require.True(t, b.OK, i)
		require.Equal(t, want, choice, i)
		require.Equal(t, []engine.Charge{{From: int64(i + 1), To: 1}}, b.charges)
	}
	for i := range int64(21) {
		_, b, _ := p.any(i, int(i)%3, id(100+i))
		require.True(t, b.Queued)
	}
	require.Equal(t, []int64{3, 6, 12}, p.lengths(21))
	require.True(t, p.stack[1].Account.Release(6))
	choice, b, called := p.any(22, 0, engine.Call{ID: 200})
	require.True(t, b.Queued, "the permit is for one of those who came before")
	require.Equal(t, 1, choice, "there are 6 before it for 2 permits, one of which is back, and 12 for 4")
	require.Empty(t, called)
}

// A queued call asks again by all keys: it goes by any that has a permit which nobody waits for, and then it is in no queue. In each queue
// its position is by when it first asked.
func TestAQueuedCallMayGoByAnotherChoice(t *testing.T) {
	t.Parallel()
	p := newPool(t, permitsOf(1, 1)...)
	p.byKey(0, id(1), 0)
	p.byKey(0, id(2), 1)
	p.queued(1, id(3), 0, 0)
	require.Equal(t, []int64{1, 0}, p.lengths(1))
	require.True(t, p.stack[1].Account.Release(2))
	p.byKey(2, engine.Call{ID: 3, Since: epoch + 1}, 1)
	require.Equal(t, []int64{0, 0}, p.lengths(2))

	// Two wait for the first key, which is slow, and one that came later for the second one.
	p = newPool(t, permitsOf(1, 2)...)
	p.byKey(0, id(1), 0)
	p.byKey(0, id(2), 1)
	p.byKey(0, id(3), 1)
	require.True(t, p.stack[0].Account.Release(1))
	for i := range int64(2) { // they stand for one key, as if they had come when that was better
		q := newPoolOf(p, 0)
		q.byKey(0, id(1), 0)
		q.queued(10+i, id(4+i), 0, i)
	}
	p.queued(20, id(6), 1, 0)
	require.Equal(t, []int64{2, 1}, p.lengths(20))
	p.queued(21, engine.Call{ID: 5, Since: epoch + 11}, 1, 0)
	require.Equal(t, []int64{1, 2}, p.lengths(21), "it comes before the one that came later")
	p.queued(22, engine.Call{ID: 6, Since: epoch + 20}, 1, 1)
	p.queued(23, engine.Call{ID: 4, Since: epoch + 10}, 1, 0)
	require.Equal(t, []int64{0, 3}, p.lengths(23))
}

// newPoolOf is the keys of a pool of which some are left out.
func newPoolOf(p *pool, only int) *pool {
	return &pool{rig: p.rig, choices: p.choices[only : only+1]}
}

// A slot that is near is better than a queue, and a queue is better than a slot that is far: the first in the queue asks again in time for
// that, and if it goes, the next one.
func TestAQueueBesideSlots(t *testing.T) {
	t.Parallel()
	one := inFlight(1, 60_000*ms)
	p := newPool(t, []policies.Spec{rate(1, 100*ms), inFlight(9, 60_000*ms)}, []policies.Spec{rate(9, ms), one})
	p.byKey(0, id(1), 0)
	p.byKey(0, id(2), 1)
	b := p.queued(50*ms, id(3), 1, 0)
	require.Equal(t, 90*ms, b.At, "10 ms before the slot by the other key")
	b = p.queued(51*ms, id(4), 1, 1)
	require.Equal(t, 1051*ms, b.At, "it is not the first")
	require.Equal(t, []int64{0, 0, 0, 2}, p.lengths(51*ms))

	choice, b, called := p.any(90*ms, 0, engine.Call{ID: 3, Since: epoch + 50*ms})
	require.Equal(t, 0, choice)
	require.Equal(t, engine.Grant{OK: true, At: 100 * ms, Binds: 0}, b.Grant)
	require.Equal(t, []engine.Charge{{From: epoch + 100*ms, To: epoch + 200*ms}, {From: 3, To: 1}}, b.charges)
	require.Equal(t, []int64{4}, called)
	require.Equal(t, []int64{0, 0, 0, 1}, p.lengths(90*ms))
	b = p.queued(91*ms, engine.Call{ID: 4, Since: epoch + 51*ms}, 1, 0)
	require.Equal(t, 190*ms, b.At)

	choice, b, _ = p.any(200*ms, 1, id(5))
	require.Equal(t, 0, choice, "a slot is near")
	require.True(t, b.OK)

	// If all slots are far, it gets the nearest, and its permit later.
	p = newPool(t, []policies.Spec{rate(1, 200*ms), one}, []policies.Spec{rate(1, 100*ms), one})
	p.byKey(0, id(1), 0)
	p.byKey(0, id(2), 1)
	choice, b, _ = p.any(0, 0, id(3))
	require.Equal(t, 1, choice)
	require.Equal(t, engine.Grant{OK: true, At: 100 * ms, Binds: 0}, b.Grant)
	require.Equal(t, []engine.Charge{{From: epoch + 100*ms, To: epoch + 200*ms}, {From: 3}}, b.charges)

	// When its slot comes, it goes by whichever key has a slot and a permit then: here the first key, whose permit came back.
	require.True(t, p.stack[1].Account.Release(1))
	held := slices.Concat(make([]engine.Charge, 2), b.charges)
	choice, b, _ = p.any(90*ms, 1, engine.Call{ID: 3, Since: epoch, Held: held, Slot: epoch + 100*ms})
	require.Equal(t, 1, choice, "its slot by the first key is far, and it waits for a permit of its own")
	require.True(t, b.Queued)
	require.Equal(t, gaps(100*ms), newPoolOf(p, 1).freeOf(1))
	require.Equal(t, 190*ms, b.At)
	p.byKey(200*ms, engine.Call{ID: 3, Since: epoch}, 0)
}

// freeOf returns the virtual time that the rate of a key has not given away.
func (p *pool) freeOf(key int) []engine.Span {
	return (&rig{t: p.t, stack: p.stack[2*key:]}).free()
}

// A choice that is paused is passed over while others are not, whatever permits it has, and so it is by a call that stands for it.
func TestAPausedChoiceIsPassedOver(t *testing.T) {
	t.Parallel()
	p := newPool(t, permitsOf(1, 1)...)
	p.byKey(0, id(1), 0)
	p.byKey(0, id(2), 1)
	p.queued(0, id(3), 0, 0)
	p.stack[0].Account.Pause(epoch + 1000*ms)
	p.queued(1, engine.Call{ID: 3, Since: epoch}, 1, 0)
	require.Equal(t, []int64{0, 1}, p.lengths(1))
	require.True(t, p.stack[0].Account.Release(1))
	p.queued(2, engine.Call{ID: 3, Since: epoch}, 1, 0)
	p.stack[1].Account.Pause(epoch + 2000*ms)
	choice, b, _ := p.any(3, 0, engine.Call{ID: 3, Since: epoch})
	require.Equal(t, 0, choice)
	require.Equal(t, engine.Grant{OK: true, At: 1000 * ms, Binds: 0, Paused: true, Slack: numbers.UnboundSlack}, b.Grant)
	require.Equal(t, []int64{0, 0}, p.lengths(3), "it has a slot")
}

// A call that does not wait is refused when no key has a permit, is in no queue, and leaves that in which it was.
func TestNoChoiceInTime(t *testing.T) {
	t.Parallel()
	p := newPool(t, permitsOf(1, 1)...)
	p.byKey(0, id(1), 0)
	p.byKey(0, id(2), 1)
	p.queued(0, id(3), 0, 0)
	_, g, charges, _ := engine.ReserveAnyQueued(epoch+1, 0, p.stack, p.choices, 1, engine.Call{ID: 3, Cost: 1, Since: epoch}, nil)
	require.Equal(t, engine.Grant{At: epoch + 1, Binds: 0}, g)
	require.Empty(t, charges)
	require.Equal(t, []int64{0, 0}, p.lengths(1))
}

// Costs are those of the limits of the choice.
func TestChoicesHaveCostsOfTheirOwn(t *testing.T) {
	t.Parallel()
	p := newPool(t, []policies.Spec{rate(4, 100*ms), inFlight(9, 60_000*ms)}, []policies.Spec{rate(4, 100*ms), inFlight(9, 60_000*ms)})
	p.choices[0].Costs, p.choices[1].Costs = []int64{4, 1}, []int64{1, 1}
	for i, want := range []int{0, 1, 1, 1, 1} {
		p.byKey(0, id(int64(i+1)), want)
	}
}

// A crowd is calls by the keys of a pool that come, ask again and end at random, and what an observer knows of them.
type crowd struct {
	*pool

	rng     *rand.Rand
	limits  []int64
	now     int64
	running map[int64]int // by ID, by which key
	stands  map[int64]int // for which key
	since   map[int64]int64
}

// one returns one of some calls.
func (c *crowd) one(of map[int64]int) int64 {
	all := slices.Sorted(maps.Keys(of))
	return all[c.rng.IntN(len(all))]
}

// count returns how many of some calls are of a key, and came before an instant.
func (c *crowd) count(of map[int64]int, key int, before int64) (n int64) {
	for id, k := range of {
		if k == key && c.since[id] < before {
			n++
		}
	}
	return n
}

// asks has a call ask, and those that are called because of it.
func (c *crowd) asks(id int64) {
	call := engine.Call{ID: id, Since: c.since[id]}
	if call.Since == 0 {
		c.since[id] = epoch + c.now
	}
	choice, b, called := c.any(c.now, c.rng.IntN(len(c.limits)), call)
	delete(c.stands, id)
	if b.OK {
		free := c.limits[choice] - c.count(c.running, choice, always)
		require.Less(c.t, c.count(c.stands, choice, c.since[id]), free, "overtaken")
		c.running[id] = choice
	} else {
		require.True(c.t, b.Queued)
		for key, limit := range c.limits {
			require.LessOrEqual(c.t, limit, c.count(c.running, key, always)+c.count(c.stands, key, c.since[id]+1), "a permit is idle")
		}
		c.stands[id] = choice
	}
	for _, id := range called {
		c.asks(id)
	}
}

// ends has a call end.
func (c *crowd) ends(id int64) {
	key := c.running[id]
	delete(c.running, id)
	require.True(c.t, c.stack[key].Account.Release(id))
	for _, id := range c.stack[key].Next(epoch+c.now, 0) {
		c.asks(id)
	}
}

// Whatever calls do: a call is in one queue at most, no key has more in flight than it allows, none has a permit to spare for a call that is
// queued when it asks, and nobody is overtaken in the queue of a key.
func TestChoicesOfPermitsAtRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		c := &crowd{
			rng: rand.New(rand.NewPCG(seed, 1)), running: make(map[int64]int), stands: make(map[int64]int), since: make(map[int64]int64),
		}
		for range 1 + c.rng.IntN(4) {
			c.limits = append(c.limits, 1+c.rng.Int64N(4))
		}
		c.pool = newPool(t, permitsOf(c.limits...)...)
		for next := range int64(200) {
			c.now += c.rng.Int64N(3) * ms
			switch k := c.rng.IntN(5); {
			case k < 2 && len(c.running) > 0:
				c.ends(c.one(c.running))
			case k < 4 && len(c.stands) > 0:
				c.asks(c.one(c.stands))
			default:
				c.asks(1 + next)
			}
			for key, limit := range c.limits {
				require.LessOrEqual(t, c.count(c.running, key, always), limit, "seed %d", seed)
				require.Equal(t, c.count(c.stands, key, always), c.lengths(c.now)[key], "seed %d", seed)
			}
		}
	}
}

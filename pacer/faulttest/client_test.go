package faulttest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// A connection is a client's way to the server: a store of its own on a go-redis client of its own.
type connection struct {
	rdb   *redis.Client
	store store.Store
	ear   *ear
}

// connect opens connections for as many clients as a history has.
func connect(t *testing.T, addr string) []connection {
	t.Helper()
	all := make([]connection, clients)
	for i := range all {
		rdb := newClient(t, addr)
		store, err := redisstore.New(rdb)
		require.NoError(t, err)
		all[i] = connection{rdb, store, &ear{}}
		rdb.AddHook(all[i].ear)
		require.NoError(t, rdb.Ping(t.Context()).Err()) // so that the first operations do not wait for a connection
	}
	return all
}

func newClient(t *testing.T, addr string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{
		Addr:                     addr,
		PoolSize:                 1,
		MaxRetries:               -1, // an operation happens once
		ReadTimeout:              time.Minute,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { require.NoError(t, rdb.Close()) })
	return rdb
}

// An ear keeps the store time of a client's last operation: it is the first number of every script's reply.
//
// Reserve, Report and Status return the store time, and Cancel does not. But the time of a cancel matters where an account is near an edge,
// since what is past is not given back. The checker could be let to choose it, between the operation before and the next; listening to the
// reply is simpler and leaves nothing to choose.
type ear struct{ now store.Instant }

// ProcessHook implements [redis.Hook]. It runs in the client's own goroutine.
func (e *ear) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if reply, ok := cmd.(interface{ Val() []int64 }); ok {
			if all := reply.Val(); len(all) > 0 {
				e.now = store.Instant(all[0])
			}
		}
		return err
	}
}

// DialHook implements [redis.Hook].
func (*ear) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (*ear) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// held is a grant that may still be cancelled or settled.
type held struct {
	stack int
	call  store.Call
	grant store.Grant
}

// A client runs random operations, one after the other.
type client struct {
	connection

	id     int
	rng    *rand.Rand
	stacks []store.Stack
	held   []held
	did    history
}

// record lets clients do operations on a new upstream, each client as many, all at once.
func record(ctx context.Context, connections []connection, operations int, seed uint64) (history, error) {
	all := stacks(rand.New(rand.NewPCG(seed, 0)))
	errs := make([]error, len(connections))
	clients := make([]*client, len(connections))
	start := make(chan struct{})
	began := time.Now()
	var wg sync.WaitGroup
	for i, c := range connections {
		clients[i] = &client{connection: c, id: i, rng: rand.New(rand.NewPCG(seed, uint64(1+i))), stacks: all}
		wg.Go(func() {
			<-start
			errs[i] = clients[i].run(ctx, operations, began)
		})
	}
	close(start)
	wg.Wait()
	var h history
	for i, c := range clients {
		if errs[i] != nil {
			return nil, fmt.Errorf("seed %d, client %d: %w", seed, i, errs[i])
		}
		h = append(h, c.did...)
	}
	return h, nil
}

func (c *client) run(ctx context.Context, operations int, began time.Time) error {
	for range operations {
		stack := c.rng.IntN(len(c.stacks))
		op := &operation{client: c.id, request: c.request(stack)}
		c.ear.now = 0
		op.called = time.Since(began) //realtime: a history is in the order of real time
		a, err := op.ask(ctx, c.store)
		op.done = time.Since(began) //realtime: as above
		if err != nil {             // nothing is in the way here: a store that fails is at fault
			return fmt.Errorf("%s: %w", op.requested(), err)
		}
		op.answer = a
		switch {
		case op.calls != nil:
			op.at = a.grants[0].Now
		case op.cancel != nil:
			op.at = c.ear.now
		case op.notes != nil:
			op.at = a.now
		default:
			op.at = a.status.Now
		}
		if op.at == 0 {
			return fmt.Errorf("%s: the store did not say when that was", op.requested())
		}
		c.did = append(c.did, op)
		for i := range a.grants {
			if a.grants[i].OK {
				c.held = append(c.held, held{stack, op.calls[i], a.grants[i]})
			}
		}
	}
	return nil
}

func (c *client) request(stack int) request {
	r := request{stack: c.stacks[stack]}
	switch n := c.rng.IntN(20); {
	case n == 0:
		return r // the status
	case n < 4:
		r.notes = c.notes(stack)
	case n < 9:
		r.cancel = c.cancel(stack)
	}
	if r.notes == nil && r.cancel == nil {
		r.calls = c.calls(&r.stack)
	}
	return r
}

// calls makes up one to three calls.
func (c *client) calls(stack *store.Stack) []store.Call {
	highest := int64(5)
	for i := range stack.Limits {
		highest = min(highest, stack.Limits[i].Spec.Limit)
	}
	calls := make([]store.Call, 1+c.rng.IntN(3)*c.rng.IntN(2))
	for i := range calls {
		call := store.Call{Cost: 1}
		switch c.rng.IntN(6) {
		case 0:
			call.Cost = 1 + c.rng.Int64N(highest)
		case 1:
			for j := range stack.Limits {
				call.Costs = append(call.Costs, 1+c.rng.Int64N(stack.Limits[j].Spec.Limit))
			}
		}
		if c.rng.IntN(6) == 0 {
			call.NotBefore = upTo(c.rng, 3*time.Millisecond)
		}
		switch c.rng.IntN(20) {
		case 0: // now or never
		case 1:
			call.MaxWait = pacer.Forever
		case 2, 3, 4:
			call.MaxWait = upTo(c.rng, 100*time.Millisecond)
		default:
			call.MaxWait = upTo(c.rng, 10*time.Millisecond)
		}
		calls[i] = call
	}
	return calls
}

// of returns the indexes of what is held of a stack.
func (c *client) of(stack int) []int {
	var mine []int
	for i := range c.held {
		if c.held[i].stack == stack {
			mine = append(mine, i)
		}
	}
	return mine
}

// cancel picks up to three grants to be given back; nil if there are none. Now and then one is kept, to be given back
// twice.
func (c *client) cancel(stack int) []store.Grant {
	mine := c.of(stack)
	if len(mine) == 0 {
		return nil
	}
	var grants []store.Grant
	drop := make(map[int]bool)
	for _, i := range c.rng.Perm(len(mine))[:min(len(mine), 1+c.rng.IntN(3))] {
		grants = append(grants, c.held[mine[i]].grant)
		drop[mine[i]] = c.rng.IntN(8) > 0
	}
	var keep []held
	for i := range c.held {
		if !drop[i] {
			keep = append(keep, c.held[i])
		}
	}
	c.held = keep
	return grants
}

// notes makes up something to report.
func (c *client) notes(stack int) []store.Note {
	limits := c.stacks[stack].Limits
	notes := make([]store.Note, 1+c.rng.IntN(2))
	for i := range notes {
		at := c.rng.IntN(len(limits))
		n := store.Note{Kind: store.NoteReset, Limit: at, For: upTo(c.rng, time.Millisecond)}
		switch isAllowance := limits[at].Spec.Algorithm == specs.Allowance; {
		case !isAllowance:
			c.answered(&n, stack, &limits[at])
		case c.rng.IntN(2) == 0:
			n = store.Pause(at, n.For)
		default:
			n.Kind = store.NoteResume
		}
		notes[i] = n
	}
	return notes
}

// answered makes a note one that is about a call of a stack and a limit.
func (c *client) answered(n *store.Note, stack int, l *store.Limit) {
	made := &held{}
	if mine := c.of(stack); len(mine) > 0 {
		made = &c.held[mine[c.rng.IntN(len(mine))]]
	}
	window := l.Spec.Algorithm == specs.Window
	switch kind := c.rng.IntN(11); {
	case kind == 2:
		n.Kind, n.At, n.Value, n.Remaining = store.NoteStray, made.grant.At, c.rng.Int64N(60_000), c.rng.Int64N(100_000)
	case kind == 0:
		n.Kind, n.At = store.NoteSlow, made.grant.At
	case kind == 1:
		n.Kind, n.Value = store.NoteLearn, l.Spec.Interval/2+c.rng.Int64N(3*l.Spec.Interval)
		if window {
			n.Value = c.rng.Int64N(l.Spec.Limit + 2)
		}
	case kind == 8:
		n.Kind = store.NoteReset
	case kind > 8 && made.grant.OK:
		n.Kind, n.Charge = store.NoteClaim, made.grant.Charges[n.Limit]
		if window {
			n.Charge.To += c.rng.Int64N(3)
		}
	case made.grant.OK:
		n.Kind, n.Charge, n.Cost = store.NoteSettle, made.grant.Charges[n.Limit], made.call.Cost
		if made.call.Costs != nil {
			n.Cost = made.call.Costs[n.Limit]
		}
		n.Actual = c.rng.Int64N(2*n.Cost + 2)
	}
}

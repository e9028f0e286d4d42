package faulttest_test

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A replica is the sequential specification: a memory store whose clock shows the store time of the operation that it is
// given.
type replica struct {
	store *memstore.Store
	now   store.Instant
}

func newReplica() *replica {
	r := &replica{}
	r.store = memstore.New(memstore.WithClock(func() store.Instant { return r.now }))
	return r
}

// agrees does an operation and reports whether the answer is the one that the history has.
func (r *replica) agrees(op *operation) (answer, bool) {
	r.now = op.at
	a, err := op.ask(context.Background(), r.store)
	return a, err == nil && reflect.DeepEqual(a, op.answer)
}

// A state is what the model knows: the operations so far, the last one first. It never changes. The replica that has done
// them goes on to the next state, since a store cannot be copied, and is made again in the rare case that somebody comes
// back to this one.
type state struct {
	before  *state
	op      *operation // nil for the first state
	applied int
	replica *replica
	writer  *state // the last state, up to this one, whose operation wrote something; nil if there is none
}

func (s *state) take() *replica {
	r := s.replica
	s.replica = nil
	switch {
	case r != nil:
	case s.op == nil:
		r = newReplica()
	default:
		r = s.before.take()
		r.agrees(s.op)
	}
	return r
}

// step reports whether an operation may come next, and the state that it leaves.
//
// Store time never goes back, and every operation of the history has happened. So an operation comes after all that have an earlier store
// time: while one of them is missing, the search need not go on. This leaves few orders to try, mostly one: only operations of the same
// microsecond may be swapped.
func (s *state) step(op *operation) (bool, *state) {
	if s.applied < op.earlier {
		return false, s
	}
	r := s.take()
	if _, ok := r.agrees(op); !ok {
		return false, s // and r is spoilt
	}
	next := &state{before: s, op: op, applied: s.applied + 1, replica: r, writer: s.writer}
	if op.wrote() {
		next.writer = next
	}
	return true, next
}

// equal reports whether the same operations wrote, in the same order. Operations that only looked may have come anywhere: refusals write
// nothing. This spares the checker most orders of a microsecond that had many operations.
func (s *state) equal(other *state) bool {
	a, b := s.writer, other.writer
	for a != b {
		if a == nil || b == nil || a.op != b.op {
			return false
		}
		a, b = a.before.writer, b.before.writer
	}
	return true
}

// model is the specification in the terms of the checker.
func model() porcupine.Model {
	return porcupine.Model{
		Init:  func() any { return &state{} },
		Step:  func(s, in, _ any) (bool, any) { return s.(*state).step(in.(*operation)) },
		Equal: func(a, b any) bool { return a.(*state).equal(b.(*state)) },
		DescribeOperation: func(in, _ any) string {
			op := in.(*operation)
			return fmt.Sprintf("%d: %s → %s", op.at, op.requested(), op.describe(op.at))
		},
		DescribeState: func(s any) string { return fmt.Sprintf("%d operations", s.(*state).applied) },
	}
}

// A verdict is whether a history is linearizable.
type verdict struct {
	porcupine.CheckResult
	history history
	info    porcupine.LinearizationInfo
}

func judge(h history) verdict {
	h.sequence()
	ops := make([]porcupine.Operation, len(h))
	for i, op := range h {
		ops[i] = porcupine.Operation{ClientId: op.client, Input: op, Call: int64(op.called), Output: op, Return: int64(op.done)}
	}
	result, info := porcupine.CheckOperationsVerbose(model(), ops, time.Minute)
	return verdict{result, h, info}
}

// explain writes a picture of the history into a folder and returns its path, the history, and where it goes wrong in the
// order of store time. Of operations of the same microsecond it tries only one order.
func (v *verdict) explain(dir, name string) (string, error) {
	picture := filepath.Join(dir, name+".html")
	if err := porcupine.VisualizePath(model(), v.info, picture); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s\n\na picture: %s\n\nthe history, in the order of store time:\n%s", v.dispute(), picture, v.history), nil
}

func (v *verdict) dispute() string {
	r := newReplica()
	for i, op := range v.history {
		for _, later := range v.history[i+1:] {
			if later.at > op.at && later.done < op.called {
				return fmt.Sprintf("client %d's operation at %d returned before client %d's at %d was called (or somebody has set the server's clock back)",
					later.client, later.at, op.client, op.at)
			}
		}
		if a, ok := r.agrees(op); !ok {
			return fmt.Sprintf("operation %d, client %d's at %d: %s\n  the store:        %s\n  the specification: %s",
				i, op.client, op.at, op.requested(), op.describe(op.at), a.describe(op.at))
		}
	}
	return "no single operation is to blame"
}

// reserved is a history of one call for each client, all under way at once, as a replica answers them.
func reserved(at ...store.Instant) history {
	stack := store.Stack{Upstream: "model", Limits: []store.Limit{{Policy: "rate", Spec: policies.PerSecond(10).Spec()}}}
	r := newReplica()
	h := make(history, len(at))
	for i := range h {
		h[i] = &operation{
			request: request{stack: stack, calls: []store.Call{{Cost: 1, MaxWait: pacer.Forever}}},
			client:  i, done: time.Second, at: at[i],
		}
		h[i].answer, _ = r.agrees(h[i])
	}
	return h
}

// earliest is some instant.
const earliest = store.Instant(1_735_689_600_000_000)

func TestStoreTimeOrdersOperations(t *testing.T) {
	t.Parallel()
	h := reserved(earliest, earliest+1, earliest+2, earliest+3)
	slices.Reverse(h)
	require.Equal(t, porcupine.Ok, judge(h).CheckResult)
}

func TestOperationsOfOneMicrosecondMayComeInAnyOrder(t *testing.T) {
	t.Parallel()
	h := reserved(earliest, earliest, earliest, earliest, earliest, earliest)
	slices.Reverse(h)
	require.Equal(t, porcupine.Ok, judge(h).CheckResult)
}

func TestStoreTimeMustKeepToRealTime(t *testing.T) {
	t.Parallel()
	h := reserved(earliest, earliest+1)
	h[0].called, h[0].done = 10, 20
	h[1].called, h[1].done = 5, 10
	v := judge(h)
	require.Equal(t, porcupine.Ok, v.CheckResult, "they overlap")
	h[1].done = 9
	v = judge(h)
	require.Equal(t, porcupine.Illegal, v.CheckResult)
	require.Contains(t, v.dispute(), "returned before")
}

func TestEveryMicrosecondOfAnAnswerCounts(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(g *store.Grant){
		"OK":      func(g *store.Grant) { g.OK = false },
		"Now":     func(g *store.Grant) { g.Now++ },
		"At":      func(g *store.Grant) { g.At++ },
		"Slack":   func(g *store.Grant) { g.Slack += time.Microsecond },
		"Binds":   func(g *store.Grant) { g.Binds = store.BindsStore },
		"Paused":  func(g *store.Grant) { g.Paused = 1 },
		"Charges": func(g *store.Grant) { g.Charges[0].To++ },
	} {
		h := reserved(earliest, earliest+1, earliest+2)
		change(&h[1].grants[0])
		v := judge(h)
		require.Equal(t, porcupine.Illegal, v.CheckResult, name)
		require.Contains(t, v.dispute(), "operation 1, client 1's", name)
	}
}

package redisstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// The bound on waits makes no difference to calls that go at once: a process that reserves the first of a queue without a bound, and those
// behind it within a reach, has them all charged by the fast path of the script.
func TestPatienceCostsNothing(t *testing.T) {
	t.Parallel()
	short := redisstore.NewShort(redistest.Start(t).Client())
	ample := policies.PerMinute(1).Burst(1000)
	for name, policy := range map[string]policies.Policy{
		"a rate": ample, "an exact rate": policies.AtMost(1000, time.Hour).Burst(1000), "a window": policies.Sliding(1000, time.Hour),
	} {
		stack := store.Stack{Upstream: name, Limits: []store.Limit{{Policy: "p", Spec: policy.Spec()}, {Policy: "ample", Spec: ample.Spec()}}}
		reserve := func(calls ...store.Call) ([]store.Grant, error) {
			grants := make([]store.Grant, len(calls))
			return grants, short.ReserveAll(t.Context(), []store.Batch{{Stack: stack, Calls: calls, Grants: grants}})
		}
		first := store.Call{Cost: 2, MaxWait: store.Forever}
		next := store.Call{Cost: 2, MaxWait: 40 * time.Millisecond}
		grants, err := reserve(first, next, next)
		require.NoError(t, err, name)
		for i, g := range grants {
			require.True(t, g.OK, name)
			require.Equal(t, g.Now, g.At, name)
			for j, c := range g.Charges {
				if i > 0 && stack.Limits[j].Spec.Algorithm == specs.GCRA {
					require.Equal(t, grants[i-1].Charges[j].To, c.From, "%s: each has a charge of its own", name)
				}
			}
		}
		for _, other := range []store.Call{{Cost: 1}, {Cost: 2, NotBefore: 1}} {
			_, err := reserve(first, other)
			require.ErrorContains(t, err, "the long way", name)
		}
	}
}

// Calls that wait for a rate, or would wait for too long, are decided by the fast path as well, beside a window that has room for them.
func TestThePaceCostsLittle(t *testing.T) {
	t.Parallel()
	short := redisstore.NewShort(redistest.Start(t).Client())
	rate, quota := policies.PerSecond(10).Spec(), policies.Fixed(4, 365*24*time.Hour).Spec()
	stack := store.Stack{Upstream: "paced", Limits: []store.Limit{{Policy: "rate", Spec: rate}, {Policy: "quota", Spec: quota}}}
	reserve := func(waits ...time.Duration) ([]time.Duration, error) {
		calls, grants := make([]store.Call, len(waits)), make([]store.Grant, len(waits))
		for i, w := range waits {
			calls[i] = store.Call{Cost: 1, MaxWait: w}
		}
		err := short.ReserveAll(t.Context(), []store.Batch{{Stack: stack, Calls: calls, Grants: grants}})
		var slots []time.Duration
		for i := range grants {
			if slots = append(slots, grants[i].At.Sub(grants[0].Now)); !grants[i].OK {
				slots[i] = -slots[i]
			}
		}
		return slots, err
	}
	ms := time.Millisecond
	slots, err := reserve(time.Hour, time.Hour, 50*ms, 50*ms, time.Hour)
	require.NoError(t, err)
	require.Equal(t, []time.Duration{0, 100 * ms, -200 * ms, -200 * ms, 200 * ms}, slots)
	_, err = reserve(time.Hour, time.Hour)
	require.ErrorContains(t, err, "the long way", "the window has room for one more")
	_, err = reserve(time.Hour, 0)
	require.ErrorContains(t, err, "the long way", "and not for the one that does not wait either")
}

// ways returns a store, and one that returns an error where the fast path does not decide, over the same server.
func ways(t *testing.T) (long, short *redisstore.Store) {
	t.Helper()
	client := redistest.Start(t).Client()
	long, err := redisstore.New(client)
	require.NoError(t, err)
	return long, redisstore.NewShort(client)
}

// Calls of parties, and of none, are decided by the fast path, too, after the first one of each in a window, which notes that it came.
func TestPartiesCostLittle(t *testing.T) {
	t.Parallel()
	long, short := ways(t)
	for name, policy := range map[string]policies.Policy{
		"fixed": policies.Fixed(1000, 365*24*time.Hour), "calendar": policies.Monthly(1000, time.UTC), "sliding": policies.Sliding(1000, time.Hour),
	} {
		stack := store.Stack{Upstream: name}
		policy = policy.Reserve("desk", 30).Reserve("sync", 20).Named("p")
		stack.Limits = append(stack.Limits, store.Limit{Policy: "p", Spec: policy.Spec()})
		for _, party := range policy.Lanes() {
			part, _ := policy.InLane(party)
			stack.Limits = append(stack.Limits, store.Limit{Policy: part.Name(), Spec: part.Spec()})
		}
		left := []int64{1000, 300, 200}
		for party, kept := range []uint64{0b110, 0b100, 0b010} {
			for i, is := range []store.Shared{long, short, short} {
				calls, grants := []store.Call{{Cost: 2, MaxWait: store.Forever, Kept: kept}, {Cost: 2, Kept: kept}}, make([]store.Grant, 2)
				require.NoError(t, is.ReserveAll(t.Context(), []store.Batch{{Stack: stack, Calls: calls, Grants: grants}}), "%s, party %d, request %d", name, party, i)
				require.True(t, grants[0].OK && grants[1].OK, name)
				if left[0] -= 4; party > 0 {
					left[party] -= 4
				}
			}
		}
		status, err := long.Status(t.Context(), stack)
		require.NoError(t, err)
		for i := range left {
			require.Equal(t, left[i], status.Limits[i].Remaining, name)
		}
	}
}

// Calls of parties of a rate, and of lanes, are decided by the fast path, too, while none is queued.
func TestAnEmptyQueueCostsLittle(t *testing.T) {
	t.Parallel()
	long, short := ways(t)
	for name, policy := range map[string]policies.Policy{
		"parties of a rate": policies.Rate(6, time.Hour).Burst(6).Reserve("desk", 30), "parties of an exact rate": policies.AtMost(6, time.Hour).Burst(6).Reserve("desk", 30),
		"a lane": policies.Rate(12, time.Hour).Burst(12).Lane("desk", 50), "a lane of an exact rate": policies.AtMost(12, time.Hour).Burst(12).Lane("desk", 50),
	} {
		stack := store.Stack{Upstream: name, Limits: []store.Limit{{Policy: "p", Spec: policy.Spec()}}}
		if part, ok := policy.InLane("desk"); ok {
			stack.Limits = append(stack.Limits, store.Limit{Policy: part.Name(), Spec: part.Spec()})
		}
		reserve := func(is store.Shared, ids ...int64) ([]store.Grant, error) {
			calls, grants := make([]store.Call, len(ids)), make([]store.Grant, len(ids))
			for i, id := range ids {
				calls[i] = store.Call{Cost: 2, ID: id, Flow: id, Weight: id, MaxWait: time.Duration(id) * time.Hour}
			}
			return grants, is.ReserveAll(t.Context(), []store.Batch{{Stack: stack, Calls: calls, Grants: grants}})
		}
		_, err := reserve(long, 1)
		require.NoError(t, err, name)
		granted, err := reserve(short, 2, 3)
		require.NoError(t, err, name)
		require.True(t, granted[0].OK && granted[1].OK && granted[1].Wait() == 0, name)
		require.Equal(t, granted[0].Charges[0].To, granted[1].Charges[0].From, "%s: each has a charge of its own", name)
		_, err = reserve(short, 4)
		require.ErrorContains(t, err, "the long way", name)
		queued, err := reserve(long, 4)
		require.NoError(t, err, name)
		require.True(t, queued[0].Queued, name)
		require.NoError(t, long.Cancel(t.Context(), stack, granted[1:]), name)
		_, err = reserve(short, 5)
		require.ErrorContains(t, err, "the long way", "%s: there is room, but a call is queued", name)
	}
}

package dispatch_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// pieces is a store in which so much is free that goes now, in pieces: a call needs one of them that holds it. What it grants, it keeps.
type pieces struct {
	store.Store

	free    []int64
	costs   [][]int64 // of the calls of each request
	charged int64
	fail    error // of all requests but the first
}

func (p *pieces) Reserve(_ context.Context, _ store.Stack, calls []store.Call, grants []store.Grant) error {
	if len(p.costs) > 0 && p.fail != nil {
		return p.fail
	}
	var costs []int64
	for i := range calls {
		costs = append(costs, calls[i].Cost)
		at := slices.IndexFunc(p.free, func(piece int64) bool { return piece >= calls[i].Cost })
		if grants[i] = (store.Grant{At: 1, Binds: 0}); at >= 0 {
			p.free[at] -= calls[i].Cost
			p.charged += calls[i].Cost
			grants[i] = store.Grant{OK: true, Binds: store.BindsNothing}
		}
	}
	p.costs = append(p.costs, costs)
	return nil
}

// take takes up to n calls of a cost under a limit.
func (p *pieces) take(t *testing.T, n, cost, limit int64) (got int64, err error) {
	t.Helper()
	p.costs, p.charged = nil, 0
	limits := []store.Limit{{Policy: "limit", Spec: policies.Fixed(limit, 1e9).Spec()}}
	synctest.Test(t, func(t *testing.T) {
		got, err = newRig(t, p, nil).Take(t.Context(), &dispatch.Request{Limits: limits, Call: store.Call{Cost: cost}}, n)
	})
	return got, err
}

// Take takes all that is free, in one request, if it lies in one piece, and asks for no more at once than the limit admits.
func TestTakeAsksOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{1, 2, 3, 4, 5, 255, 256, 257, 258, 1000, 1023, 1024, 1025} {
		for free := range n + 2 {
			p := &pieces{free: []int64{free * 3}}
			got, err := p.take(t, n, 3, 3*800)
			if free == 0 {
				require.ErrorAs(t, err, new(refused))
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, min(n, free, 800), got, "%d free of %d", free, n)
			require.Equal(t, 3*got, p.charged)
			require.Len(t, p.costs, 1)
			require.LessOrEqual(t, slices.Max(p.costs[0]), int64(3*800))
			require.LessOrEqual(t, len(p.costs[0]), 256)
		}
	}
	p := &pieces{free: []int64{1 << 60}}
	got, err := p.take(t, 1<<62, 1, specs.MaxLimit)
	require.NoError(t, err)
	require.Equal(t, specs.MaxLimit, got)
	require.Len(t, p.costs, 1)
	require.Less(t, len(p.costs[0]), 64)
	_, err = p.take(t, 5000, 1, 700)
	require.NoError(t, err)
	require.Less(t, slices.Max(p.costs[0]), int64(700), "a store is never asked for more than the limit")
}

// If it lies in pieces, Take asks some times, and stops. What it took is the caller's, whatever becomes of the last request.
func TestTakeAsksAgain(t *testing.T) {
	t.Parallel()
	small := &pieces{free: slices.Repeat([]int64{5}, 40)}
	got, err := small.take(t, 250, 1, 1000)
	require.NoError(t, err)
	require.Equal(t, int64(200), got, "so few are asked for one by one")
	require.Len(t, small.costs, 1)

	large := &pieces{free: slices.Repeat([]int64{5}, 100)}
	got, err = large.take(t, 1000, 1, 1000)
	require.NoError(t, err)
	require.Positive(t, got)
	require.Len(t, large.costs, dispatch.MaxTakes)
	require.Equal(t, large.charged, got)

	broken := &pieces{free: slices.Repeat([]int64{5}, 100), fail: errDown}
	got, err = broken.take(t, 1000, 1, 1000)
	require.NoError(t, err)
	require.Positive(t, got)
	require.Equal(t, broken.charged, got)
}

package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/policies/specs"
)

func id(n int64) engine.Call { return engine.Call{ID: n} }

// A slot is given back with its permit. A charge without a permit has none to give back.
func TestPermitsAreGivenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, inFlight(1, 100*ms))
	b := r.goes(0, id(1))
	r.cancel(0, booking{charges: []engine.Charge{{From: 1}}})
	r.stands(0, id(2), 100*ms, 0)
	r.cancel(0, b)
	r.goes(0, id(2))
	require.Equal(t, int64(0), r.inspect(0).Queued)
	r.settle(0, b, 1, 5)
	r.account().Claim(r.limit(), epoch, engine.Charge{From: 3, To: 1})
	require.False(t, r.account().Slow(r.limit(), epoch, epoch))
	require.Zero(t, r.inspect(0).Remaining)
	require.Equal(t, int64(1), r.inspect(100*ms).Remaining)
}

// The upstream lets fewer run, for a while: no less than one.
func TestPermitsLearned(t *testing.T) {
	t.Parallel()
	r := newRig(t, inFlight(3, 100*ms))
	a, l := r.account(), r.limit()
	learn := func(value, until int64) bool { return a.Learn(l, epoch, value, epoch+until) }
	require.True(t, learn(2, 50*ms))
	require.False(t, learn(2, 50*ms), "that is known")
	require.Equal(t, int64(2), r.inspect(50*ms-1).Pace)
	require.Equal(t, int64(3), r.inspect(50*ms).Pace)
	require.Equal(t, epoch+50*ms, a.Expires())
	r.goes(0, id(1))
	r.goes(0, id(2))
	r.stands(0, id(3), 100*ms, 0)
	require.True(t, learn(1, 50*ms))
	require.Zero(t, r.inspect(0).Remaining, "two run, and one may")
	require.True(t, learn(-1, 0))
	require.Equal(t, int64(3), r.inspect(0).Pace)
	require.True(t, learn(1, 50*ms))
	require.True(t, learn(3, 50*ms), "as many as the limit")
	require.False(t, learn(9, 50*ms), "more than the limit")
	require.False(t, learn(1, 0), "until now")
	require.True(t, learn(1, 50*ms))
	require.True(t, learn(0, 50*ms), "0 ends it")
	r.goes(0, id(3))
}

// How permits stand: a lease that has run out counts no more, though nobody has dropped it.
func TestPermitsInspected(t *testing.T) {
	t.Parallel()
	r := newRig(t, inFlight(2, 100*ms))
	require.Equal(t, engine.Inspection{Remaining: 2, Next: 0, Pace: 2}, r.inspect(0))
	r.goes(0, id(1))
	require.Equal(t, engine.Inspection{Remaining: 1, Next: 0, Pace: 2, Full: 100 * ms}, r.inspect(0))
	r.goes(10*ms, id(2))
	r.stands(10*ms, id(3), 100*ms, 0)
	require.Equal(t, engine.Inspection{Next: 100 * ms, Pace: 2, Queued: 1, Full: 110 * ms}, r.inspect(20*ms))
	require.Equal(t, engine.Inspection{Remaining: 1, Next: 110 * ms, Pace: 2, Queued: 1, Full: 110 * ms}, r.inspect(100*ms), "who is queued comes first")
	require.Equal(t, engine.Inspection{Remaining: 2, Next: 600*ms - 1, Pace: 2, Queued: 1, Full: 600*ms - 1}, r.inspect(600*ms-1), "its turn has come, and it did not ask")
	require.Equal(t, engine.Inspection{Remaining: 2, Next: 600 * ms, Pace: 2, Full: 600 * ms}, r.inspect(600*ms), "it is taken for dead")
	require.Equal(t, epoch+600*ms, r.account().Expires())

	require.Equal(t, engine.Grant{OK: true, At: 700 * ms, Slack: 1000 * ms, Binds: engine.BindsNothing}, r.goes(700*ms, id(4)).Grant)
	none := newRig(t, inFlight(0, 100*ms))
	require.Equal(t, engine.Inspection{Next: 5, Full: 5}, none.inspect(5), "a share of nothing")
	none.stands(0, id(1), 1000*ms, 0)
	require.Equal(t, specs.Concurrency, none.limit().Spec.Algorithm)
}

package pools_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/pools"
)

// picked returns how often each credential of an account is picked in 3000 times.
func picked(l *pools.Pool, account string) map[string]int {
	n := make(map[string]int)
	for range 3000 {
		n[l.Pick(account, nil)]++
	}
	return n
}

// Credentials of one account share its limits: they are one choice for the store, with the weight of all of them.
func TestAccounts(t *testing.T) {
	t.Parallel()
	l := pools.New([]pools.Credential{{ID: "a", Account: "x"}, {ID: "b"}, {ID: "c", Account: "x", Weight: 3}}, []string{"key"})
	require.Equal(t, []pools.Account{
		{Name: "x", Credentials: []pools.Credential{{ID: "a", Account: "x", Weight: 1}, {ID: "c", Account: "x", Weight: 3}}, Weight: 4},
		{Name: "b", Credentials: []pools.Credential{{ID: "b", Account: "b", Weight: 1}}, Weight: 1},
	}, l.Accounts)
	require.Equal(t, 5, l.Weight)
	require.Equal(t, "x", l.AccountOf("c").Name)
	require.Nil(t, l.AccountOf("x"), "a name of an account is no ID")
	require.Nil(t, l.Account("a"), "and the other way round")
}

// Random picks follow the weights. The bounds are ten standard deviations away.
func TestWeights(t *testing.T) {
	t.Parallel()
	l := pools.New([]pools.Credential{{ID: "a", Account: "x"}, {ID: "b"}, {ID: "c", Account: "x", Weight: 3}}, nil)
	n := picked(l, "x")
	require.InDelta(t, 750, n["a"], 240)
	require.InDelta(t, 2250, n["c"], 240)
	require.Len(t, n, 2)
	drawn := make(map[int]int)
	for range 3000 {
		drawn[l.Any()]++
	}
	require.InDelta(t, 2400, drawn[0], 220)
	require.InDelta(t, 600, drawn[1], 220)
	require.Len(t, drawn, 2)
}

// A left credential is not picked until its time has come. If all of an account are left, the first to come back is picked.
func TestLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := pools.New([]pools.Credential{{ID: "a", Account: "x"}, {ID: "b", Account: "x"}, {ID: "c"}, {ID: "d"}}, nil)
		of, _ := l.Leave("none", time.Second)
		require.Nil(t, of)
		of, allFor := l.Leave("a", 10*time.Second)
		require.Equal(t, "x", of.Name)
		require.Zero(t, allFor, "b is in use")
		require.Equal(t, map[string]int{"b": 3000}, picked(l, "x"))
		_, allFor = l.Leave("b", 30*time.Second)
		require.Equal(t, 10*time.Second, allFor, "until a is back")
		require.Equal(t, map[string]int{"a": 3000}, picked(l, "x"))
		_, allFor = l.Leave("c", 5*time.Second)
		require.Equal(t, 5*time.Second, allFor, "it has an account of its own")

		time.Sleep(10*time.Second - 1)
		_, allFor = l.Leave("b", 20*time.Second)
		require.Equal(t, time.Duration(1), allFor)
		time.Sleep(time.Nanosecond)
		require.Equal(t, map[string]int{"a": 3000}, picked(l, "x"))
		time.Sleep(20 * time.Second)
		require.Len(t, picked(l, "x"), 2, "both are back")
	})
}

// If no credential is in use, OnOut reports it at once, and no account is paused.
func TestOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := pools.New([]pools.Credential{{ID: "a", Account: "x"}, {ID: "b", Account: "x"}, {ID: "c"}}, nil)
		out := 0
		stop := l.OnOut(func() { out++ })
		l.Leave("a", time.Second)
		l.Leave("b", time.Minute)
		require.Zero(t, l.Out())
		require.Zero(t, out)
		_, pause := l.Leave("c", time.Minute)
		require.Zero(t, pause)
		require.Equal(t, time.Second, l.Out())
		require.Equal(t, 1, out)
		time.Sleep(time.Second)
		require.Zero(t, l.Out())
		stop()
		l.Leave("a", time.Second)
		require.Equal(t, 1, out)
	})
}

// The rest of an account doubles with each refusal in a row of a call that went after the last one.
func TestRefusalsInARow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := pools.New([]pools.Credential{{ID: "a", Account: "x"}, {ID: "b", Account: "x"}, {ID: "c"}}, nil)
		for _, want := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
			time.Sleep(time.Second)
			together := time.Now()
			require.Equal(t, time.Duration(want)*time.Second, l.Refused("a", together))
			l.Accepted("a", together)
			require.Zero(t, l.Refused("b", together), "it could not know, and neither could the upstream")
		}
		require.Equal(t, time.Second, l.Refused("c", time.Now()), "it has an account of its own")
		time.Sleep(time.Second)
		l.Accepted("b", time.Now())
		require.Equal(t, time.Second, l.Refused("a", time.Now()))
	})
}

// Calls of one context keep their credential while it is in use.
func TestStick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := pools.New([]pools.Credential{{ID: "a", Account: "x"}, {ID: "b", Account: "x"}, {ID: "c"}}, nil)
		other := pools.New([]pools.Credential{{ID: "a"}}, nil)
		require.Empty(t, l.Kept(l.StickOf(t.Context())))
		ctx := l.Stick(t.Context())
		s := l.StickOf(ctx)
		require.NotNil(t, s)
		require.Nil(t, other.StickOf(ctx), "another pool has sticks of its own")
		require.Empty(t, l.Kept(s), "no call has got a credential yet")
		id := l.Pick("x", s)
		for range 100 {
			require.Equal(t, id, l.Pick("x", s))
		}
		require.Equal(t, "x", l.Kept(s))

		l.Leave(id, time.Second)
		require.Empty(t, l.Kept(s))
		next := l.Pick("x", s)
		require.NotEqual(t, id, next)
		time.Sleep(time.Second)
		require.Equal(t, next, l.Pick("x", s), "it keeps the one that it has got instead")
		require.Equal(t, "c", l.Pick("c", s), "a call that another account admits first")
		require.Equal(t, "c", l.Kept(s))
	})
}

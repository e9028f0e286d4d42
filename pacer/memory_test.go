package pacer_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

func TestMemoryStoreEvictsIdleKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.WithMaxKeys(100_000))
		c := limits(policies.PerSecond(100).Per("tenant"), policies.Fixed(10, time.Second).Per("tenant"))
		c.Store = store
		p := newPacer(t, c)
		for i := range extent(5000, 100_000) {
			require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", fmt.Sprint(i)), pacer.MaxWait(0)))
			time.Sleep(10 * ms)
		}
		require.Less(t, store.Len(), 1000, "keys whose effect is past are forgotten")
	})
}

func TestMemoryStoreThatIsFullRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := limits(policies.Daily(10, time.UTC).Per("tenant"))
		c.Store = memstore.New(memstore.WithMaxKeys(10))
		p := newPacer(t, c)
		for i := range 10 {
			require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", fmt.Sprint(i)), pacer.MaxWait(0)))
		}
		require.ErrorIs(t, p.Wait(t.Context(), pacer.Scope("tenant", "one more"), pacer.MaxWait(0)), memstore.ErrFull)
		require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", "3"), pacer.MaxWait(0)))
		time.Sleep(25 * time.Hour)
		require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", "one more"), pacer.MaxWait(0)))
	})
}

// A policy that becomes one of another kind keeps what was spent.
func TestOneNameForTwoAlgorithms(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		one, two := limits(policies.PerSecond(1).Named("x")), limits(policies.Fixed(1, time.Second).Named("x"))
		one.Store, two.Store = store, store
		require.NoError(t, newPacer(t, one).Wait(t.Context(), pacer.MaxWait(0)))
		require.ErrorIs(t, newPacer(t, two).Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
		time.Sleep(time.Second)
		require.NoError(t, newPacer(t, two).Wait(t.Context(), pacer.MaxWait(0)))
	})
}

func TestEscapeScope(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []string
		want   string
	}{
		{[]string{"acme"}, "acme"},
		{[]string{"bob@example.com"}, "bob@example.com"},
		{[]string{"a", "b"}, "a:b"},
		{[]string{"a:b"}, "a%3Ab"},
		{[]string{"{x}"}, "%7Bx%7D"},
		{[]string{"a/b%"}, "a%2Fb%25"},
		{[]string{"\x00\n"}, "%00%0A"},
		{[]string{"ü"}, "%C3%BC"},
		{[]string{"#x"}, "%23x"},
		{[]string{"", ""}, ":"},
	} {
		require.Equal(t, c.want, store.EscapeScope(c.values...))
	}
	long := store.EscapeScope(strings.Repeat("x", 129))
	require.Len(t, long, 65)
	require.NotEqual(t, long, store.EscapeScope(strings.Repeat("x", 130)))
	require.Len(t, store.EscapeScope(strings.Repeat("x", 1<<20)), 65)
	require.Equal(t, strings.Repeat("x", 128), store.EscapeScope(strings.Repeat("x", 128)))
}

func FuzzEscapeScope(f *testing.F) {
	f.Add("a", "b:c")
	f.Add("{", "}")
	f.Fuzz(func(t *testing.T, a, b string) {
		s := store.EscapeScope(a, b)
		require.LessOrEqual(t, len(s), 128)
		require.NotContains(t, s, "{")
		require.NotContains(t, s, "}")
		require.NotContains(t, s, "/")
		if a != b {
			require.NotEqual(t, store.EscapeScope(b, a), s)
		}
	})
}

// Making room for one key of a stack must not forget another key of the same stack: its charge would be lost.
func TestMakingRoomForgetsNoKeyOfTheStack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := limits(policies.PerSecond(1).Burst(1).Named("short"), policies.Every(time.Hour).Per("x").Optional())
		c.Store = memstore.New(memstore.WithMaxKeys(2))
		p := newPacer(t, c)
		require.NoError(t, p.Wait(t.Context(), pacer.Scope("x", "1"), pacer.MaxWait(0)))
		time.Sleep(5 * time.Second) // the key of short is idle now, the other is in use
		require.ErrorIs(t, p.Wait(t.Context(), pacer.Scope("x", "2"), pacer.MaxWait(0)), memstore.ErrFull, "three keys are needed")
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
		require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet, "short holds")
	})
}

// A pause counts for a reservation that was made before it, even if its Pacer has never slept before and so did not listen.
func TestAPauseBeforeTheFirstSleepIsHeeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := limits(policies.Every(10 * time.Second))
		c.Store = memstore.New()
		p, other := newPacer(t, c), newPacer(t, c)
		require.NoError(t, p.Wait(t.Context()))
		r, err := p.Reserve(t.Context())
		require.NoError(t, err)
		require.NoError(t, other.Report(t.Context(), policies.Feedback{Wait: 30 * time.Second}))
		start := time.Now()
		require.NoError(t, r.Wait(t.Context()))
		require.Equal(t, 30*time.Second, time.Since(start))
	})
}

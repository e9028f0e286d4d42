package pacer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// However many calls come at once, a store holds only as many keys as it may, and refuses the rest.
func TestAStoreIsNeverMoreThanFull(t *testing.T) {
	t.Parallel()
	const most, workers, tenants = 500, 8, 400
	now := store.Instant(time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC).UnixMicro())
	c := limits(policies.Daily(1_000_000, time.UTC).Per("tenant"), policies.Every(time.Hour).Burst(1000).Per("tenant").Named("hourly"))
	store := memstore.New(memstore.WithMaxKeys(most), memstore.WithClock(func() store.Instant { return now }))
	c.Store = store
	p := newPacer(t, c)
	var wg sync.WaitGroup
	var full atomic.Int64
	held := make([]atomic.Int64, tenants)
	for w := range workers {
		wg.Go(func() {
			for i := range tenants {
				k := (i*7 + w*50) % tenants
				err := p.Wait(t.Context(), pacer.Scope("tenant", fmt.Sprint(k)), pacer.MaxWait(0))
				if err == nil {
					held[k].Add(1)
				} else if assert.ErrorIs(t, err, memstore.ErrFull) {
					full.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, most, store.Len())
	require.Positive(t, full.Load())
	admitted := 0
	for k := range held {
		if held[k].Load() > 0 {
			admitted++
			require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", fmt.Sprint(k)), pacer.MaxWait(0)), "a key that is held stays")
		}
	}
	require.Equal(t, most/2, admitted, "a tenant has both of its keys or none")
}

// A stack that does not fit as a whole leaves no part of it behind.
func TestAStackThatDoesNotFitLeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := limits(policies.Daily(9, time.UTC).Per("a").Optional().Named("a"), policies.Daily(9, time.UTC).Per("b").Optional().Named("b"))
		store := memstore.New(memstore.WithMaxKeys(3))
		c.Store = store
		p := newPacer(t, c)
		require.NoError(t, p.Wait(t.Context(), pacer.Scope("a", "1"), pacer.Scope("b", "1"), pacer.MaxWait(0)))
		require.ErrorIs(t, p.Wait(t.Context(), pacer.Scope("a", "2"), pacer.Scope("b", "2"), pacer.MaxWait(0)), memstore.ErrFull)
		require.Equal(t, 2, store.Len())
		require.NoError(t, p.Wait(t.Context(), pacer.Scope("b", "2"), pacer.MaxWait(0)))
		require.ErrorIs(t, p.Wait(t.Context(), pacer.Scope("b", "3"), pacer.MaxWait(0)), memstore.ErrFull)
	})
}

// A full store has room as soon as one of its keys means nothing any more, however that came to be.
func TestAFullStoreHasRoomAsSoonAsItCan(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]func(ctx context.Context, p *pacer.Pacer, held *pacer.Reservation) error{
		"a reset":  func(ctx context.Context, p *pacer.Pacer, _ *pacer.Reservation) error { return fleet.Of(p).Reset(ctx) },
		"a cancel": func(ctx context.Context, _ *pacer.Pacer, held *pacer.Reservation) error { return held.Cancel(ctx) },
		"time": func(context.Context, *pacer.Pacer, *pacer.Reservation) error {
			time.Sleep(2*time.Hour + time.Second)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := limits(policies.Every(time.Hour).Burst(2).Per("tenant"))
				store := memstore.New(memstore.WithMaxKeys(2))
				c.Store = store
				p := newPacer(t, c)
				one := pacer.With(t.Context(), pacer.Scope("tenant", "1"))
				held, err := p.Reserve(one, pacer.NotBefore(time.Hour), pacer.MaxWait(pacer.Forever))
				require.NoError(t, err)
				for range 2 {
					require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", "2"), pacer.MaxWait(0)))
				}
				three := pacer.Scope("tenant", "3")
				require.ErrorIs(t, p.Wait(t.Context(), three, pacer.MaxWait(0)), memstore.ErrFull)
				require.ErrorIs(t, p.Wait(t.Context(), three, pacer.MaxWait(0)), memstore.ErrFull)
				require.NoError(t, free(one, p, held))
				require.NoError(t, p.Wait(t.Context(), three, pacer.MaxWait(0)))
			})
		})
	}
}

// A stack that never fits does not make the store forget that others will.
func TestAStackThatNeverFits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.WithMaxKeys(1))
		two, one := limits(ample().Named("a"), ample().Named("b")), limits(policies.PerSecond(1).Per("tenant"))
		two.Store, one.Store = store, store
		require.ErrorIs(t, newPacer(t, two).Wait(t.Context(), pacer.MaxWait(0)), memstore.ErrFull)
		p := newPacer(t, one)
		for i := range 3 {
			require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", fmt.Sprint(i)), pacer.MaxWait(0)))
			require.ErrorIs(t, p.Wait(t.Context(), pacer.Scope("tenant", "next"), pacer.MaxWait(0)), memstore.ErrFull)
			time.Sleep(2 * time.Second)
		}
	})
}

// A clock that panics leaves nothing locked.
func TestAClockThatPanics(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	c := limits(policies.PerSecond(1))
	c.Store = memstore.New(memstore.WithClock(func() store.Instant {
		if broken.Load() {
			panic("broken")
		}
		return store.Instant(1e15)
	}))
	p := newPacer(t, c)
	for _, known := range []bool{false, true} { // the key: the long way and the short one
		broken.Store(true)
		require.Panics(t, func() { _ = p.Wait(t.Context(), pacer.MaxWait(0)) })
		require.Panics(t, func() { _, _ = p.Status(t.Context()) })
		broken.Store(false)
		require.Equal(t, known, errors.Is(p.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet))
	}
}

package memstore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// However many keys come and go, no more are held than allowed, and a store whose keys are all in use returns an error.
func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	now := store.Instant(1e15)
	m := memstore.New(memstore.WithMaxKeys(100), memstore.WithClock(func() store.Instant { return now }))
	reserve := func(i int) error {
		stack := store.Stack{Upstream: "api", Limits: []store.Limit{{Policy: "rate", Scope: strconv.Itoa(i), Spec: policies.PerSecond(1).Spec()}}}
		return m.Reserve(t.Context(), stack, []store.Call{{Cost: 1}}, make([]store.Grant, 1))
	}
	for i := range 5000 {
		require.NoError(t, reserve(i))
		require.LessOrEqual(t, m.Len(), 100)
		if i%50 == 0 {
			memstore.Audit(t, m)
		}
		now = now.Add(30 * time.Millisecond)
	}
	for i := range 100 {
		if err := reserve(-i - 1); err != nil {
			require.ErrorIs(t, err, memstore.ErrFull)
			memstore.Audit(t, m)
			return
		}
	}
	require.Fail(t, "there is always room")
}

package observe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/observe"
	"github.com/headway-go/headway/pacer/internal/usage"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A fake is a store in memory that grants each call a slot after a delay.
type fake struct {
	store.Store
	observe.Events

	delay    time.Duration
	reported int
	back     int
	lost     int64
	panics   bool
}

// broken panics, if the store is to.
func (f *fake) broken() {
	if f.panics {
		panic("a bug in a store")
	}
}

func (f *fake) NotObserved(n int64) { f.lost += n }

func (f *fake) Reserve(_ context.Context, _ store.Stack, _ []store.Call, grants []store.Grant) error {
	f.broken()
	now := store.Instant(time.Now().UnixMicro())
	for i := range grants {
		grants[i] = store.Grant{OK: true, Now: now, At: now.Add(f.delay), Charges: make([]store.Charge, 1)}
	}
	return nil
}

func (*fake) Predicted(context.Context, *observe.Observation, *store.Grant) {}

func (f *fake) Cancel(_ context.Context, _ store.Stack, grants []store.Grant) error {
	f.broken()
	f.back += len(grants)
	return nil
}

func (f *fake) Report(context.Context, store.Stack, []store.Note) (store.Instant, int, error) {
	f.broken()
	f.reported++
	return 0, 0, nil
}

func newObserver(f *fake, direct bool) *observe.Observer {
	return observe.New(&observe.Config{
		Upstream: "test", Store: f, Direct: direct, Timeout: time.Second, Meter: usage.NewMeter(nil, false),
		Events: f,
	})
}

func observed(t *testing.T, o *observe.Observer) *observe.Observation {
	t.Helper()
	one := o.New(t.Context(), 0)
	one.Limits = []store.Limit{{Policy: "p", Spec: policies.PerSecond(1).Spec()}}
	one.Call = store.Call{Cost: 1}
	one.Ask(t.Context())
	return one
}

func settle(t *testing.T, one *observe.Observation) {
	t.Helper()
	in := binding.InForce{Given: []policies.Policy{policies.PerSecond(1).Named("p")}}
	actual, err := new(binding.Reader).Settlement(binding.NewSet(&binding.Config{}, &in, nil), []binding.Option{{Kind: binding.Cost, N: 3}})
	require.NoError(t, err)
	one.Settle(t.Context(), actual)
}

// A call is settled when its slot has come, once, and not at all if it was given back.
func TestWhatIsSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{delay: time.Second}
		o := newObserver(f, true)
		goes, given := observed(t, o), observed(t, o)
		settle(t, goes)
		settle(t, goes)
		given.Cancel(t.Context(), false)
		given.Cancel(t.Context(), false)
		synctest.Wait()
		require.Zero(t, f.reported, "its slot is to come")
		require.Equal(t, 1, f.back)
		time.Sleep(2 * time.Second)
		observed(t, o)
		settle(t, given)
		observed(t, o).Cancel(t.Context(), false)
		require.Equal(t, 2, f.back)
		o.Close()
		require.Equal(t, 1, f.reported)
		require.Equal(t, 3, f.back, "Close gives back the one whose slot is to come, and no other")
	})
}

// A permit is released once.
func TestPermits(t *testing.T) {
	t.Parallel()
	o := newObserver(&fake{}, true)
	key := store.Key{Policy: "p"}
	first, second := o.New(t.Context(), 0), o.New(t.Context(), 0)
	require.Equal(t, int64(1), first.Enter(key))
	require.Equal(t, int64(2), second.Enter(key))
	first.Release()
	first.Release()
	first.Cancel(t.Context(), true)
	require.Equal(t, int64(2), o.New(t.Context(), 0).Enter(key))
	require.Equal(t, int64(1), o.New(t.Context(), 0).Enter(store.Key{Policy: "other"}))
}

// A store that panics in a goroutine of the observer costs no more than a prediction.
func TestAStoreThatPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{delay: time.Second, panics: true}
		o := newObserver(f, false)
		observed(t, o)
		synctest.Wait()
		require.Equal(t, int64(1), f.lost)
		f.panics, f.delay = false, 0
		over, gone := observed(t, o), observed(t, o)
		synctest.Wait()
		f.panics = true
		over.Cancel(t.Context(), false)
		settle(t, gone)
		synctest.Wait()
		f.panics = false
		settle(t, observed(t, o))
		synctest.Wait()
		require.Equal(t, 1, f.reported)
	})
}

// A nil observation is of a call that no policy observes.
func TestNothingIsObserved(t *testing.T) {
	t.Parallel()
	var one *observe.Observation
	one.Release()
	one.Cancel(t.Context(), false)
	settle(t, one)
	require.Empty(t, one.Lessons())
}

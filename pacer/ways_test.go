package pacer_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/policies"
)

// A way paces calls and reports what the upstream answered.
type way func(ctx context.Context, p *pacer.Pacer, call func(context.Context) (policies.Reading, error)) error

// byDo leaves it to Do.
func byDo(ctx context.Context, p *pacer.Pacer, call func(context.Context) (policies.Reading, error)) error {
	return p.Do(ctx, call)
}

// byReservation reports on the reservation of the call.
func byReservation(ctx context.Context, p *pacer.Pacer, call func(context.Context) (policies.Reading, error)) error {
	r, err := p.Acquire(ctx, pacer.Tracked())
	if err != nil {
		return err
	}
	defer r.Release()
	reading, err := call(ctx)
	_ = r.Report(context.WithoutCancel(ctx), reading.Feedback...)
	return err
}

// blindly reports on no call in particular.
func blindly(ctx context.Context, p *pacer.Pacer, call func(context.Context) (policies.Reading, error)) error {
	if err := p.Wait(ctx); err != nil {
		return err
	}
	reading, err := call(ctx)
	for _, f := range reading.Feedback {
		_ = p.Report(context.WithoutCancel(ctx), f)
	}
	return err
}

// A refusal is known to be stray only by the call that it is about. So a program that reports on its reservations uses as much of a strict
// limit as one that uses Do. docs/tutorial.md describes that each refusal pauses one that reports on no call.
func TestReportsOnReservationsUseWhatDoUses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		way         way
		least, most float64
	}{
		"Do":                          {byDo, 0.95, 1},
		"Acquire and its Report":      {byReservation, 0.95, 1},
		"Wait and the Pacer's Report": {blindly, 0, 0.7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				used, refused := useStrictly(t, c.way)
				t.Logf("%.1f %% used, %d refused", 100*used, refused)
				require.GreaterOrEqual(t, used, c.least)
				require.LessOrEqual(t, used, c.most)
			})
		})
	}
}

// useStrictly has four processes of 16 callers use an upstream that admits 50 calls in any second, counted when they arrive: 15 ms and an
// exponential 5 ms after their start. It returns the part that was used of a minute, and how many calls were refused. The ten seconds before do not count.
func useStrictly(t *testing.T, call way) (used float64, refused int) {
	t.Helper()
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(1, 41))
	api := &quotaOf{limit: 50, period: time.Second}
	arrive := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if api.spend(time.Now()) {
			return true
		}
		refused++
		return false
	}
	delay := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return 15*ms + time.Duration(rng.ExpFloat64()*float64(5*ms))
	}
	request := func(context.Context) (policies.Reading, error) {
		time.Sleep(delay())
		admitted := arrive()
		time.Sleep(delay())
		if admitted {
			return policies.Reading{}, nil
		}
		return policies.Reading{Verdict: policies.Limited, Feedback: []policies.Feedback{{Source: "Retry-After", Refused: true, Wait: time.Second}}}, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	shared := memstore.New()
	for range 4 {
		p, err := pacer.New(pacer.Config{
			Upstream: "test", Store: shared, Policies: []policies.Policy{policies.AtMost(50, time.Second)}, MaxWait: pacer.Forever,
		})
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Close()) }()
		for range 16 {
			callers.Go(func() {
				for call(ctx, p, request) == nil {
				}
			})
		}
	}
	time.Sleep(10 * time.Second)
	mu.Lock()
	before := len(api.spent)
	refused = 0
	mu.Unlock()
	time.Sleep(time.Minute)
	mu.Lock()
	used = float64(len(api.spent)-before) / 50 / 60
	during := refused
	mu.Unlock()
	cancel()
	callers.Wait()
	return used, during
}

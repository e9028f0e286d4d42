package bench_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// localPicture shows three processes that lose the store which they share, and find it again.
func localPicture(t *testing.T) *timeline {
	t.Helper()
	const phase, lost, back, ends = 1500 * ms, 1540 * ms, 3040 * ms, 5 * time.Second // never when a call goes
	names := []string{"process 1", "process 2", "process 3"}
	calls := make([][]time.Duration, len(names))
	synctest.Test(t, func(t *testing.T) {
		store := &distant{Store: memstore.New(), epoch: store.Epoch{Began: store.Instant(time.Now().UnixMicro())}}
		began := time.Now()
		var wg sync.WaitGroup
		for i := range names {
			p, err := pacer.New(pacer.Config{
				Upstream: "api", Store: store, Policies: []policies.Policy{policies.PerSecond(12)}, Jitter: pacer.NoJitter, Processes: len(names),
			})
			require.NoError(t, err)
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 10 * ms) // so that no two come at the same instant
				for p.Wait(t.Context()) == nil && time.Since(began) < ends {
					calls[i] = append(calls[i], time.Since(began))
				}
				require.NoError(t, p.Close())
			})
		}
		time.Sleep(lost - time.Since(began))
		store.set(errors.New("connection refused"))
		time.Sleep(back - time.Since(began))
		store.set(nil)
		wg.Wait()
	})
	l := &timeline{
		title: "12/s shared by three processes, which lose Redis for a second and a half", to: ends, step: 500 * ms, names: 96,
		keys: []key{{sign{0, blue, going}, "goes"}, {sign{0, pale, nil}, "the store is out of reach"}},
	}
	all := slices.Sorted(slices.Values(slices.Concat(calls...)))
	for i, name := range append(names, "all together") {
		at := all
		if i < len(calls) {
			at = calls[i]
		}
		r := row{name: name, signs: gone(at, blue), room: 14, spans: []span{{from: lost, to: back, form: shade, colour: pale}}}
		for _, from := range []time.Duration{0, lost, back + 400*ms} {
			n := 0
			for _, d := range at {
				if d >= from && d < from+phase {
					n++
				}
			}
			r.spans = append(r.spans, span{from: from + 20*ms, to: from + phase - 20*ms, form: brace, colour: faint, label: fmt.Sprint(n, " calls")})
		}
		l.rows = append(l.rows, r)
	}
	return l
}

// distant is a store that processes share, and that can be out of reach.
type distant struct {
	*memstore.Store

	epoch store.Epoch

	mu      sync.Mutex
	failure error
	barrier store.Instant
	came    []string
}

var _ store.Shared = (*distant)(nil)

func (d *distant) set(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failure = err
}

func (d *distant) fails() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failure
}

// Reserve implements [store.Store].
func (d *distant) Reserve(ctx context.Context, stack store.Stack, calls []store.Call, grants []store.Grant) error {
	if err := d.fails(); err != nil {
		return err
	}
	return d.Store.Reserve(ctx, stack, calls, grants)
}

// ReserveAll implements [store.Shared].
func (d *distant) ReserveAll(ctx context.Context, batches []store.Batch) error {
	for i := range batches {
		if err := d.Reserve(ctx, batches[i].Stack, batches[i].Calls, batches[i].Grants); err != nil {
			return err
		}
	}
	return nil
}

// Cancel implements [store.Store].
func (d *distant) Cancel(ctx context.Context, stack store.Stack, grants []store.Grant) error {
	if err := d.fails(); err != nil {
		return err
	}
	return d.Store.Cancel(ctx, stack, grants)
}

// CancelAll implements [store.Shared].
func (d *distant) CancelAll(ctx context.Context, batches []store.Batch) error {
	for i := range batches {
		if err := d.Cancel(ctx, batches[i].Stack, batches[i].Grants); err != nil {
			return err
		}
	}
	return nil
}

// Pauses implements [store.Shared].
func (d *distant) Pauses(ctx context.Context, stack store.Stack) (store.StackStatus, error) {
	if err := d.fails(); err != nil {
		return store.StackStatus{}, err
	}
	return d.Status(ctx, stack)
}

// Report implements [store.Store].
func (d *distant) Report(ctx context.Context, stack store.Stack, notes []store.Note) (store.Instant, int, error) {
	if err := d.fails(); err != nil {
		return 0, 0, err
	}
	return d.Store.Report(ctx, stack, notes)
}

// Heartbeat implements [store.Shared].
func (d *distant) Heartbeat(ctx context.Context, upstream string, b store.Heartbeat) (store.Membership, error) {
	if err := d.fails(); err != nil {
		return store.Membership{}, err
	}
	seen, err := d.Status(ctx, store.Stack{Upstream: upstream})
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.came, b.ID) {
		d.came = append(d.came, b.ID)
	}
	if b.Barrier > 0 && d.barrier < seen.Now {
		d.barrier = seen.Now + store.Instant(b.Barrier.Microseconds())
	}
	return store.Membership{Now: seen.Now, Epoch: d.epoch, Alive: len(d.came), Rank: slices.Index(d.came, b.ID), Barrier: d.barrier}, err
}

// Fault implements [store.Shared].
func (*distant) Fault(error) store.Fault { return store.Unreachable }

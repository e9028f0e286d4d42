package redisstore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// patient returns the options of a client that waits for a busy store. A punctual one: see [redisstore.Store.Punctual].
func patient(addr string, punctual bool) *redis.Options {
	return &redis.Options{
		Addr: addr, DisableIdentity: true, ContextTimeoutEnabled: punctual, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
	}
}

// noted is a store that remembers which slots it granted, to distinguish them from those that a process granted locally.
type noted struct {
	*redisstore.Store

	mu      sync.Mutex
	granted map[store.Instant]store.Instant // by slot: when

	counted    atomic.Bool // a heartbeat's reply has counted the whole fleet
	acquainted atomic.Bool // and the process has read it: another heartbeat has begun
}

func note(backing *redisstore.Store) *noted {
	return &noted{Store: backing, granted: make(map[store.Instant]store.Instant)}
}

// Heartbeat implements [store.Shared]. A late one may still be under way when the next one begins.
func (s *noted) Heartbeat(ctx context.Context, upstream string, b store.Heartbeat) (store.Membership, error) {
	s.acquainted.Store(s.counted.Load())
	m, err := s.Store.Heartbeat(ctx, upstream, b)
	if err == nil && m.Alive == fleetSize {
		s.counted.Store(true)
	}
	return m, err
}

// Reserve implements [store.Store].
func (s *noted) Reserve(ctx context.Context, stack store.Stack, calls []store.Call, grants []store.Grant) error {
	return s.ReserveAll(ctx, []store.Batch{{Stack: stack, Calls: calls, Grants: grants}})
}

// ReserveAll implements [store.Shared].
func (s *noted) ReserveAll(ctx context.Context, batches []store.Batch) error {
	if err := s.Store.ReserveAll(ctx, batches); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range batches {
		for j := range batches[i].Grants {
			if g := &batches[i].Grants[j]; g.OK {
				s.granted[g.At] = g.Now
			}
		}
	}
	return nil
}

// acquire makes a call that may go now, and returns its data.
func (s *noted) acquire(ctx context.Context, p *pacer.Pacer, opts ...pacer.Option) (*pacer.Reservation, outing, error) {
	requested := micros()
	r, err := p.Acquire(ctx, opts...)
	if err != nil {
		return nil, outing{}, err
	}
	at := micros()
	slot, slack := inside.Slot(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	return r, outing{Requested: requested, Granted: int64(s.granted[slot]), Slot: int64(slot), Slack: slack.Microseconds(), At: at}, nil
}

// micros is the wall clock, which is also the server's on the same machine.
func micros() int64 { return time.Now().UnixMicro() }

// booked is a limit that no fleet reaches: it counts charges, for comparison with the calls that went.
var booked = policies.Fixed(bookedLimit, 10*365*24*time.Hour).Named("booked")

const bookedLimit = 1_000_000

// A band is some pacers of this process that share a server, as the processes of a fleet do.
type band struct {
	all    []*pacer.Pacer
	stores []*noted
	rdb    *redis.Client // of the test

	running, most atomic.Int64 // calls

	mu     sync.Mutex
	went   []outing
	lost   []error // of calls that did not go though the band was not over
	enough int     // so many calls end the band; 0 for never
	end    context.CancelFunc
}

// newBand returns one whose clients reach the server at an address. All its policies are booked, too: see booked.
func newBand(t *testing.T, server *redistest.Server, addr string, processes int, ps ...policies.Policy) *band {
	t.Helper()
	return newUnbookedBand(t, server, addr, processes, append([]policies.Policy{booked}, ps...)...)
}

// newUnbookedBand returns one with these policies and no other.
func newUnbookedBand(t *testing.T, server *redistest.Server, addr string, processes int, ps ...policies.Policy) *band {
	t.Helper()
	b := &band{rdb: server.Client()}
	for i := range processes {
		rdb := redis.NewClient(patient(addr, i%2 == 0))
		t.Cleanup(func() { _ = rdb.Close() })
		store, err := redisstore.New(rdb)
		require.NoError(t, err)
		config := pacer.Config{Upstream: "band", Store: note(store), Policies: ps, MaxWait: pacer.Forever, StoreTimeout: patience}
		p, err := pacer.New(config)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		b.all, b.stores = append(b.all, p), append(b.stores, config.Store.(*noted))
	}
	return b
}

// work has a number of callers of each process call, one call after the other, until the context ends. Each call takes a while.
func (b *band) work(ctx context.Context, callers int, takes time.Duration, options func(process, caller int) (tenant string, opts []pacer.Option)) {
	var all sync.WaitGroup
	for i := range b.all {
		for j := range callers {
			all.Go(func() {
				var tenant string
				var opts []pacer.Option
				if options != nil {
					tenant, opts = options(i, j)
				}
				if tenant != "" {
					opts = append(opts, pacer.Scope("tenant", tenant))
				}
				for ctx.Err() == nil {
					b.call(ctx, i, takes, tenant, opts)
				}
			})
		}
	}
	all.Wait()
}

func (b *band) call(ctx context.Context, process int, takes time.Duration, tenant string, opts []pacer.Option) {
	r, o, err := b.stores[process].acquire(ctx, b.all[process], opts...)
	if err == nil {
		for n, most := b.running.Add(1), b.most.Load(); n > most && !b.most.CompareAndSwap(most, n); most = b.most.Load() {
		}
		if takes > 0 {
			time.Sleep(takes) //realtime: it is how long the upstream takes
		}
		b.running.Add(-1)
		r.Release()
	}
	o.process, o.Tenant = process, tenant
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		if b.went = append(b.went, o); len(b.went) == b.enough {
			b.end()
		}
	case ctx.Err() == nil:
		b.lost = append(b.lost, err)
	}
}

// closed closes all pacers. A call that was being moved when its context ended gives its slot back when it has moved, and Close waits for
// that.
func (b *band) closed(t *testing.T) {
	t.Helper()
	for _, p := range b.all {
		require.NoError(t, p.Close())
	}
}

// look returns how the store sees one policy of the band, which has no scope.
func (b *band) look(t *testing.T, policy policies.Policy) store.LimitStatus {
	t.Helper()
	status, err := must(redisstore.New(b.rdb)).Status(t.Context(), store.Stack{Upstream: "band", Limits: []store.Limit{{Policy: policy.Name(), Spec: policy.Spec()}}})
	require.NoError(t, err)
	return status.Limits[0]
}

// requireTruth fails the test if a call breaks a rule, if one was lost, or if something is charged that did not go.
func (b *band) requireTruth(t *testing.T, rules ...rule) {
	t.Helper()
	require.Empty(t, b.lost)
	for i := range b.went {
		require.False(t, b.went[i].local(), "a process that waits for its store never paces locally")
	}
	require.Empty(t, referee(b.went, rules...))
	b.closed(t)
	require.Equal(t, int64(len(b.went)), bookedLimit-b.look(t, booked).Remaining, "calls that were charged")
}

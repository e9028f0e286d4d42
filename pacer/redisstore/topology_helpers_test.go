package redisstore_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A load is a fleet in this process: Pacers of one upstream, each with a store and a client of its own, as processes have
// them, and goroutines that call as fast as they may. A referee judges their slots and when they went.
type load struct {
	t      *testing.T
	failed failures
	cancel context.CancelFunc
	done   chan struct{}
	known  int64 // since when each process knows how many there are

	mu   sync.Mutex
	went [][]outing // by goroutine
	errs []error
}

// The load of a test: 4 processes × 8 goroutines at 50 a second, each of which goes about every 0.66 s.
const (
	loadGoroutines = 8
	loadLimit      = 50
	loadUpstream   = "fleet"
	loadKey        = "pacer:10:{fleet}" // the upstream's own key: all of its keys are in the same slot
	loadLine       = fleetSize * loadGoroutines
)

// startLoad lets a fleet call until stop, and returns when its processes know each other. client makes a client for one process.
func startLoad(t *testing.T, client func() redis.UniversalClient) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{t: t, cancel: cancel, done: make(chan struct{})}
	l.went = make([][]outing, loadLine)
	var running sync.WaitGroup
	var closing []func() error
	var stores []*noted
	for i := range fleetSize {
		rdb := client()
		rdb.AddHook(&l.failed)
		store, err := redisstore.New(rdb)
		require.NoError(t, err)
		s := note(store)
		stores = append(stores, s)
		p, err := pacer.New(pacer.Config{
			Upstream: loadUpstream, Store: s, Policies: []policies.Policy{loadPolicy()},
			// If the very first operation takes longer than a busy machine lets it, the process begins locally.
			Processes: fleetSize,
			// A busy store is not taken for one that is gone.
			StoreTimeout: 2 * time.Second,
		})
		require.NoError(t, err)
		closing = append(closing, p.Close, rdb.Close)
		for j := range loadGoroutines {
			running.Go(func() { l.call(ctx, s, p, i, i*loadGoroutines+j) })
		}
	}
	go func() {
		defer close(l.done)
		running.Wait()
		for _, c := range closing {
			_ = c()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-l.done
	})
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(stores, func(n *noted) bool { return !n.acquainted.Load() })
	}, patience, 10*time.Millisecond, "the processes know each other")
	l.known = micros()
	return l
}

// loadPolicy is what the upstream of the load allows.
func loadPolicy() policies.Policy { return policies.AtMost(loadLimit, time.Second).Skew(skew) }

func (l *load) call(ctx context.Context, s *noted, p *pacer.Pacer, process, goroutine int) {
	for ctx.Err() == nil {
		_, o, err := s.acquire(ctx, p)
		l.mu.Lock()
		switch {
		case err == nil:
			o.process = process
			l.went[goroutine] = append(l.went[goroutine], o)
		case ctx.Err() == nil:
			l.errs = append(l.errs, err)
		}
		l.mu.Unlock()
	}
}

// stop ends the load when every goroutine has gone once more. It fails the test if a call had an error or does not return, if one went
// before its slot, or if more went than the policy allows: of the store's grants between the instants at which it lost its memory, and of
// each process's local grants. The machine never causes that.
func (l *load) stop(losses ...int64) {
	l.t.Helper()
	l.end()
	calls := slices.DeleteFunc(slices.Concat(l.went...), func(o outing) bool { return o.local() && o.Requested < l.known })
	require.Empty(l.t, refereeOfEpochs(calls, losses, fiftyASecond))
}

// end ends the load, as stop does, and judges everything but whether the policy was kept.
func (l *load) end() {
	l.t.Helper()
	from := micros()
	require.Eventually(l.t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !slices.ContainsFunc(l.went, func(went []outing) bool { return len(went) == 0 || went[len(went)-1].At < from })
	}, patience, 10*time.Millisecond, "every goroutine goes")
	l.cancel()
	select {
	case <-l.done:
	case <-time.After(patience):
		l.t.Fatal("a call does not return although its context has ended, or a Pacer does not close")
	}
	require.Empty(l.t, l.errs, "no call has an error")
	for _, went := range l.went {
		require.Empty(l.t, early(went))
	}
}

// shared returns the calls that the store granted.
func (l *load) shared() (calls []outing) {
	for _, o := range slices.Concat(l.went...) {
		if !o.local() {
			calls = append(calls, o)
		}
	}
	return calls
}

// failures counts by its first word how scripts fail at clients: whether a test has disturbed anything, and how.
type failures struct {
	mu   sync.Mutex
	seen map[string]int
}

// DialHook implements [redis.Hook].
func (f *failures) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (f *failures) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements [redis.Hook].
func (f *failures) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err != nil && strings.HasPrefix(cmd.Name(), "eval") {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.seen == nil {
				f.seen = make(map[string]int)
			}
			word, _, _ := strings.Cut(err.Error(), " ")
			f.seen[word]++
		}
		return err
	}
}

// of returns how often something failed whose text begins with a word.
func (f *failures) of(word string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[word]
}

// String returns all that failed.
func (f *failures) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, word := range slices.Sorted(maps.Keys(f.seen)) {
		all = append(all, fmt.Sprintf("%s %d", word, f.seen[word]))
	}
	return cmp.Or(strings.Join(all, ", "), "nothing")
}

// served returns how many EVALSHAs a server has run with success since its counts were last reset.
func served(t *testing.T, server *redistest.Server) int {
	t.Helper()
	info, err := server.Client().Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "cmdstat_evalsha:"); ok {
			var calls, failed, n int
			for field := range strings.SplitSeq(rest, ",") {
				name, value, _ := strings.Cut(field, "=")
				if _, err := fmt.Sscan(value, &n); err != nil {
					continue
				}
				switch name {
				case "calls":
					calls = n
				case "failed_calls":
					failed = n
				}
			}
			return calls - failed
		}
	}
	return 0
}

// forgetCounts resets what served counts.
func forgetCounts(t *testing.T, server *redistest.Server) {
	t.Helper()
	require.NoError(t, server.Client().ConfigResetStat(t.Context()).Err())
}

// requireInUse waits until the load's accounts are kept in the store again: each process goes as the store grants it, and a line of
// calls is seen by one that is no part of the load.
func (l *load) requireInUse(rdb redis.UniversalClient) {
	l.t.Helper()
	backing, err := redisstore.New(rdb)
	require.NoError(l.t, err)
	policy, start := loadPolicy(), micros()
	stack := store.Stack{Upstream: loadUpstream, Limits: []store.Limit{{Policy: policy.Name(), Spec: policy.Spec()}}}
	require.Eventually(l.t, func() bool {
		s, err := backing.Status(l.t.Context(), stack)
		return err == nil && s.Limits[0].Backlog >= 1 && s.Limits[0].Backlog <= loadLine+2 && l.granting(start) == fleetSize
	}, patience, 10*time.Millisecond, "the store keeps the accounts, and each process goes as it grants")
}

// granting returns of how many processes a call went since an instant that the store had granted.
func (l *load) granting(since int64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	processes := make(map[int]bool)
	for _, went := range l.went {
		for i := range went {
			if o := &went[i]; !o.local() && o.At >= since {
				processes[o.process] = true
			}
		}
	}
	return len(processes)
}

// A refuserLoad is goroutines of a Pacer that does not pace locally, which call until stop.
type refuserLoad struct {
	went atomic.Int64
	stop context.CancelFunc
	done sync.WaitGroup

	mu   sync.Mutex
	errs [loadGoroutines][]error
}

// startRefuser lets goroutines of a Pacer call that does not pace locally.
func startRefuser(t *testing.T, rdb redis.UniversalClient) *refuserLoad {
	t.Helper()
	p := refuser(t, rdb, policies.PerSecond(200))
	ctx, cancel := context.WithCancel(t.Context())
	l := &refuserLoad{stop: cancel}
	for i := range loadGoroutines {
		l.done.Go(func() {
			for ctx.Err() == nil {
				err := p.Wait(ctx)
				switch {
				case err == nil:
					l.went.Add(1)
				case ctx.Err() == nil:
					l.mu.Lock()
					l.errs[i] = append(l.errs[i], err)
					l.mu.Unlock()
					time.Sleep(5 * time.Millisecond) //realtime: refused calls that come again at once would do nothing else
				}
			}
		})
	}
	return l
}

// goes waits until more calls have gone than before.
func (l *refuserLoad) goes(t *testing.T, before int64) {
	t.Helper()
	require.Eventually(t, func() bool { return l.went.Load() > before }, patience, 10*time.Millisecond, "calls go")
}

// refused waits until each goroutine has been refused for a reason once more.
func (l *refuserLoad) refused(t *testing.T, reports string) {
	t.Helper()
	count := func(i int) (n int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, err := range l.errs[i] {
			if strings.Contains(err.Error(), reports) {
				n++
			}
		}
		return n
	}
	for i := range l.errs {
		before := count(i)
		require.Eventually(t, func() bool { return count(i) > before }, patience, 10*time.Millisecond, "goroutine %d receives %s", i, reports)
	}
}

// end ends the load and checks the refusals: the store is out of reach, because of its answer, or because no answer came in time or a
// connection ended, as at times on a busy machine.
func (l *refuserLoad) end(t *testing.T, reports string) {
	t.Helper()
	l.stop()
	l.done.Wait()
	reported, all := 0, 0
	for _, errs := range l.errs {
		for _, err := range errs {
			all++
			var failed *pacer.StoreError
			require.ErrorAs(t, err, &failed)
			require.ErrorIs(t, err, store.ErrUnreachable)
			if strings.Contains(err.Error(), reports) {
				reported++
			}
		}
	}
	t.Logf("%d of %d refusals say %s", reported, all, reports)
	require.Positive(t, reported)
}

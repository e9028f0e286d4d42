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
	"github.com/headway-go/headway/pacer/internal/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// A load is a fleet in this process: Pacers of one upstream, each with a store and a client of its own, as processes have
// them, and goroutines that call as fast as they may. What the upstream sees is judged from the times at which they went.
type load struct {
	t      *testing.T
	failed failures
	cancel context.CancelFunc
	done   chan struct{}
	began  time.Time

	// To be read when all are done.
	went [][]time.Time // by goroutine
	late []lateness

	mu   sync.Mutex
	errs []error
}

// lateness is how late a goroutine woke up that sleeps all the time: what the machine does to those who wait.
type lateness struct {
	at time.Time
	by time.Duration
}

// The load of a test: 4 processes × 8 goroutines at 50 a second, each of which goes about every 0.66 s.
const (
	loadProcesses  = 4
	loadGoroutines = 8
	loadLimit      = 50
	loadUpstream   = "fleet"
	loadKey        = "pacer:{fleet}" // the upstream's own key: all of its keys are in the same slot
	loadLine       = loadProcesses * loadGoroutines
)

// startLoad lets a fleet call until stop. client makes a client for one process.
func startLoad(t *testing.T, client func() redis.UniversalClient) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{t: t, cancel: cancel, done: make(chan struct{})}
	l.went = make([][]time.Time, loadLine)
	var running sync.WaitGroup
	var closing []func() error
	l.began = time.Now()
	for i := range loadProcesses {
		rdb := client()
		rdb.AddHook(&l.failed)
		store, err := redisstore.New(rdb)
		require.NoError(t, err)
		p, err := pacer.New(pacer.Config{
			Upstream: loadUpstream, Store: store, Policies: []policies.Policy{loadPolicy()},
			// If the very first operation takes longer than a busy machine lets it, the process begins alone.
			Processes: loadProcesses,
		})
		require.NoError(t, err)
		closing = append(closing, p.Close, rdb.Close)
		for j := range loadGoroutines {
			running.Go(func() { l.call(ctx, p, i*loadGoroutines+j) })
		}
	}
	running.Go(func() {
		for ctx.Err() == nil {
			due := time.Now().Add(2 * time.Millisecond)
			time.Sleep(time.Until(due))
			now := time.Now()
			l.late = append(l.late, lateness{now, now.Sub(due)})
		}
	})
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
	return l
}

// loadPolicy is what the upstream of the load allows.
func loadPolicy() policies.Policy { return policies.AtMost(loadLimit, time.Second).Skew(skew) }

func (l *load) call(ctx context.Context, p *pacer.Pacer, goroutine int) {
	for ctx.Err() == nil {
		err := p.Wait(ctx)
		now := time.Now()
		switch {
		case err == nil:
			l.went[goroutine] = append(l.went[goroutine], now)
		case ctx.Err() == nil:
			l.mu.Lock()
			l.errs = append(l.errs, err)
			l.mu.Unlock()
			time.Sleep(time.Millisecond)
		}
	}
}

// stop ends the load. It fails the test if a call had an error or if somebody was lost: did not go any more, or does not
// return. Such a thing is never the machine's fault.
func (l *load) stop() seen {
	l.t.Helper()
	ended := time.Now()
	l.cancel()
	select {
	case <-l.done:
	case <-time.After(10 * time.Second):
		l.t.Fatal("a call does not return although its context has ended, or a Pacer does not close")
	}
	require.Empty(l.t, l.errs, "no call has an error")
	for i, went := range l.went {
		require.NotEmpty(l.t, went, "goroutine %d never went", i)
		require.Less(l.t, ended.Sub(went[len(went)-1]), 2*time.Second, "goroutine %d does not go any more", i)
	}
	return l.judge()
}

// seen is what the upstream saw of a load.
type seen struct {
	calls   int
	rate    float64       // per second
	most    int           // in any sliding second
	when    time.Duration // that second's beginning, since the load's
	late    time.Duration // how late the machine woke somebody up in that second
	silence time.Duration // the longest in which nobody went
	stall   time.Duration // the longest between two calls of one goroutine
	failed  string        // how scripts failed at the clients, and how often
}

// judge counts. It shares no code with the engine.
func (l *load) judge() seen {
	s := seen{failed: l.failed.String()}
	var all []time.Time
	for _, went := range l.went {
		all = append(all, went...)
		last := l.began
		for _, at := range went {
			s.stall, last = max(s.stall, at.Sub(last)), at
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	first := 0
	for i, at := range all {
		for at.Sub(all[first]) >= time.Second {
			first++
		}
		if n := i - first + 1; n > s.most {
			s.most, s.when = n, all[first].Sub(l.began)
		}
		if i > 0 {
			s.silence = max(s.silence, at.Sub(all[i-1]))
		}
	}
	for _, late := range l.late {
		if at := late.at.Sub(l.began); at >= s.when && at < s.when+1100*time.Millisecond {
			s.late = max(s.late, late.by)
		}
	}
	s.calls = len(all)
	s.rate = float64(len(all)-1) / all[len(all)-1].Sub(all[0]).Seconds()
	return s
}

func (s seen) String() string {
	return fmt.Sprintf("%d calls, %.2f/s of %d/s, %d in the fullest second, from %v on, when the machine was late by %v; nobody for %v, a goroutine for %v; failed: %s",
		s.calls, s.rate, loadLimit, s.most, s.when.Round(time.Millisecond), s.late.Round(time.Millisecond), s.silence.Round(time.Millisecond), s.stall.Round(time.Millisecond), s.failed)
}

// good reports whether the upstream got at least a part of what it allows, and never more than that and so many more in a
// second; and whether no goroutine stood still for longer than a second beyond its pace.
//
// The skew makes up for calls that go 25 ms late. A busy machine wakes some up later, and its server answers later:
// that may
// push two more into a second, or as many as fit into the time by which it was seen to be late.
func (s seen) good(part float64, more int) bool {
	const busy = 2
	if s.late > skew {
		more += int((s.late - skew) * loadLimit / time.Second)
	}
	return s.rate >= part*loadLimit && s.most <= loadLimit+more+busy && s.stall < 1700*time.Millisecond
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

// requireInUse waits until the load's accounts are kept in the store again, as one sees them who is no part of the
// load: with
// the whole line of those who wait.
func requireInUse(t *testing.T, rdb redis.UniversalClient, within time.Duration) {
	t.Helper()
	store, err := redisstore.New(rdb)
	require.NoError(t, err)
	policy := loadPolicy()
	stack := pacer.Stack{Upstream: loadUpstream, Limits: []pacer.Limit{{Policy: policy.Name(), Spec: policy.Spec()}}}
	start, seen := time.Now(), ""
	for time.Since(start) < within {
		switch s, err := store.Status(t.Context(), stack); {
		case err != nil:
			seen = err.Error()
		case s.Limits[0].Backlog >= loadLine-loadGoroutines && s.Limits[0].Backlog <= loadLine+2:
			t.Logf("the store has the line, of %d calls, after %v", s.Limits[0].Backlog, time.Since(start).Round(time.Millisecond))
			return
		default:
			seen = fmt.Sprintf("a line of %d", s.Limits[0].Backlog)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the store does not keep the accounts again: %s", seen)
}

// startRefuser lets goroutines of a Pacer that does not pace alone call until stop, which returns their errors.
func startRefuser(t *testing.T, rdb redis.UniversalClient) (went *atomic.Int64, stop func() []error) {
	t.Helper()
	p := refuser(t, rdb, policies.PerSecond(200))
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var errs []error
	var running sync.WaitGroup
	went = new(atomic.Int64)
	for range loadGoroutines {
		running.Go(func() {
			for ctx.Err() == nil {
				err := p.Wait(ctx)
				switch {
				case err == nil:
					went.Add(1)
				case ctx.Err() == nil:
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	return went, func() []error {
		cancel()
		running.Wait()
		return errs
	}
}

// requireRefusals checks what a process says that refuses calls: that the store is out of reach, and why: because of
// what it
// says, or because it says nothing in time, as at times on a busy machine.
func requireRefusals(t *testing.T, errs []error, says string) {
	t.Helper()
	require.NotEmpty(t, errs)
	told := 0
	for _, err := range errs {
		var failed *pacer.StoreError
		require.ErrorAs(t, err, &failed)
		require.ErrorIs(t, err, pacer.ErrUnreachable)
		if strings.Contains(err.Error(), says) {
			told++
		} else {
			require.ErrorContains(t, err, "no answer within")
		}
	}
	t.Logf("%d of %d refusals say %s", told, len(errs), says)
	require.Greater(t, told, len(errs)/2)
}

package redisstore_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A start is how a fleet starts that makes all calls that it may, at 200 a second.
type start struct {
	processes, more, callers int           // more come after 8 s; callers of each process
	lost                     time.Duration // when Redis is lost after that, for seconds; 0: never
	hangs                    bool          // instead of being killed
}

// A fleet that starts or grows makes no more calls than the limit in any second of store time, wherever in its start Redis is lost: each case
// once, and the three worst twenty times. While some processes have lost Redis and others have not, the shares of those come on top.
// TestAFleetThatLosesItsStoreWhileItStarts in package pacer plays the same in virtual time.
func TestAFleetThatLosesRedisWhileItStarts(t *testing.T) {
	if extent(0, 1) == 0 {
		t.Skip("it takes half an hour: HEADWAY_LONG=1")
	}
	type outcome struct {
		start
		over int // more calls than allowed; less than 0 as a rule
	}
	var mu sync.Mutex
	var all []outcome
	play := func(t *testing.T, name string, s *start) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			most, allowed := playStart(t, s)
			t.Logf("%d in a second, of %d", most, allowed)
			require.LessOrEqual(t, most, allowed)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, outcome{*s, most - allowed})
		})
	}
	t.Run("each", func(t *testing.T) {
		for _, fleet := range []start{{processes: 20, callers: 4}, {processes: 60, callers: 2}, {processes: 600, callers: 1}, {processes: 8, more: 12, callers: 4}} {
			for _, lost := range []int{0, 50, 100, 500, 1000, 3000, 10_000} {
				for _, hangs := range []bool{false, true}[:1+min(1, lost)] {
					s := fleet
					s.lost, s.hangs = time.Duration(lost)*time.Millisecond, hangs
					play(t, fmt.Sprintf("%d+%d %v %v", s.processes, s.more, s.lost, s.hangs), &s)
				}
			}
		}
	})
	slices.SortFunc(all, func(a, b outcome) int { return cmp.Compare(b.over, a.over) })
	for _, s := range all[:min(3, len(all))] {
		for i := range 20 {
			play(t, fmt.Sprintf("worst %d+%d %v %v %d", s.processes, s.more, s.lost, s.hangs, i), &s.start)
		}
	}
}

// playStart returns how many calls went within a second, at most, and how many may.
func playStart(t *testing.T, s *start) (most, allowed int) {
	t.Helper()
	const limit, timeout = 200, time.Second // the machine may be busy
	server := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	var went []store.Instant
	var gone bool                         // Redis, as far as processes can know
	there, shares := 0, make(map[int]int) // of processes that lost Redis: so many calls a second
	apart := make(map[int]int)            // the same of those that lost it while others did not
	var back time.Time                    // when the first process was
	loses := func(is bool) {
		mu.Lock()
		defer mu.Unlock()
		gone, back = is, time.Time{}
		if !is && len(shares) < there {
			maps.Copy(apart, shares)
		}
	}
	var wg sync.WaitGroup
	begin := func(n int) {
		for range n {
			process := there
			there++
			set := &hooks.Set{Failover: func(f hooks.Failover) {
				mu.Lock()
				defer mu.Unlock()
				switch now := time.Now(); {
				case f.On:
					if shares[process] = 0; f.Processes > 0 {
						shares[process] = limit/f.Processes + 2 // rounded up, and a call that was under way
					}
					if !gone || !back.IsZero() {
						apart[process] = max(apart[process], shares[process])
					}
				case back.IsZero():
					back = now
				case now.Sub(back) > 100*time.Millisecond: //realtime: one that comes back late uses its share beside the others
					apart[process] = max(apart[process], shares[process])
				}
			}}
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true, DisableIdentity: true})
			t.Cleanup(func() { _ = rdb.Close() })
			p, err := pacer.New(pacer.Config{
				Upstream: "test", Store: must(redisstore.New(rdb)), Policies: []policies.Policy{policies.PerSecond(limit).Burst(1)}, Jitter: pacer.NoJitter,
				StoreTimeout: timeout, Hooks: []*hooks.Set{set},
			})
			require.NoError(t, err)
			t.Cleanup(func() { _ = p.Close() })
			for range s.callers {
				wg.Go(func() {
					time.Sleep(rand.N(50 * time.Millisecond)) //realtime: it is what happens when, and not judged
					for ctx.Err() == nil {
						if c, err := p.Acquire(ctx); err == nil {
							slot, _ := inside.Slot(c)
							mu.Lock()
							went = append(went, slot)
							mu.Unlock()
						}
					}
				})
			}
		}
	}
	begin(s.processes)
	if s.more > 0 {
		time.Sleep(8 * time.Second) //realtime: it is what happens when, and not judged
		begin(s.more)
	}
	time.Sleep(s.lost) //realtime: it is what happens when, and not judged
	if s.lost > 0 {
		lose, restore, away := server.Stop, server.Restart, 3*time.Second
		if s.hangs { // a request that has to connect may take four times as long as others
			lose, restore, away = server.Pause, server.Continue, away+4*timeout
		}
		loses(true)
		lose()
		time.Sleep(away) //realtime: it is what happens when, and not judged
		restore()
		time.Sleep(time.Second) //realtime: it is what happens when, and not judged
		loses(false)
	}
	time.Sleep(4 * time.Second) //realtime: it is what happens when, and not judged
	cancel()
	wg.Wait()
	mu.Lock() // for hooks
	defer mu.Unlock()
	slices.Sort(went)
	first := 0
	for i, at := range went {
		for at.Sub(went[first]) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	require.Positive(t, most)
	if allowed = limit + 1; s.lost > 0 && (s.more > 0 || s.lost > 4*time.Second) {
		allowed += s.processes // those that have a share: a call of each was under way
	}
	for _, share := range apart {
		allowed += share
	}
	return most, allowed
}

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// two returns two Pacers of one upstream, as two processes have them: each with a client and a store of its own.
func two(t *testing.T, client func() redis.UniversalClient, ps ...policies.Policy) (one, other *pacer.Pacer) {
	t.Helper()
	return newPacer(t, client(), ps...), newPacer(t, client(), ps...)
}

// sleepingCall is a call that sleeps.
type sleepingCall struct {
	*pacer.Reservation

	gone chan struct{} // closed when it goes
}

// asleep starts a call that has to wait, and sleeps until the test ends if nothing wakes it.
func asleep(t *testing.T, p *pacer.Pacer, opts ...pacer.Option) *sleepingCall {
	t.Helper()
	r, err := p.Reserve(t.Context(), append(opts, pacer.MaxWait(pacer.Forever))...)
	require.NoError(t, err)
	s := &sleepingCall{r, make(chan struct{})}
	go func() {
		if r.Wait(t.Context()) == nil {
			close(s.gone)
		}
	}()
	return s
}

// movesBehind waits until the call has a slot that is so much later than its own.
func (s *sleepingCall) movesBehind(t *testing.T, by time.Duration, meanwhile func()) {
	t.Helper()
	before, _ := inside.Slot(s.Reservation)
	meanwhile()
	require.Eventually(t, func() bool {
		at, _ := inside.Slot(s.Reservation)
		return at.Sub(before) >= by
	}, patience, 5*time.Millisecond, "the call hears of the pause: it has a slot at %v", before)
}

// listening waits until an upstream's pauses have so many subscribers.
func listening(t *testing.T, rdb redis.UniversalClient, want int64) {
	t.Helper()
	const channel = "pacer:10:{test}/pauses"
	require.Eventually(t, func() bool {
		n, err := rdb.PubSubNumSub(t.Context(), channel).Result()
		return err == nil && n[channel] == want
	}, patience, 5*time.Millisecond)
}

func TestAPauseReachesWaitersOfOtherProcesses(t *testing.T) {
	t.Parallel()
	for name, scopes := range map[string][]string{"of the upstream": nil, "of a policy": {"every"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			one, other := two(t, func() redis.UniversalClient { return server.Client() }, policies.Every(20*time.Minute).Named("every"))
			require.NoError(t, one.Wait(t.Context(), pacer.MaxWait(0)))
			s := asleep(t, other)
			listening(t, server.Client(), 1)
			s.movesBehind(t, 20*time.Minute, func() {
				require.NoError(t, one.Report(t.Context(), policies.Feedback{Wait: 50 * time.Minute, Policies: scopes}))
			})
		})
	}
}

// In a Cluster, a message reaches those who are connected to another node.
func TestAPauseReachesWaitersOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	one, other := two(t, func() redis.UniversalClient { return cluster.Client() }, policies.Every(20*time.Minute).Named("every"))
	require.NoError(t, one.Wait(t.Context(), pacer.MaxWait(0)))
	s := asleep(t, other)
	// A node knows only the subscribers that are connected to it: the test is that a message arrives.
	before, _ := inside.Slot(s.Reservation)
	require.Eventually(t, func() bool {
		require.NoError(t, one.Report(t.Context(), policies.Feedback{Wait: 50 * time.Minute}))
		at, _ := inside.Slot(s.Reservation)
		return at.Sub(before) >= 20*time.Minute
	}, patience, 50*time.Millisecond, "the call hears of the pause")
}

func TestResumeReachesWaitersOfOtherProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := two(t, func() redis.UniversalClient { return server.Client() }, policies.PerSecond(100).Per("tenant").Named("tenant"))
	ctx := pacer.With(t.Context(), pacer.Scope("tenant", "a"))
	require.NoError(t, one.Report(ctx, policies.Feedback{Wait: time.Hour}))
	s := asleep(t, other, pacer.Scope("tenant", "a"))
	listening(t, server.Client(), 1)
	require.NoError(t, fleet.Of(one).Resume(ctx))
	select {
	case <-s.gone:
	case <-time.After(patience):
		t.Fatal("still asleep")
	}
}

// A subscription that breaks is made again, and the process reads the pauses that it missed.
func TestWhatWasMissedIsRequested(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var unreachable atomic.Bool
	cut := redis.NewClient(&redis.Options{Addr: server.Addr, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if unreachable.Load() {
			return nil, errors.New("unreachable")
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}})
	t.Cleanup(func() { _ = cut.Close() })
	one, other := newPacer(t, server.Client(), policies.Every(20*time.Minute)), newPacer(t, cut, policies.Every(20*time.Minute))
	require.NoError(t, one.Wait(t.Context(), pacer.MaxWait(0)))
	s := asleep(t, other)
	listening(t, server.Client(), 1)
	unreachable.Store(true)
	require.NoError(t, server.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
	listening(t, server.Client(), 0)
	s.movesBehind(t, 20*time.Minute, func() {
		require.NoError(t, one.Report(t.Context(), policies.Feedback{Wait: 50 * time.Minute}))
		unreachable.Store(false)
	})
}

// A user who may not publish can still pause: only sleeping calls are not notified.
func TestAPauseNeedsNoChannel(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	require.NoError(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "default", "resetchannels").Err())
	p := newPacer(t, server.Client(), policies.PerSecond(100))
	require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: time.Minute}))
	require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
}

// Subscriptions end with the last Pacer that needs one.
func TestClosingEndsTheSubscription(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client()
	store, err := redisstore.New(rdb)
	require.NoError(t, err)
	var pacers []*pacer.Pacer
	for range 3 {
		p, err := pacer.New(pacer.Config{Upstream: "test", Store: store, Policies: []policies.Policy{policies.Every(time.Hour)}, StoreTimeout: patience})
		require.NoError(t, err)
		asleep(t, p)
		pacers = append(pacers, p)
	}
	listening(t, rdb, 1)
	for _, p := range pacers {
		require.NoError(t, p.Close())
	}
	listening(t, rdb, 0)
}

// A subscription is made again after a nonsensical answer: go-redis would panic at such answers, and receive nothing after others.
func TestANonsensicalSubscriptionIsMadeAgain(t *testing.T) {
	t.Parallel()
	const channel = "pacer:10:{test}/pauses"
	for name, nonsense := range map[string]string{
		"empty":   "*0\r\n",
		"numbers": "*3\r\n:1\r\n:2\r\n:3\r\n",
		"short":   "*1\r\n$9\r\nsubscribe\r\n",
		"message": "*2\r\n$7\r\nmessage\r\n$1\r\na\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requested atomic.Int64
			addr := answering(t, func(command string) string {
				switch {
				case strings.Contains(command, "ping"):
					return "+PONG\r\n"
				case !strings.Contains(command, "subscribe"):
					return "-ERR unknown command\r\n"
				case requested.Add(1) <= 3:
					return nonsense
				}
				return fmt.Sprintf("*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(channel), channel)
			})
			rdb := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true})
			defer rdb.Close()
			received := make(chan store.News, 1)
			defer must(redisstore.New(rdb)).Listen("test", func(n store.News) { received <- n })()
			select {
			case n := <-received:
				require.Equal(t, store.News{Missed: true}, n)
			case <-time.After(patience):
				require.FailNow(t, "it is not subscribed", "it asked %d times", requested.Load())
			}
		})
	}
}

// onlyScripts is a client that cannot subscribe.
type onlyScripts struct{ redisstore.Client }

func TestAClientThatCannotSubscribe(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": server.Addr}})
	defer ring.Close()
	for name, rdb := range map[string]redisstore.Client{"scripts alone": onlyScripts{server.Client()}, "a ring": ring} {
		store, err := redisstore.New(rdb)
		require.NoError(t, err)
		p, err := pacer.New(pacer.Config{Upstream: "test", Store: store, Policies: []policies.Policy{policies.Every(30 * time.Millisecond)}, StoreTimeout: patience})
		require.NoError(t, err)
		require.NoError(t, p.Wait(t.Context()), name)
		require.NoError(t, p.Wait(t.Context()), name)
		require.NoError(t, p.Close())
	}
}

// Anybody can publish: what is not of the form is left out.
func TestHostileNews(t *testing.T) {
	t.Parallel()
	const channel = "pacer:10:{up}/pauses"
	for payload, want := range map[string][]store.Change{
		"5\n1 9 pacer:10:{up}":                               {{Kind: store.Paused, Now: 5, Until: 9}},
		"5\n1 9 pacer:10:{up}:daily":                         {{Kind: store.Paused, Policy: "daily", Now: 5, Until: 9}},
		"5\n2 0 pacer:10:{up}:rate:a:b\n3 0 pacer:10:{up}:x": {{Kind: store.Resumed, Policy: "rate", Scope: "a:b", Now: 5}, {Kind: store.Slowed, Policy: "x", Now: 5}},
		"":                      nil,
		"5":                     nil,
		"x\n1 9 pacer:10:{up}":  nil,
		"-5\n1 9 pacer:10:{up}": nil,
		"5\n1 -9 pacer:10:{up}": nil,
		"5\n1 99999999999999999999 pacer:10:{up}": nil,
		"5\n4 9 pacer:10:{up}:permits":            {{Kind: store.Wake, Policy: "permits", Now: 5, ID: 9}},
		"5\n4 -9 pacer:10:{up}:permits":           nil,
		"5\n5 9 pacer:10:{up}":                    nil,
		"5\n1 9 pacer:10:{other}:daily":           nil,
		"5\n1 9 pacer:10:{up}daily":               nil,
		"5\n1 9":                                  nil,
		"5\n\n\n1 9 pacer:10:{up}":                {{Kind: store.Paused, Now: 5, Until: 9}},
	} {
		require.Equal(t, want, redisstore.ParseChanges(channel, payload), "%q", payload)
	}
	require.LessOrEqual(t, len(redisstore.ParseChanges(channel, "5\n"+strings.Repeat("1 9 pacer:10:{up}\n", 100_000))), 1024)
}

func FuzzParseChanges(f *testing.F) {
	f.Add("5\n1 9 pacer:10:{up}:daily:acme\n2 0 pacer:10:{up}")
	f.Fuzz(func(t *testing.T, payload string) {
		for _, c := range redisstore.ParseChanges("pacer:10:{up}/pauses", payload) {
			require.GreaterOrEqual(t, c.Until, store.Instant(0))
			require.Contains(t, []store.ChangeKind{store.Paused, store.Resumed, store.Slowed, store.Wake, store.EpochBegan}, c.Kind)
		}
	})
}

// Listeners that start and stop at any time, while news come in, neither race nor hang.
func TestListenersComeAndGo(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	backing, err := redisstore.New(rdb)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var wg, news sync.WaitGroup
	news.Go(func() {
		for ctx.Err() == nil {
			_ = rdb.Publish(ctx, "pacer:10:{listeners}/pauses", "5\n1 9 pacer:10:{listeners}").Err()
		}
	})
	for range 4 {
		wg.Go(func() {
			for range 100 {
				stop := backing.Listen("listeners", func(store.News) {})
				stop()
				stop()
			}
		})
	}
	wg.Wait()
	cancel()
	news.Wait()
}

package redisstore_test

import (
	"context"
	"errors"
	"net"
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

// two returns two Pacers of one upstream, as two processes have them: each with a client and a store of its own.
func two(t *testing.T, client func() redis.UniversalClient, ps ...policies.Policy) (one, other *pacer.Pacer) {
	t.Helper()
	return newPacer(t, client(), ps...), newPacer(t, client(), ps...)
}

// asleep starts a call that has to wait, and returns where its end arrives: how long it took, or an error.
func asleep(t *testing.T, p *pacer.Pacer, opts ...pacer.Option) <-chan time.Duration {
	t.Helper()
	took := make(chan time.Duration, 1)
	r, err := p.Reserve(t.Context(), opts...)
	require.NoError(t, err)
	start := time.Now()
	go func() {
		if r.Wait(t.Context()) == nil {
			took <- time.Since(start)
		}
		close(took)
	}()
	return took
}

// listening waits until so many subscribers hear of an upstream's pauses.
func listening(t *testing.T, rdb redis.UniversalClient, want int64) {
	t.Helper()
	const channel = "pacer:{test}/pauses"
	require.Eventually(t, func() bool {
		n, err := rdb.PubSubNumSub(t.Context(), channel).Result()
		return err == nil && n[channel] == want
	}, 5*time.Second, 5*time.Millisecond)
}

func TestAPauseReachesSleepersOfOtherProcesses(t *testing.T) {
	t.Parallel()
	for name, scopes := range map[string][]string{"of the upstream": nil, "of a policy": {"every"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			one, other := two(t, func() redis.UniversalClient { return server.Client() }, policies.Every(300*time.Millisecond).Named("every"))
			require.NoError(t, one.Allow(t.Context()))
			sleeper := asleep(t, other)
			listening(t, server.Client(), 1)
			require.NoError(t, one.Report(t.Context(), policies.Feedback{Wait: time.Second, Policies: scopes}))
			took, ok := <-sleeper
			require.True(t, ok)
			require.GreaterOrEqual(t, took, 900*time.Millisecond, "its slot was 300 ms away")
		})
	}
}

// In a Cluster, a message reaches those who are connected to another node.
func TestAPauseReachesSleepersOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	one, other := two(t, func() redis.UniversalClient { return cluster.Client() }, policies.Every(2*time.Second).Named("every"))
	require.NoError(t, one.Allow(t.Context()))
	sleeper := asleep(t, other)
	// A node knows the subscribers that are connected to it alone: what counts is that the message arrives.
	time.Sleep(500 * time.Millisecond)
	require.NoError(t, one.Report(t.Context(), policies.Feedback{Wait: 3 * time.Second}))
	took, ok := <-sleeper
	require.True(t, ok)
	require.GreaterOrEqual(t, took, 2800*time.Millisecond, "its slot was 2 s away")
}

func TestResumeReachesSleepersOfOtherProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := two(t, func() redis.UniversalClient { return server.Client() }, policies.PerSecond(100).Per("tenant").Named("tenant"))
	ctx := pacer.WithScope(t.Context(), "tenant", "a")
	require.NoError(t, one.Report(ctx, policies.Feedback{Wait: time.Hour}))
	sleeper := asleep(t, other, pacer.Scope("tenant", "a"), pacer.MaxWait(2*time.Hour))
	listening(t, server.Client(), 1)
	require.NoError(t, one.Resume(ctx))
	select {
	case took, ok := <-sleeper:
		require.True(t, ok)
		require.Less(t, took, time.Minute)
	case <-time.After(10 * time.Second):
		t.Fatal("still asleep")
	}
}

// A subscription that breaks is made again, and what was missed meanwhile is asked for.
func TestWhatWasMissedIsAskedFor(t *testing.T) {
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
	one, other := newPacer(t, server.Client(), policies.Every(4*time.Second)), newPacer(t, cut, policies.Every(4*time.Second))
	require.NoError(t, one.Allow(t.Context()))
	sleeper := asleep(t, other)
	listening(t, server.Client(), 1)
	unreachable.Store(true)
	require.NoError(t, server.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
	listening(t, server.Client(), 0)
	require.NoError(t, one.Report(t.Context(), policies.Feedback{Wait: 6 * time.Second}))
	unreachable.Store(false)
	took, ok := <-sleeper
	require.True(t, ok)
	require.GreaterOrEqual(t, took, 5500*time.Millisecond, "its slot was 4 s away")
}

// A user who may not publish can still pause: only those who sleep already hear nothing.
func TestAPauseNeedsNoChannel(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	require.NoError(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "default", "resetchannels").Err())
	p := newPacer(t, server.Client(), policies.PerSecond(100))
	require.NoError(t, p.Report(t.Context(), policies.Feedback{Wait: time.Minute}))
	require.ErrorIs(t, p.Allow(t.Context()), pacer.ErrNotYet)
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
		p, err := pacer.New(pacer.Config{Upstream: "test", Store: store, Policies: []policies.Policy{policies.Every(30 * time.Millisecond)}})
		require.NoError(t, err)
		require.NoError(t, p.Wait(t.Context()))
		require.NoError(t, p.Wait(t.Context()))
		pacers = append(pacers, p)
	}
	listening(t, rdb, 1)
	for _, p := range pacers {
		require.NoError(t, p.Close())
	}
	listening(t, rdb, 0)
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
		p, err := pacer.New(pacer.Config{Upstream: "test", Store: store, Policies: []policies.Policy{policies.Every(30 * time.Millisecond)}})
		require.NoError(t, err)
		require.NoError(t, p.Wait(t.Context()), name)
		require.NoError(t, p.Wait(t.Context()), name)
		require.NoError(t, p.Close())
	}
}

// Anybody can publish: what is not of the form is left out.
func TestHostileNews(t *testing.T) {
	t.Parallel()
	const channel = "pacer:{up}/pauses"
	for payload, want := range map[string][]pacer.Change{
		"5\n1 9 pacer:{up}":                            {{Kind: pacer.Paused, Now: 5, Until: 9}},
		"5\n1 9 pacer:{up}:daily":                      {{Kind: pacer.Paused, Policy: "daily", Now: 5, Until: 9}},
		"5\n2 0 pacer:{up}:rate:a:b\n3 0 pacer:{up}:x": {{Kind: pacer.Resumed, Policy: "rate", Scope: "a:b", Now: 5}, {Kind: pacer.Slowed, Policy: "x", Now: 5}},
		"":                                     nil,
		"5":                                    nil,
		"x\n1 9 pacer:{up}":                    nil,
		"-5\n1 9 pacer:{up}":                   nil,
		"5\n1 -9 pacer:{up}":                   nil,
		"5\n1 99999999999999999999 pacer:{up}": nil,
		"5\n4 9 pacer:{up}:places":             {{Kind: pacer.Called, Policy: "places", Now: 5, ID: 9}},
		"5\n4 -9 pacer:{up}:places":            nil,
		"5\n5 9 pacer:{up}":                    nil,
		"5\n1 9 pacer:{other}:daily":           nil,
		"5\n1 9 pacer:{up}daily":               nil,
		"5\n1 9":                               nil,
		"5\n\n\n1 9 pacer:{up}":                {{Kind: pacer.Paused, Now: 5, Until: 9}},
	} {
		require.Equal(t, want, redisstore.ParseChanges(channel, payload), "%q", payload)
	}
	require.LessOrEqual(t, len(redisstore.ParseChanges(channel, "5\n"+strings.Repeat("1 9 pacer:{up}\n", 100_000))), 1024)
}

func FuzzParseChanges(f *testing.F) {
	f.Add("5\n1 9 pacer:{up}:daily:acme\n2 0 pacer:{up}")
	f.Fuzz(func(t *testing.T, payload string) {
		for _, c := range redisstore.ParseChanges("pacer:{up}/pauses", payload) {
			require.GreaterOrEqual(t, c.Until, pacer.Instant(0))
			require.Contains(t, []pacer.ChangeKind{pacer.Paused, pacer.Resumed, pacer.Slowed}, c.Kind)
		}
	})
}

// Those who begin and stop to listen at any time, while news come in, neither race nor hang.
func TestListenersComeAndGo(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	store, err := redisstore.New(rdb)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			_ = rdb.Publish(ctx, "pacer:{test}/pauses", "5\n1 9 pacer:{test}").Err()
		}
	})
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				stop := store.Listen("test", func(pacer.News) {}) //nolint:contextcheck // a subscription outlives the call that began it
				time.Sleep(time.Millisecond)
				stop()
				stop()
			}
		})
	}
	wg.Wait()
}

package faulttest_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/goleak"

	"github.com/headway-go/headway/pacer/internal/testing/redistest"
)

// A site is servers on which the stores of a fleet can keep their accounts, and what may happen to them.
type site struct {
	name     string
	servers  []*redistest.Server
	connect  func(r *route) redis.UniversalClient
	faults   []fault
	troubles int // how many faults a run has; 0 for the usual number
	masters  int // how many servers may hold themselves to be the master at the same time; 0 for one
}

// A fault is something that happens to a fleet, and is over when do returns.
type fault struct {
	name    string
	weight  int // how often it is drawn
	empties bool
	do      func(r *run, rng *rand.Rand) error
}

// quiet keeps go-redis from logging every connection that it loses.
type quiet struct{}

// Printf does nothing.
func (quiet) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m,
		// The proxies are not what is tested: a link that was reset leaves goroutines behind.
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*Proxy).server"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*Proxy).freeBlocker"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).write"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).AddToxic"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).RemoveToxic"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicCollection).RemoveToxic"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"), // a server that was restarted
	)
}

func noMaintNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// between returns a time from least to most.
func between(rng *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(rng.Int64N(int64(most-least)+1))
}

const ms = time.Millisecond

// some returns some routes of a fleet, at least one; all of them as often as not.
func some(r *run, rng *rand.Rand) []*route {
	var all []*route
	for _, m := range r.fleet {
		all = append(all, m.route)
	}
	if rng.IntN(2) == 0 {
		return all
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:1+rng.IntN(len(all)-1)]
}

// poisoned is a fault that lies in toxics.
func poisoned(name string, pick func(rng *rand.Rand) toxic, meanwhile func(r *run)) fault {
	return fault{name: name, weight: 2, do: func(r *run, rng *rand.Rand) error {
		routes, x := some(r, rng), pick(rng)
		for _, way := range routes {
			if err := way.poison(x); err != nil {
				return err
			}
		}
		if meanwhile != nil {
			meanwhile(r)
		}
		lasts(between(rng, 300*ms, 1500*ms))
		for _, way := range routes {
			if err := way.cure(); err != nil {
				return err
			}
		}
		return nil
	}}
}

// networkFaults are those that need nothing but the proxies.
func networkFaults() []fault {
	return []fault{
		poisoned("latency above the budget", func(rng *rand.Rand) toxic {
			return downstream("latency", map[string]int{"latency": 260 + rng.IntN(500), "jitter": rng.IntN(100)})
		}, nil),
		poisoned("latency within the budget", func(rng *rand.Rand) toxic {
			return upstream("latency", map[string]int{"latency": 20 + rng.IntN(100), "jitter": rng.IntN(20)})
		}, nil),
		poisoned("latency around the budget", func(rng *rand.Rand) toxic {
			return downstream("latency", map[string]int{"latency": 240, "jitter": 1 + rng.IntN(200)})
		}, nil),
		poisoned("reset_peer", func(rng *rand.Rand) toxic {
			return downstream("reset_peer", map[string]int{"timeout": rng.IntN(300)})
		}, nil),
		poisoned("timeout", func(rng *rand.Rand) toxic {
			return downstream("timeout", map[string]int{"timeout": rng.IntN(2) * (100 + rng.IntN(500))})
		}, nil),
		poisoned("slow_close", func(rng *rand.Rand) toxic {
			return downstream("slow_close", map[string]int{"delay": 100 + rng.IntN(1000)})
		}, func(r *run) {
			for _, s := range r.site.servers { // something has to be closed for it to be slow
				_ = s.Client().Do(context.Background(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err()
			}
		}),
		poisoned("limit_data", func(rng *rand.Rand) toxic {
			return downstream("limit_data", map[string]int{"bytes": 1 + rng.IntN(2000)})
		}, nil),
		poisoned("slicer", func(rng *rand.Rand) toxic {
			return downstream("slicer", map[string]int{"average_size": 2 + rng.IntN(30), "size_variation": 1, "delay": rng.IntN(2000)})
		}, nil),
		{name: "newcomers", weight: 3, do: newcomers},
		{name: "cut", weight: 2, do: func(r *run, rng *rand.Rand) error {
			for range 1 + rng.IntN(4) {
				for _, way := range some(r, rng) {
					way.cut()
				}
				lasts(between(rng, 1*ms, 200*ms))
			}
			return nil
		}},
	}
}

// standalone is a single server.
func standalone(t *testing.T) *site {
	t.Helper()
	server := redistest.Start(t)
	s := &site{name: "standalone", servers: []*redistest.Server{server}}
	clients := 0
	s.connect = func(r *route) redis.UniversalClient {
		clients++ // every second one is punctual: see redisstore.Store.Punctual
		return redis.NewClient(&redis.Options{
			Addr: server.Addr, Dialer: r.dial, DisableIdentity: true, MaintNotificationsConfig: noMaintNotifications(),
			ContextTimeoutEnabled: clients%2 == 0,
		})
	}
	command := func(args ...any) func(*run, *rand.Rand) error {
		return func(r *run, _ *rand.Rand) error { return server.Client().Do(context.Background(), args...).Err() }
	}
	s.faults = append(networkFaults(),
		fault{"stop and restart", 4, true, func(_ *run, rng *rand.Rand) error {
			server.Stop()
			lasts(between(rng, 0, 2*time.Second))
			server.Restart()
			return nil
		}},
		fault{"pause", 3, false, func(_ *run, rng *rand.Rand) error {
			server.Pause()
			lasts(between(rng, 100*ms, 2*time.Second))
			server.Continue()
			return nil
		}},
		fault{"FLUSHALL", 4, true, command("FLUSHALL")},
		fault{"SCRIPT FLUSH", 1, false, command("SCRIPT", "FLUSH")},
		fault{"CLIENT KILL", 2, false, func(r *run, rng *rand.Rand) error {
			for range 1 + rng.IntN(3) {
				for _, kind := range []string{"normal", "pubsub"} {
					if err := command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")(r, rng); err != nil {
						return err
					}
				}
				lasts(between(rng, 1*ms, 100*ms))
			}
			return nil
		}},
	)
	return s
}

package redisstore_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/policies"
)

// A process of a test is this test binary again, with the name and the parameters of its task.
const workerEnv = "HEADWAY_TEST_WORKER"

var workers = map[string]func(know string) error{"doze": doze}

// parallel is how many tests run at a time by default: most of them wait most of the time.
const parallel = "4"

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // tests lose stores on purpose
	redis.SetLogger(&clientLines)
	if job := os.Getenv(workerEnv); job != "" {
		name, know, _ := strings.Cut(job, " ")
		if err := workers[name](know); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", parallel)
	}
	// A goroutine of a closed pool whose server is gone sleeps for a second.
	goleak.VerifyTestMain(redistest.Sharing(m), goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// skew is what the fleet allows for: a timer that is late, and a request that is fast.
const skew = 25 * time.Millisecond

// fleetSize is how many processes a fleet has.
const fleetSize = 4

// patience is how long processes wait for a busy store, and tests for an expected event.
const patience = time.Minute

// fiftyASecond is the rule of AtMost(50, time.Second), by definition.
var fiftyASecond = rule{name: "50 in any second", kind: anyWindow, n: 50, period: time.Second}

// Calls of four processes come much faster than limits of each kind admit. No limit is exceeded in store time, no more permits are in use
// than there are, and in the end as many calls are charged as went, no permit is taken and none is queued.
func TestFleetsKeepTheirLimits(t *testing.T) {
	t.Parallel()
	evenly100 := rule{name: "100 a second", kind: evenly, n: 100, period: time.Second, burst: 5}
	fifty, permits := policies.AtMost(50, time.Second).Skew(skew), policies.InFlight(10).Named("permits")
	for name, c := range map[string]struct {
		policies []policies.Policy
		rules    []rule
		permits  int64
		unbooked bool          // a permit is passed on in the process only if it is the only limit
		away     time.Duration // the way to the store
		options  func(process, caller int) (tenant string, opts []pacer.Option)
	}{
		"a sliding second": {policies: []policies.Policy{fifty}, rules: []rule{fiftyASecond}},
		"a greedy tenant": {
			policies: []policies.Policy{policies.AtMost(100, time.Second).Skew(skew), policies.AtMost(10, time.Second).Skew(skew).Per("tenant")},
			rules:    []rule{{name: "100 in any second", kind: anyWindow, n: 100, period: time.Second}, {name: "10 in any second of tenant ", kind: anyWindow, n: 10, period: time.Second, perTenant: true}},
			options:  func(_, caller int) (string, []pacer.Option) { return strconv.Itoa(max(8, caller)), nil },
		},
		"a window of the clock": {
			policies: []policies.Policy{policies.Fixed(40, time.Second).Skew(2 * skew), policies.AtMost(60, time.Second).Skew(skew)},
			rules:    []rule{{name: "60 in any second", kind: anyWindow, n: 60, period: time.Second}, {name: "a window of the clock", kind: clockWindow, n: 40, period: time.Second}},
		},
		"permits": {policies: []policies.Policy{permits}, permits: 10, unbooked: true},
		"permits and rates": {
			policies: []policies.Policy{permits, fifty.Named("second"), policies.Sliding(1000, time.Minute).Named("minute")},
			rules:    []rule{fiftyASecond}, permits: 10,
		},
		"a lane": {
			policies: []policies.Policy{policies.PerSecond(100).Burst(5).Lane("batch", 80)}, rules: []rule{evenly100},
			options: func(_, caller int) (string, []pacer.Option) {
				if caller > 0 {
					return "", []pacer.Option{pacer.Lane("batch")}
				}
				return "", nil
			},
		},
		"fair shares": {
			policies: []policies.Policy{policies.PerSecond(100).Burst(5).Fair("tenant")}, rules: []rule{evenly100},
			options: func(_, caller int) (string, []pacer.Option) {
				return strconv.Itoa(caller % 3), []pacer.Option{pacer.Weight(int64(1 + caller%3))}
			},
		},
		"a store far away": {policies: []policies.Policy{fifty}, rules: []rule{fiftyASecond}, away: 60 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			addr, form, takes := server.Addr, newBand, time.Duration(0)
			if c.away > 0 {
				addr = newFar(t, addr, c.away).listener.Addr().String()
			}
			if c.unbooked {
				form = newUnbookedBand
			}
			if c.permits > 0 {
				takes = 20 * time.Millisecond
			}
			b := form(t, server, addr, fleetSize, c.policies...)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			b.enough, b.end = 120, cancel
			b.work(ctx, 16, takes, c.options)
			if c.unbooked {
				require.Empty(t, b.lost)
				b.closed(t)
			} else {
				b.requireTruth(t, c.rules...)
			}
			last := b.look(t, c.policies[0])
			require.Zero(t, last.Queued, "queued calls when all is over")
			if c.permits > 0 {
				require.LessOrEqual(t, b.most.Load(), c.permits, "calls at a time")
				require.Equal(t, c.permits, last.Remaining, "permits that are free when all is over")
			}
		})
	}
}

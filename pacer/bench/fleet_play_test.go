package bench_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/redistest"
)

// A scenario is an upstream, a fleet that calls it, and the keepers of its limits, one after the other.
// Times are since the start.
type scenario struct {
	name       string
	rules      []rule
	crews      func(process int) []crew
	length     time.Duration        // at most
	from, to   time.Duration        // the steady interval, over which is judged
	turn, lead time.Duration        // begin so long before the turn of a window of the clock
	kill, back time.Duration        // when Redis dies and comes back empty; 0: it lives
	delay      func() time.Duration // of each request on its way; nil for none
	keepers    []keeper
}

func (s *scenario) keeperNamed(name string) *keeper {
	for i := range s.keepers {
		if s.keepers[i].name == name {
			return &s.keepers[i]
		}
	}
	return nil
}

// An outcome is what came of one keeper.
type outcome struct {
	scenario *scenario
	keeper   string
	log      []arrival // of the upstream, in order
	tallies  []tally   // of each process
	requests int       // that Redis got from the fleet in the steady interval
}

// play lets a keeper run a scenario.
func play(t *testing.T, server *redistest.Server, s *scenario, k *keeper) *outcome {
	t.Helper()
	rdb := server.Client()
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
	require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
	require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())

	o := &outcome{scenario: s, keeper: k.name}
	var url, ready string
	upstream := startProcess(t, "upstream", s.rules)
	upstream.receive(t, &url)
	var fleet []*process
	for i := range fleetSize {
		fleet = append(fleet, startProcess(t, "worker", job{
			Scenario: s.name, Keeper: k.name, Process: i, Redis: server.Addr, URL: url, Length: s.length, Crews: s.crews(i),
		}))
	}
	for _, p := range fleet {
		p.receive(t, &ready)
	}

	clock := newClock()
	begin := clock.now() + 20*time.Millisecond
	if s.turn > 0 {
		begin = (begin + s.lead).Truncate(s.turn) + s.turn - s.lead
	}
	for _, p := range append([]*process{upstream}, fleet...) {
		p.report(t, begin)
	}
	if s.kill > 0 {
		time.Sleep(clock.until(begin + s.kill))
		server.Stop()
		time.Sleep(clock.until(begin + s.back))
		server.Restart()
	} else {
		time.Sleep(clock.until(begin + s.from))
		before := requestsFrom(t, server, k)
		time.Sleep(clock.until(begin + s.to))
		o.requests = requestsFrom(t, server, k) - before
	}

	for _, p := range fleet {
		var r tally
		p.end(t, &r)
		o.tallies = append(o.tallies, r)
	}
	upstream.end(t, &o.log)
	return o
}

// requestsFrom returns how many requests Redis has got. Commands that scripts run are not requests, nor are those by which
// a connection is opened.
func requestsFrom(t *testing.T, server *redistest.Server, k *keeper) int {
	t.Helper()
	info, err := server.Client().InfoMap(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	n := 0
	for _, command := range append([]string{"evalsha", "eval", "subscribe", "unsubscribe", "ping"}, k.sends...) {
		for field := range strings.SplitSeq(info["Commandstats"]["cmdstat_"+command], ",") {
			if calls, ok := strings.CutPrefix(field, "calls="); ok {
				k, err := strconv.Atoi(calls)
				require.NoError(t, err)
				n += k
			}
		}
	}
	return n
}

func TestRequestsOfAFleet(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client()
	for _, c := range []struct {
		keeper   keeper
		requests []int // after each call
	}{
		{keeper{open: byWaitTime(asReported)}, []int{2, 3, 4}}, // the server does not know the script at first
		{keeper{open: byRedisRate(asReported)}, []int{2, 3, 4}},
		{keeper{open: byThrottled(asReported), sends: throttledSends}, []int{3, 5, 7}}, // it sets the key; and then swaps it
	} {
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
		gate, err := c.keeper.open(rdb)
		require.NoError(t, err)
		for i, n := range c.requests {
			require.NoError(t, gate.wait(t.Context(), "x"))
			require.Equal(t, n, requestsFrom(t, server, &c.keeper), "after call %d", i)
		}
	}
}

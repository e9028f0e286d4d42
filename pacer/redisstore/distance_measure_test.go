//go:build measure

package redisstore_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/policies"
)

// A store far away costs no goodput: the next slots and permits are requested so early that they are there in time. Measured: each kind of
// limit, with commands that take 60 and 150 ms, is used to 98 %. To see the table:
//
//	go test -tags measure -count=1 -v -run FleetFarAway ./pacer/redisstore
func TestFleetFarAway(t *testing.T) { //nolint:paralleltest // when it is alone
	const n = 50 // calls a second that each limit admits
	for _, c := range []struct {
		name    string
		policy  policies.Policy
		rule    rule
		takes   time.Duration
		options func(process, caller int) (string, []pacer.Option)
	}{
		{name: "a rate", policy: policies.PerSecond(n), rule: rule{kind: evenly, n: n, period: time.Second, burst: 1}},
		// A full window of 100 buckets comes back after 101 of them.
		{name: "a window", policy: policies.Sliding(101, 2*time.Second).Buckets(100), rule: rule{kind: anyWindow, n: 101, period: 2 * time.Second}},
		{name: "permits", policy: policies.InFlight(n / 2), takes: 500 * time.Millisecond},
		{
			name: "a lane", policy: policies.PerSecond(n).Lane("batch", 80), rule: rule{kind: evenly, n: n, period: time.Second, burst: 2},
			options: func(int, int) (string, []pacer.Option) { return "", []pacer.Option{pacer.Lane("batch")} },
		},
		{
			name: "fair shares", policy: policies.PerSecond(n).Fair("tenant"), rule: rule{kind: evenly, n: n, period: time.Second, burst: 2},
			options: func(_, caller int) (string, []pacer.Option) { return strconv.Itoa(caller % 4), nil },
		},
	} {
		for _, way := range []time.Duration{time.Millisecond, 60 * time.Millisecond, 150 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s, %v", c.name, way), func(t *testing.T) {
				server := redistest.Start(t)
				far := newFar(t, server.Addr, way)
				form := newBand
				if c.takes > 0 {
					form = newUnbookedBand // a permit is passed on where it is the only limit
				}
				b := form(t, server, far.listener.Addr().String(), fleetSize, c.policy)
				const warm = 3 * time.Second
				const length = 8 * time.Second
				timers := measure.Watch()
				begin := time.Now()
				ctx, cancel := endsAt(t.Context(), begin.Add(warm+length))
				defer cancel()
				b.work(ctx, 16, c.takes, c.options)
				late := timers.Stop()
				if c.takes > 0 {
					require.Empty(t, b.lost)
					require.LessOrEqual(t, b.most.Load(), int64(n/2), "calls at a time")
				} else {
					b.requireTruth(t, c.rule)
				}
				used := float64(b.between(begin.Add(warm), begin.Add(warm+length))) / (n * length.Seconds())
				measure.Judge(t, late, way/2+tolerated, fmt.Sprintf("%-12s %5v away: %5.1f %% used", c.name, way, 100*used), used >= 0.98)
			})
		}
	}
}

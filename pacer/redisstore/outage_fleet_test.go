package redisstore_test

import (
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/internal/redistest"
)

// outage runs 4 processes × 16 goroutines at 50 a second while something happens to Redis: no call errs, none stalls longer
// than a second beyond its pace, the upstream refuses nothing, and gets at least 95 % of what it allows.
func outage(t *testing.T, meanwhile func(*redistest.Server, []*exec.Cmd)) {
	t.Helper()
	atBest(t, func() (string, bool) {
		upstream := &strict{limits: []strictLimit{{n: 50, period: time.Second}}}
		j := job{Fleet: "sliding", Duration: 20 * time.Second, meanwhile: func(s *redistest.Server, processes []*exec.Cmd) {
			time.Sleep(8 * time.Second) // the processes start, and know each other
			meanwhile(s, processes)
		}}
		sum := play(t, upstream, j, func(int) []crew { return []crew{{Tenant: "x", Goroutines: 16}} })
		n := len(upstream.went)
		start := upstream.went[0]
		rate := float64(n-1) / upstream.went[n-1].Sub(start).Seconds()
		perSecond := make([]int, 20)
		for _, at := range upstream.went {
			perSecond[min(19, int(at.Sub(start)/time.Second))]++
		}
		longest := slices.Max(sum["x"].Waits)
		// 64 calls in line, one each 20.5 ms, wait 1.312 s.
		return fmt.Sprintf("%d calls, %.2f/s of 50/s, by second %v; longest wait %v; %d times 429", n, rate, perSecond, longest, upstream.no),
			upstream.no == 0 && rate >= 0.95*50 && longest < 2312*time.Millisecond
	})
}

// Redis is killed, stays away for 3 s, and comes back empty.
func TestFleetWhileRedisIsKilled(t *testing.T) { //nolint:paralleltest // it measures
	outage(t, func(s *redistest.Server, _ []*exec.Cmd) {
		s.Stop()
		time.Sleep(3 * time.Second)
		s.Restart()
	})
}

// Redis hangs for 3 s: connections stay open, and nothing is answered.
func TestFleetWhileRedisHangs(t *testing.T) { //nolint:paralleltest // it measures
	outage(t, func(s *redistest.Server, _ []*exec.Cmd) {
		s.Pause()
		time.Sleep(3 * time.Second)
		s.Continue()
	})
}

// Redis loses all that it knew, and goes on.
func TestFleetWhileRedisForgets(t *testing.T) { //nolint:paralleltest // it measures
	outage(t, func(s *redistest.Server, _ []*exec.Cmd) {
		for range 2 {
			_ = s.Client().FlushAll(t.Context()).Err()
			time.Sleep(3 * time.Second)
		}
	})
}

//go:build measure

package redisstore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/transport/upstreamtest"
)

// acquainted waits until the processes know each other.
func (s *scene) acquainted() (since int64) {
	s.t.Helper()
	return acquainted(s.t, s.server.Client(), s.job.upstream(), fleetSize)
}

// key is one of the upstream's own keys.
func (s *scene) key(name string) string { return "pacer:10:{" + s.job.upstream() + "}/" + name }

// resynced waits until every process has sent a heartbeat once more, and holds slots in the store.
func (s *scene) resynced() {
	s.t.Helper()
	policy := fleets[s.job.Fleet][0]
	s.acquainted()
	require.Eventually(s.t, func() bool {
		status, err := s.lookAt(policy)
		return err == nil && status.Backlog > 0
	}, patience, 20*time.Millisecond, "the fleet is back in the store")
	alive, err := s.server.Client().ZCard(s.t.Context(), s.key("alive")).Result()
	require.NoError(s.t, err)
	require.EqualValues(s.t, fleetSize, alive, "processes that are there")
}

// outage runs 4 processes × 16 goroutines at 50 a second while something happens to Redis, which returns the instants at which it lost its
// memory.
//
// No call fails or goes before its slot. Grants of the store between two losses conform, and so do the local grants of each process, to its
// share. In the end all are back, and every call that went is charged.
//
// Measured: none stalls longer than a second beyond its pace, the upstream refuses nothing, and gets at least 95 % of what it allows.
func outage(t *testing.T, meanwhile func(s *scene, away time.Duration) (losses []int64)) {
	t.Helper()
	var known int64
	var losses []int64
	upstream := newStrict(upstreamtest.Sliding(50, time.Second))
	start := time.Now()
	j := job{Fleet: "sliding", Duration: 2 * patience, Reported: true, meanwhile: func(s *scene) {
		s.acquainted()
		known = s.acquainted() // a process sends a heartbeat when it has read the reply to the one before, which may take it long
		time.Sleep(time.Until(start.Add(8 * time.Second)))
		losses = meanwhile(s, 3*time.Second)
		s.resynced()
		time.Sleep(time.Until(start.Add(20 * time.Second)))
	}}
	p := play(t, upstream, j, crewed(crew{Tenant: "x", Goroutines: 16}))
	// Calls from before the processes knew each other may have been granted at a larger share, for later.
	calls := slices.DeleteFunc(p.calls(), func(o outing) bool { return o.local() && o.Requested < known })
	require.Empty(t, refereeOfEpochs(calls, losses, fiftyASecond))
	local := 0
	for i := range calls {
		if calls[i].local() {
			local++
		}
	}
	p.requireNothingLost(t)
	rate, longest := upstream.rate(), slices.Max(p.sum["x"].Waits)
	went := upstream.came(true)
	perSecond := make([]int, 1+int(went[len(went)-1].Sub(went[0])/time.Second))
	for _, at := range went {
		perSecond[int(at.Sub(went[0])/time.Second)]++
	}
	// 64 queued calls, one each 20.5 ms, wait 1.312 s.
	measure.Judge(t, p.late, tolerated, fmt.Sprintf("%d calls, %d of them local, %.2f/s of 50/s, by second %v; longest wait %v; %d times 429", len(calls), local, rate, perSecond, longest, upstream.Refused()),
		upstream.Refused() == 0 && rate >= 0.95*50 && longest < 2312*time.Millisecond)
}

// requireNothingLost fails the test unless the store has charges for all calls, though it was away or forgot. Charges without a call are no
// more than can be under way at once: a late answer may be lost.
func (p *played) requireNothingLost(t *testing.T) {
	t.Helper()
	charged, went := p.charged(), int64(len(p.all))
	t.Logf("%d calls went, %d are charged", went, charged)
	require.GreaterOrEqual(t, charged, went, "calls that went and are not charged")
	require.LessOrEqual(t, charged, went+fleetSize*16, "calls that are charged and did not go")
}

// Redis is killed, stays away, and comes back empty.
func TestFleetWhileRedisIsKilled(t *testing.T) {
	outage(t, func(s *scene, away time.Duration) []int64 {
		s.server.Stop()
		lost := micros()
		time.Sleep(away)
		s.server.Restart()
		return []int64{lost}
	})
}

// Redis hangs: connections stay open, and nothing is answered.
func TestFleetWhileRedisHangs(t *testing.T) {
	outage(t, func(s *scene, away time.Duration) []int64 {
		s.server.Pause()
		time.Sleep(away)
		s.server.Continue()
		return nil
	})
}

// Redis loses all that it knew, and goes on.
func TestFleetWhileRedisForgets(t *testing.T) {
	outage(t, func(s *scene, away time.Duration) (losses []int64) {
		for range 2 {
			// One transaction: nothing is granted between the loss and its instant.
			var now *redis.TimeCmd
			_, err := s.server.Client().TxPipelined(s.t.Context(), func(tx redis.Pipeliner) error {
				tx.FlushAll(s.t.Context())
				now = tx.Time(s.t.Context())
				return nil
			})
			require.NoError(s.t, err)
			losses = append(losses, now.Val().UnixMicro())
			time.Sleep(away)
		}
		return losses
	})
}

package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/redistest"
)

// historiesBetween is how many linearizability histories are checked after each run of a soak.
const historiesBetween = 20

// soakScale is how many times the limits, and the callers, of a soak are those of a short test: a soak is to do many operations.
const soakScale = 3

// TestSoak is described in the package's documentation.
func TestSoak(t *testing.T) { //nolint:paralleltest // it measures
	text := os.Getenv("HEADWAY_SOAK")
	if text == "" {
		t.Skip("HEADWAY_SOAK says for how long, such as 10m")
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err, "HEADWAY_SOAK")
	given, same := number(t, "HEADWAY_SEED", 0)

	sites := []*site{standalone(t), replicatedCluster(t), replicatedSentinel(t)}
	if only := os.Getenv("HEADWAY_SITE"); only != "" {
		sites = slices.DeleteFunc(sites, func(s *site) bool { return s.name != only })
		require.NotEmpty(t, sites, "HEADWAY_SITE")
	}
	connections := connect(t, redistest.Start(t).Addr) // a server of its own, which nothing happens to
	sums, whole := make(map[string]*outcome), &outcome{}
	var failing []string
	histories, did, last := 0, 0, "none"
	defer func() { // after an operation that hangs, too, which ends the test
		for _, s := range sites {
			if sum := sums[s.name]; sum != nil {
				t.Logf("%s: %s", s.name, sum)
			}
		}
		t.Logf("in all: %s", whole)
		t.Logf("%d histories of %d operations are linearizable", histories, did)
		if len(failing) > 0 {
			t.Logf("failing: %s", strings.Join(failing, "; "))
		}
		t.Logf("soak: %d random operations with faults, %d violations, %d runs, last seed %s",
			whole.ops.all(), len(whole.broken), whole.runs, last)
	}()
	for end, i := time.Now().Add(d), 0; time.Now().Before(end); i++ {
		s, seed := sites[i%len(sites)], rand.Uint64N(1_000_000)
		if same {
			seed = given
		}
		last = fmt.Sprintf("HEADWAY_SITE=%s HEADWAY_SEED=%d", s.name, seed)
		o := play(t, s, seed, soakScale)
		if sums[s.name] == nil {
			sums[s.name] = &outcome{}
		}
		sums[s.name].add(o)
		whole.add(o)
		t.Logf("%s, seed %d: %d operations, %d violations, overshoot %.1f %%", s.name, seed, o.ops.all(), len(o.broken), 100*o.worst)
		if len(o.broken) > 0 {
			failing = append(failing, last)
			t.Errorf("%s:\n%s", last, o.complaint())
		}
		for range historiesBetween {
			seed := rand.Uint64N(1_000_000)
			h, err := record(t.Context(), connections, operations, seed)
			require.NoError(t, err)
			if v := judge(h); v.CheckResult != porcupine.Ok {
				fail(t, &v, seed)
			}
			histories, did = histories+1, did+len(h)
		}
	}
}

// replicatedCluster is a Redis Cluster with a replica for each master.
func replicatedCluster(t *testing.T) *site {
	t.Helper()
	cluster := redistest.StartReplicatedCluster(t)
	s := &site{name: "cluster", servers: slices.Concat(cluster.Nodes, cluster.Replicas), troubles: 3}
	s.connect = func(r *route) redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: cluster.Addrs, Dialer: r.dial, DisableIdentity: true, MaintNotificationsConfig: noMaintNotifications(),
		})
	}
	s.faults = append(networkFaults(),
		fault{"slot migration", 6, false, func(r *run, rng *rand.Rand) error {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			key := "pacer:10:{" + r.upstream + "}"
			owner, err := cluster.Owner(ctx, key)
			if err != nil {
				return err
			}
			var errs []error
			for _, i := range rng.Perm(len(s.servers)) { // a replica cannot have it
				if to := s.servers[i]; to != owner {
					err := cluster.Migrate(ctx, key, to)
					if err == nil {
						return nil
					}
					errs = append(errs, err)
				}
			}
			return errors.Join(errs...)
		}},
		fault{"master killed", 10, true, func(r *run, _ *rand.Rand) error {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			owner, err := cluster.Owner(ctx, "pacer:10:{"+r.upstream+"}")
			if err != nil {
				return err
			}
			owner.Stop()
			if err := cluster.AwaitWhole(ctx); err != nil {
				return err
			}
			owner.Restart()
			return cluster.AwaitWhole(ctx)
		}},
	)
	return s
}

// replicatedSentinel is a master and a replica, under a sentinel.
func replicatedSentinel(t *testing.T) *site {
	t.Helper()
	sentinel := redistest.StartReplicatedSentinel(t)
	master, replica := sentinel.Master, sentinel.Replica
	// After a failover the old master goes on, and grants what the new one grants too, until its clients know.
	s := &site{name: "sentinel", servers: []*redistest.Server{master, replica}, troubles: 3, masters: 2}
	s.connect = func(r *route) redis.UniversalClient {
		return sentinel.NewClient(func(o *redis.FailoverOptions) { o.Dialer = r.dial })
	}
	swap := func(ctx context.Context) error {
		master, replica = replica, master
		return replica.Replicate(ctx, master)
	}
	s.faults = append(networkFaults(),
		fault{"failover", 10, true, func(*run, *rand.Rand) error {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			for {
				// It is refused for a while after the last one, and until the sentinel knows the replica as such.
				err := sentinel.Failover(ctx)
				if err == nil {
					return swap(ctx)
				}
				select {
				case <-ctx.Done():
					return err
				case <-time.After(500 * time.Millisecond): //realtime: the sentinel is real
				}
			}
		}},
		fault{"master killed", 6, true, func(r *run, _ *rand.Rand) error {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			master.Stop()
			for {
				info, err := replica.Client().Info(ctx, "replication").Result()
				if err != nil {
					return err
				}
				if strings.Contains(info, "role:master\r\n") {
					break
				}
				select {
				case <-ctx.Done(): // it does not always, soon after another failover: then the master comes back, empty
					r.emptied = true
					master.Restart()
					return nil
				case <-time.After(50 * time.Millisecond): //realtime: the sentinel is real
				}
			}
			master.Restart()
			return swap(ctx)
		}},
	)
	return s
}

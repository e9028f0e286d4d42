package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	clusterMasters = 3
	clusterSlots   = 16384
	clusterTimeout = 30 * time.Second
)

// Cluster is a Redis Cluster of three masters and no replicas that belongs to one test.
type Cluster struct {
	// Addrs are the masters' host:port.
	Addrs []string
	// Nodes are the masters, in the order of Addrs and of the slots they own, a third each.
	Nodes []*Server

	client *redis.ClusterClient
}

// StartCluster runs three masters, joins them, and returns when each of them sees the cluster whole; the
// test's end kills them.
func StartCluster(tb testing.TB) *Cluster {
	tb.Helper()

	cluster := &Cluster{}
	for range clusterMasters {
		node := Start(tb,
			"--cluster-enabled", "yes",
			"--cluster-config-file", "nodes.conf", // in the node's own --dir
		)
		cluster.Nodes = append(cluster.Nodes, node)
		cluster.Addrs = append(cluster.Addrs, node.Addr)
	}

	ctx, cancel := context.WithTimeout(tb.Context(), clusterTimeout)
	defer cancel()

	if err := cluster.join(ctx); err != nil {
		tb.Fatal(err)
	}

	cluster.client = redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:                    cluster.Addrs,
		DisableIdentity:          true,
		MaintNotificationsConfig: noMaintNotifications(),
	})

	tb.Cleanup(func() { _ = cluster.client.Close() })

	return cluster
}

// Client returns the cluster's client, the same one on each call; the test's end closes it.
func (c *Cluster) Client() *redis.ClusterClient { return c.client }

func (c *Cluster) join(ctx context.Context) error {
	for i, node := range c.Nodes {
		// Distinct epochs, as `redis-cli --cluster create` sets them: no conflict to be resolved later.
		if err := node.Client().Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return fmt.Errorf("redistest: cluster set-config-epoch: %w", err)
		}

		first, last := clusterSlots*i/clusterMasters, clusterSlots*(i+1)/clusterMasters-1
		if err := addSlots(ctx, node.Client(), first, last); err != nil {
			return err
		}
	}

	for _, node := range c.Nodes[1:] {
		host, port, err := net.SplitHostPort(node.Addr)
		if err != nil {
			return fmt.Errorf("redistest: %w", err)
		}

		if err := c.Nodes[0].Client().ClusterMeet(ctx, host, port).Err(); err != nil {
			return fmt.Errorf("redistest: cluster meet: %w", err)
		}
	}

	for _, node := range c.Nodes {
		if err := awaitWhole(ctx, node); err != nil {
			return err
		}
	}

	return nil
}

// addSlots gives the node the slots first..last. Redis has ranges since 7.0.
func addSlots(ctx context.Context, client *redis.Client, first, last int) error {
	err := client.ClusterAddSlotsRange(ctx, first, last).Err()

	if _, refused := errors.AsType[redis.Error](err); refused {
		slots := make([]int, 0, last-first+1)
		for slot := first; slot <= last; slot++ {
			slots = append(slots, slot)
		}

		err = client.ClusterAddSlots(ctx, slots...).Err()
	}

	if err != nil {
		return fmt.Errorf("redistest: cluster addslots: %w", err)
	}

	return nil
}

// awaitWhole returns when the node knows every master and takes calls for every slot.
func awaitWhole(ctx context.Context, node *Server) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()

	whole := fmt.Sprintf("cluster_known_nodes:%d\r\n", clusterMasters)

	for {
		info, err := node.Client().ClusterInfo(ctx).Result()
		if err == nil && strings.Contains(info, "cluster_state:ok\r\n") && strings.Contains(info, whole) {
			return nil
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("redistest: %s is not part of a whole cluster after %v (%w):\n%s",
				node.Addr, clusterTimeout, errors.Join(err, ctx.Err()), info)
		case <-tick.C:
		}
	}
}

package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	clusterMasters = 3
	clusterSlots   = 16384
	clusterTimeout = 30 * time.Second
	// handshakeTimeout is after how long nodes that do not know each other are introduced again, which is harmless.
	handshakeTimeout = 2 * time.Second
)

var (
	errNoneLives = errors.New("no node of the cluster lives")
	errNoOwner   = errors.New("no living node owns the slot")
	errNotWhole  = errors.New("the cluster is not whole")
)

// Cluster is a Redis Cluster of three masters that belongs to one test. Its methods may be called from any goroutine. They skip nodes that
// are stopped or paused.
type Cluster struct {
	// Addrs are the host:port of Nodes.
	Addrs []string
	// Nodes are the servers that start as masters, in the order of the slots they then own, a third each.
	Nodes []*Server
	// Replicas are the servers that start as replicas, each of the server at the same place in Nodes. A
	// cluster of [StartCluster] has none.
	Replicas []*Server

	client *redis.ClusterClient
}

// StartCluster runs three masters without replicas, joins them, and returns when each of them sees the whole cluster; the test's end kills
// them. extraArgs are appended to the command line of each.
func StartCluster(tb testing.TB, extraArgs ...string) *Cluster {
	tb.Helper()

	return startCluster(tb, 0, extraArgs)
}

// StartReplicatedCluster runs three masters with one replica each, and returns when every replica has its master's data and every node sees
// the whole cluster; the test's end kills them.
//
// To fail over, stop or pause a master: within a few seconds its replica takes over by itself, if the other two masters live.
// [Cluster.AwaitWhole] waits for that. Writes that the master has acknowledged but not replicated are lost, as always with Redis. The old
// master, restarted or continued, becomes a replica of the new one; if it is restarted before the replica has taken over, it comes back as
// an empty master, whose replica then empties itself too.
func StartReplicatedCluster(tb testing.TB) *Cluster {
	tb.Helper()

	return startCluster(tb, clusterMasters, []string{
		// The patience with a silent master. The election of the replica takes one to two seconds more.
		"--cluster-node-timeout", "1500",
		"--cluster-replica-validity-factor", "0", // however long the replica's link has been down
		"--repl-ping-replica-period", "1",
	})
}

// startCluster runs a cluster, with one replica for each of the first masters.
func startCluster(tb testing.TB, replicas int, extraArgs []string) *Cluster {
	tb.Helper()

	args := slices.Concat([]string{
		"--cluster-enabled", "yes",
		"--cluster-config-file", "nodes.conf", // in the node's own --dir
	}, extraArgs)

	cluster := &Cluster{}
	for range clusterMasters {
		node := Start(tb, args...)
		cluster.Nodes = append(cluster.Nodes, node)
		cluster.Addrs = append(cluster.Addrs, node.Addr)
	}

	seeds := slices.Clone(cluster.Addrs)
	for range replicas {
		replica := Start(tb, args...)
		cluster.Replicas = append(cluster.Replicas, replica)
		seeds = append(seeds, replica.Addr)
	}

	if err := cluster.join(tb.Context()); err != nil {
		tb.Fatal(err)
	}

	cluster.client = redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:                    seeds,
		DisableIdentity:          true,
		MaintNotificationsConfig: noMaintNotifications(),
	})

	tb.Cleanup(func() { _ = cluster.client.Close() })

	return cluster
}

// Client returns the cluster's client, the same one on each call; the test's end closes it.
func (c *Cluster) Client() *redis.ClusterClient { return c.client }

// Owner returns the present master of a key's slot. During a failover there is none, which is an error; [Cluster.AwaitWhole] waits for its
// end.
func (c *Cluster) Owner(ctx context.Context, key string) (*Server, error) {
	slot, err := c.slot(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}

	owner, err := c.owner(ctx, slot)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}

	return owner, nil
}

// AwaitWhole returns when the living nodes take calls for every slot and agree on the masters of all slots, each of which lives too, and
// when their replicas have their masters' data. So it waits for the end of a failover, even before the cluster has noticed that a master is
// gone. It gives up after 30 s.
func (c *Cluster) AwaitWhole(ctx context.Context) error {
	if err := poll(ctx, clusterTimeout, c.checkWhole); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}

	return nil
}

// all returns the servers of the cluster, dead or alive.
func (c *Cluster) all() []*Server { return slices.Concat(c.Nodes, c.Replicas) }

// topologies returns the view of each living node.
func (c *Cluster) topologies(ctx context.Context) (map[*Server]topology, error) {
	views := make(map[*Server]topology)
	for _, node := range c.all() {
		if !node.lives() {
			continue
		}

		view, err := topologyOf(ctx, node)
		if err != nil {
			return nil, err
		}

		views[node] = view
	}

	if len(views) == 0 {
		return nil, errNoneLives
	}

	return views, nil
}

// slot returns the slot of a key.
func (c *Cluster) slot(ctx context.Context, key string) (int, error) {
	all := c.all()

	i := slices.IndexFunc(all, (*Server).lives)
	if i < 0 {
		return 0, errNoneLives
	}

	slot, err := all[i].Client().ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return 0, fmt.Errorf("%s: cluster keyslot: %w", all[i].Addr, err)
	}

	return int(slot), nil
}

// owner returns the living server that claims to be the master of the slot. An old master that has not learned of its successor may do so
// too.
func (c *Cluster) owner(ctx context.Context, slot int) (*Server, error) {
	views, err := c.topologies(ctx)
	if err != nil {
		return nil, err
	}

	var (
		owner *Server
		epoch uint64
	)

	for node, view := range views {
		self, _ := view.self()
		if self.owns(slot) && (owner == nil || self.epoch > epoch) {
			owner, epoch = node, self.epoch
		}
	}

	if owner == nil {
		return nil, fmt.Errorf("slot %d: %w", slot, errNoOwner)
	}

	return owner, nil
}

// checkWhole returns nil if the cluster is as [Cluster.AwaitWhole] describes it.
func (c *Cluster) checkWhole(ctx context.Context) error {
	views, err := c.topologies(ctx)
	if err != nil {
		return err
	}

	var living []string
	for _, view := range views {
		self, _ := view.self()
		living = append(living, self.id)
	}

	var owners []string
	for node, view := range views {
		for _, id := range living {
			if other, ok := view.byID(id); !ok || !other.healthy() {
				return fmt.Errorf("%w: %s has not met all nodes, or takes one for dead", errNotWhole, node.Addr)
			}
		}

		mine := view.owners()
		if owners == nil {
			owners = mine
		}

		if !slices.Equal(mine, owners) {
			return fmt.Errorf("%w: the nodes disagree on the owners of slots", errNotWhole)
		}
	}

	for slot, id := range owners {
		if !slices.Contains(living, id) {
			return fmt.Errorf("%w: slot %d has no living master", errNotWhole, slot)
		}
	}

	for node, view := range views {
		if err := checkNode(ctx, node, view); err != nil {
			return err
		}
	}

	return nil
}

// checkNode returns nil if the node takes calls, and, as a replica, has its master's data.
func checkNode(ctx context.Context, node *Server, view topology) error {
	info, err := node.Client().ClusterInfo(ctx).Result()
	if err != nil {
		return fmt.Errorf("%s: cluster info: %w", node.Addr, err)
	}

	if !strings.Contains(info, "cluster_state:ok\r\n") {
		return fmt.Errorf("%w: %s says:\n%s", errNotWhole, node.Addr, info)
	}

	if self, _ := view.self(); self.is("master") {
		return nil
	}

	return node.checkLink(ctx, "")
}

// join makes one cluster of nodes that know nothing of each other.
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

	for _, node := range c.all()[1:] {
		if err := c.meet(ctx, c.Nodes[0], node); err != nil {
			return fmt.Errorf("redistest: %s does not meet %s: %w", c.Nodes[0].Addr, node.Addr, err)
		}
	}

	for i, replica := range c.Replicas {
		if err := c.attach(ctx, replica, c.Nodes[i]); err != nil {
			return fmt.Errorf("redistest: %s does not replicate %s: %w", replica.Addr, c.Nodes[i].Addr, err)
		}
	}

	if err := c.AwaitWhole(ctx); err != nil {
		return err
	}

	// Before the masters know whose replica a node is, it cannot be elected.
	if err := poll(ctx, clusterTimeout, c.checkReplicasKnown); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}

	return nil
}

// meet introduces two nodes. It returns when each knows the other by its id. On a busy machine nodes may forget a handshake before it is
// complete, so it repeats it.
func (c *Cluster) meet(ctx context.Context, a, b *Server) error {
	host, port, err := net.SplitHostPort(b.Addr)
	if err != nil {
		return err
	}

	var introduced time.Time

	return poll(ctx, clusterTimeout, func(ctx context.Context) error {
		if time.Since(introduced) > handshakeTimeout { //realtime: the nodes give a handshake up by their own clocks
			introduced = time.Now()
			if err := a.Client().ClusterMeet(ctx, host, port).Err(); err != nil {
				return fmt.Errorf("cluster meet: %w", err)
			}
		}

		return errors.Join(c.checkKnows(ctx, a, b), c.checkKnows(ctx, b, a))
	})
}

// checkKnows returns nil if a node knows another by its id.
func (c *Cluster) checkKnows(ctx context.Context, node, other *Server) error {
	id, err := other.Client().Do(ctx, "CLUSTER", "MYID").Text()
	if err != nil {
		return fmt.Errorf("cluster myid: %w", err)
	}

	nodes, err := node.Client().ClusterNodes(ctx).Result()
	if err != nil {
		return fmt.Errorf("cluster nodes: %w", err)
	}

	if !strings.Contains(nodes, id) {
		return fmt.Errorf("%w: %s does not know %s", errNotWhole, node.Addr, other.Addr)
	}

	return nil
}

// attach makes a node a replica of another, as soon as it has met that one.
func (c *Cluster) attach(ctx context.Context, replica, master *Server) error {
	id, err := master.Client().Do(ctx, "CLUSTER", "MYID").Text()
	if err != nil {
		return fmt.Errorf("cluster myid: %w", err)
	}

	return poll(ctx, clusterTimeout, func(ctx context.Context) error {
		return replica.Client().ClusterReplicate(ctx, id).Err()
	})
}

// checkReplicasKnown returns nil if all nodes know the replicas of their masters.
func (c *Cluster) checkReplicasKnown(ctx context.Context) error {
	views, err := c.topologies(ctx)
	if err != nil {
		return err
	}

	for i, replica := range c.Replicas {
		self, _ := views[replica].self()
		master, _ := views[c.Nodes[i]].self()

		for node, view := range views {
			if seen, _ := view.byID(self.id); seen.masterID != master.id {
				return fmt.Errorf("%w: %s does not know whose replica %s is", errNotWhole, node.Addr, replica.Addr)
			}
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

package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

const (
	migrateBatch   = 10              // keys at a time, as redis-cli moves them
	migrateTimeout = 2 * time.Second // of one batch; below the client's read timeout
)

var (
	errNotMaster    = errors.New("it is not a living master of this cluster")
	errUnknownOwner = errors.New("a node does not know the new owner")
)

// Migrate moves the slot of a key, with all its keys, from its master to another master of the cluster, as redis-cli does. It returns when
// all living nodes know the new owner. Clients may use the slot meanwhile: they are redirected from the one master to the other.
//
// A failed move leaves the slot between the masters. Another Migrate with the same master resumes it. No two calls may move the same slot
// at the same time.
func (c *Cluster) Migrate(ctx context.Context, key string, to *Server) error {
	slot, err := c.slot(ctx, key)
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}

	if err := c.migrate(ctx, slot, to); err != nil {
		return fmt.Errorf("redistest: slot %d does not move to %s: %w", slot, to.Addr, err)
	}

	return nil
}

func (c *Cluster) migrate(ctx context.Context, slot int, to *Server) error {
	masters, err := c.masters(ctx)
	if err != nil {
		return err
	}

	toID, ok := masters[to]
	if !ok {
		return errNotMaster
	}

	from, err := c.owner(ctx, slot)
	if err != nil {
		return err
	}

	// The new owner first: until it knows, it would send clients back to the old one. The old owner next: it
	// must not learn by hearsay.
	informed := []*Server{to}

	if from != to {
		if err := setSlot(ctx, to, slot, "IMPORTING", masters[from]); err != nil {
			return err
		}

		if err := setSlot(ctx, from, slot, "MIGRATING", toID); err != nil {
			return err
		}

		if err := moveKeys(ctx, from, to, slot); err != nil {
			return err
		}

		informed = append(informed, from)
	}

	for master := range masters {
		if !slices.Contains(informed, master) {
			informed = append(informed, master)
		}
	}

	for _, master := range informed {
		if err := setSlot(ctx, master, slot, "NODE", toID); err != nil {
			return err
		}
	}

	return poll(ctx, clusterTimeout, func(ctx context.Context) error { return c.checkOwner(ctx, slot, toID) })
}

// masters returns the living masters with their ids.
func (c *Cluster) masters(ctx context.Context) (map[*Server]string, error) {
	views, err := c.topologies(ctx)
	if err != nil {
		return nil, err
	}

	masters := make(map[*Server]string)
	for node, view := range views {
		if self, _ := view.self(); self.is("master") {
			masters[node] = self.id
		}
	}

	return masters, nil
}

// moveKeys moves the keys of a slot until none is left. The old owner makes no new ones: it redirects clients to the new owner for any key
// that it does not have.
func moveKeys(ctx context.Context, from, to *Server, slot int) error {
	host, port, err := net.SplitHostPort(to.Addr)
	if err != nil {
		return err
	}

	for {
		keys, err := from.Client().ClusterGetKeysInSlot(ctx, slot, migrateBatch).Result()
		if err != nil {
			return fmt.Errorf("%s: cluster getkeysinslot: %w", from.Addr, err)
		}

		if len(keys) == 0 {
			return nil
		}

		args := []any{"MIGRATE", host, port, "", 0, migrateTimeout.Milliseconds(), "KEYS"}
		for _, key := range keys {
			args = append(args, key)
		}

		if err := from.Client().Do(ctx, args...).Err(); err != nil {
			return fmt.Errorf("%s: migrate: %w", from.Addr, err)
		}
	}
}

func setSlot(ctx context.Context, node *Server, slot int, state, id string) error {
	if err := node.Client().Do(ctx, "CLUSTER", "SETSLOT", slot, state, id).Err(); err != nil {
		return fmt.Errorf("%s: cluster setslot %s: %w", node.Addr, state, err)
	}

	return nil
}

// checkOwner returns nil if that node is the slot's master for all living nodes.
func (c *Cluster) checkOwner(ctx context.Context, slot int, id string) error {
	views, err := c.topologies(ctx)
	if err != nil {
		return err
	}

	for node, view := range views {
		if owner, ok := view.byID(id); !ok || !owner.owns(slot) {
			return fmt.Errorf("%w: %s", errUnknownOwner, node.Addr)
		}
	}

	return nil
}

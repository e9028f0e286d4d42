package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

var (
	errNoSelf  = errors.New("the node does not list itself")
	errBadLine = errors.New("not a line of CLUSTER NODES")
)

// member is a node as a node of the cluster sees it: one line of CLUSTER NODES.
type member struct {
	id        string
	flags     []string
	masterID  string // "-" where it has none
	epoch     uint64 // of two masters that claim a slot, the one with the higher epoch owns it
	connected bool
	slots     []slotRange
}

type slotRange struct{ first, last int }

// topology is the cluster as one node of it sees it.
type topology []member

// topologyOf returns a node's view of the cluster.
func topologyOf(ctx context.Context, node *Server) (topology, error) {
	text, err := node.Client().ClusterNodes(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("%s: cluster nodes: %w", node.Addr, err)
	}

	var nodes topology
	for line := range strings.Lines(text) {
		one, err := parseMember(line)
		if err != nil {
			return nil, fmt.Errorf("%s: cluster nodes: %w", node.Addr, err)
		}

		nodes = append(nodes, one)
	}

	if _, ok := nodes.self(); !ok {
		return nil, fmt.Errorf("%s: cluster nodes: %w", node.Addr, errNoSelf)
	}

	return nodes, nil
}

// parseMember reads a line of CLUSTER NODES:
//
//	<id> <address> <flags> <master> <ping sent> <pong received> <epoch> <link state> <slots>...
func parseMember(line string) (member, error) {
	fields := strings.Fields(line)
	if len(fields) < 8 {
		return member{}, fmt.Errorf("%w: %q", errBadLine, line)
	}

	epoch, err := strconv.ParseUint(fields[6], 10, 64)
	if err != nil {
		return member{}, fmt.Errorf("%w: %q: %w", errBadLine, line, err)
	}

	one := member{
		id:        fields[0],
		flags:     strings.Split(fields[2], ","),
		masterID:  fields[3],
		epoch:     epoch,
		connected: fields[7] == "connected",
	}

	for _, field := range fields[8:] {
		if strings.HasPrefix(field, "[") { // a slot on the move, which the node's own slots list too
			continue
		}

		first, last, ok := strings.Cut(field, "-")
		if !ok {
			last = first
		}

		var slots slotRange
		if slots.first, err = strconv.Atoi(first); err == nil {
			slots.last, err = strconv.Atoi(last)
		}

		if err != nil {
			return member{}, fmt.Errorf("%w: %q: %w", errBadLine, line, err)
		}

		one.slots = append(one.slots, slots)
	}

	return one, nil
}

// self returns the node whose view this is.
func (t topology) self() (member, bool) {
	i := slices.IndexFunc(t, func(m member) bool { return m.is("myself") })
	if i < 0 {
		return member{}, false
	}

	return t[i], true
}

// byID returns the node of that id.
func (t topology) byID(id string) (member, bool) {
	i := slices.IndexFunc(t, func(m member) bool { return m.id == id })
	if i < 0 {
		return member{}, false
	}

	return t[i], true
}

// owners returns, for each slot, the id of the node that this view takes for its master, or "".
func (t topology) owners() []string {
	owners := make([]string, clusterSlots)
	for _, m := range t {
		for _, slots := range m.slots {
			for slot := slots.first; slot <= slots.last; slot++ {
				owners[slot] = m.id
			}
		}
	}

	return owners
}

func (m member) is(flag string) bool { return slices.Contains(m.flags, flag) }

// healthy reports whether the node is known, reachable and not held to have failed.
func (m member) healthy() bool {
	return m.connected && !m.is("fail") && !m.is("fail?") && !m.is("handshake") && !m.is("noaddr")
}

func (m member) owns(slot int) bool {
	return slices.ContainsFunc(m.slots, func(r slotRange) bool { return r.first <= slot && slot <= r.last })
}

package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// linkTimeout bounds how long a replica may take to copy its master, which holds next to nothing.
const linkTimeout = time.Minute

var errNotLinked = errors.New("the link to its master is not up")

// Replicate makes the server a replica of master, whose data replace its own, and returns when it has them. It can be made to follow
// another master later. Servers of a cluster, and of [StartTLS], cannot be replicated so.
func (s *Server) Replicate(ctx context.Context, master *Server) error {
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}

	if err := s.Client().ReplicaOf(ctx, host, port).Err(); err != nil {
		return fmt.Errorf("redistest: %s: replicaof %s: %w", s.Addr, master.Addr, err)
	}

	if err := poll(ctx, linkTimeout, func(ctx context.Context) error { return s.checkLink(ctx, port) }); err != nil {
		return fmt.Errorf("redistest: %s does not replicate %s: %w", s.Addr, master.Addr, err)
	}

	return nil
}

// Promote makes a replica a master of its own, which keeps the data it has. Its old master does not learn of it, and goes on as a master
// too.
func (s *Server) Promote(ctx context.Context) error {
	if err := s.Client().ReplicaOf(ctx, "NO", "ONE").Err(); err != nil {
		return fmt.Errorf("redistest: %s: replicaof no one: %w", s.Addr, err)
	}

	return nil
}

// checkLink returns nil if the server is a replica that keeps up with the master on this port, or with any
// master where port is "".
func (s *Server) checkLink(ctx context.Context, port string) error {
	info, err := s.Client().Info(ctx, "replication").Result()
	if err != nil {
		return err
	}

	master := "master_port:"
	if port != "" {
		master += port + "\r\n"
	}

	if !strings.Contains(info, "master_link_status:up\r\n") || !strings.Contains(info, master) {
		return fmt.Errorf("%s: %w:\n%s", s.Addr, errNotLinked, info)
	}

	return nil
}

package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/pacer/internal/deadline"
)

// dialOnce connects to the server once, by the client's own dialer, and returns its error. The client's pool would dial five times by
// default, and log that it did. It returns nil if the client's dialer is unknown.
func (s *Store) dialOnce(ctx context.Context) error {
	dial, addrs := dialer(s.rdb)
	if dial == nil {
		return nil
	}
	var err error
	for _, addr := range addrs {
		err = caught(func() error {
			conn, err := dial(ctx, addr)
			if err == nil {
				_ = conn.Close()
			}
			return err
		})
		if err == nil {
			return nil
		}
	}
	return err
}

// dialer returns the dial function of a client, and its addresses. One of them suffices.
func dialer(rdb Client) (dial func(ctx context.Context, addr string) (net.Conn, error), addrs []string) {
	switch rdb := rdb.(type) {
	case *redis.Client:
		o := rdb.Options()
		return func(ctx context.Context, addr string) (net.Conn, error) { return o.Dialer(ctx, o.Network, addr) }, []string{o.Addr}
	case *redis.ClusterClient:
		o := rdb.Options()
		return func(ctx context.Context, addr string) (net.Conn, error) {
			if o.Dialer != nil {
				return o.Dialer(ctx, "tcp", addr)
			}
			one := &net.Dialer{Timeout: o.DialTimeout}
			if o.TLSConfig == nil {
				return one.DialContext(ctx, "tcp", addr)
			}
			return (&tls.Dialer{NetDialer: one, Config: o.TLSConfig}).DialContext(ctx, "tcp", addr)
		}, o.Addrs
	}
	return nil, nil
}

// reachable returns an error if the last operation got no answer, and no connection can be made now. So each operation connects once to a
// server that is gone, and the client logs nothing.
func (s *Store) reachable(ctx context.Context) error {
	deadline.Connecting(ctx)
	if !s.silent.Load() {
		return nil
	}
	if err := s.dialOnce(ctx); err != nil {
		return err
	}
	s.silent.Store(false)
	return nil
}

// failed records that an operation failed, and reports whether the server answered.
func (s *Store) failed(err error) (answered bool) {
	if _, answered = errors.AsType[redis.Error](err); !answered {
		s.silent.Store(true) // a client may report only that the time is over, when it has been dialing all the while
	}
	return answered
}

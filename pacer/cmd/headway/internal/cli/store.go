package cli

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// An Operator reads one upstream and intervenes. A *fleet.Operator is one.
type Operator interface {
	Snapshot(ctx context.Context, opts ...pacer.ScopeOption) (*fleet.Snapshot, error)
	Pause(ctx context.Context, d time.Duration, names []string, opts ...pacer.ScopeOption) error
	Resume(ctx context.Context, opts ...pacer.ScopeOption) error
	Reset(ctx context.Context, opts ...pacer.ScopeOption) error
	SetPolicies(ctx context.Context, list ...policies.Policy) error
	UnsetPolicies(ctx context.Context) error
	SetLimit(ctx context.Context, policy string, with policies.Policy, lasts time.Duration, opts ...pacer.ScopeOption) error
	UnsetLimit(ctx context.Context, policy string, opts ...pacer.ScopeOption) error
	Settings(ctx context.Context) (*fleet.Settings, error)
}

// A Store is the store of the processes that pace upstreams.
type Store interface {
	// Upstreams returns the names of the upstreams that processes pace, in order.
	Upstreams(ctx context.Context) ([]string, error)
	// Operator returns the operator of an upstream, or a *pacer.ConfigError if no process paces it.
	Operator(ctx context.Context, upstream string) (Operator, error)
	// Close ends its connections.
	Close() error
}

// Where is which store is meant.
type Where struct {
	Redis   string        // addresses separated by commas, or a URL
	Cluster bool          // it is a Redis Cluster, though one address is given
	Master  string        // the name of the master that the sentinels at the addresses watch; "" for none
	Timeout time.Duration // of one look or one intervention
}

// OpenRedis returns the store in Redis that w describes. It does not connect yet.
func OpenRedis(w Where) (Store, error) {
	options, err := w.options()
	if err != nil {
		return nil, err
	}
	redis.SetLogger(quiet{}) // the command reports failures, once
	rdb := redis.NewUniversalClient(options)
	store, err := redisstore.New(rdb)
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	return &redisStore{rdb: rdb, store: store}, nil
}

// quiet drops what go-redis logs.
type quiet struct{}

// Printf implements go-redis's logger.
func (quiet) Printf(context.Context, string, ...any) {}

// options returns the client's options.
func (w Where) options() (*redis.UniversalOptions, error) {
	o, err := w.addresses()
	if err != nil {
		return nil, err
	}
	if w.Timeout <= 0 {
		return nil, usagef("--timeout is %s: it must be more than 0", w.Timeout)
	}
	if w.Cluster && w.Master != "" {
		return nil, usagef("--cluster and --master exclude each other: a Cluster has no sentinels")
	}
	o.IsClusterMode, o.MasterName = w.Cluster, w.Master
	o.ContextTimeoutEnabled = true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = w.Timeout, w.Timeout, w.Timeout, w.Timeout
	o.MaxRetries, o.DialerRetries = -1, 1
	return o, nil
}

// addresses reads the addresses of Redis. Errors repeat nothing of them: any part may be a misplaced password.
func (w Where) addresses() (*redis.UniversalOptions, error) {
	if strings.Contains(w.Redis, "://") {
		u, err := redis.ParseURL(w.Redis)
		if err != nil || !isAddress(u.Addr) {
			return nil, usagef("--redis is not a valid Redis URL: write redis://user:password@host:6379/0, or rediss:// for TLS, " +
				"and escape the password as in any URL (%%2F for /, %%40 for @)")
		}
		return &redis.UniversalOptions{
			Addrs: []string{u.Addr}, DB: u.DB, Username: u.Username, Password: u.Password, TLSConfig: u.TLSConfig, Protocol: u.Protocol,
		}, nil
	}
	o := &redis.UniversalOptions{}
	for addr := range strings.SplitSeq(w.Redis, ",") {
		if !isAddress(addr) {
			return nil, usagef("--redis is not an address: write host:port, or several separated by commas; with a password, write a URL: " +
				"redis://user:password@host:6379, or rediss:// for TLS")
		}
		o.Addrs = append(o.Addrs, addr)
	}
	return o, nil
}

// isAddress reports whether a text is a host and a port number.
func isAddress(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil && !strings.ContainsFunc(host, func(r rune) bool { // an address of IPv6 may have a zone
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-._:%", r)
	})
}

// redisStore is a Store in Redis.
type redisStore struct {
	rdb   redis.UniversalClient
	store *redisstore.Store
}

// Upstreams implements [Store].
func (s *redisStore) Upstreams(ctx context.Context) ([]string, error) {
	return s.store.Upstreams(ctx)
}

// Operator implements [Store].
func (s *redisStore) Operator(ctx context.Context, upstream string) (Operator, error) {
	return fleet.Open(ctx, s.store, upstream)
}

// Close implements [Store].
func (s *redisStore) Close() error { return s.rdb.Close() }

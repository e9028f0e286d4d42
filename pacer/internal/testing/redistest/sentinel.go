package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// MasterName is what the sentinel of [StartReplicatedSentinel] calls its master.
const MasterName = "headway"

const sentinelTimeout = 30 * time.Second

var (
	errNotReady  = errors.New("the sentinel does not know the master and its replica as such")
	errOldMaster = errors.New("the master is still the old one")
)

// Sentinel is a master, a replica of it, and one sentinel that watches them, which belong to one test. Its
// methods may be called from any goroutine.
type Sentinel struct {
	// Master and Replica are the servers that started as such. A failover swaps their roles.
	Master, Replica *Server

	tb      testing.TB
	addr    string
	control *redis.SentinelClient

	mu     sync.Mutex
	client *redis.Client
}

// StartReplicatedSentinel runs a master, a replica and a sentinel, and returns when the replica has the master's data and the sentinel
// knows both; the test's end kills them.
//
// To fail over, stop or pause Master: within a few seconds the sentinel makes Replica the master. Writes that the old master has
// acknowledged but not replicated are lost, as always with Redis. When the old master is restarted or continued, it acts as a master until
// the sentinel makes it a replica of the new one, some ten seconds later.
func StartReplicatedSentinel(tb testing.TB) *Sentinel {
	tb.Helper()

	sentinel := &Sentinel{tb: tb, Master: Start(tb), Replica: Start(tb)}
	if err := sentinel.Replica.Replicate(tb.Context(), sentinel.Master); err != nil {
		tb.Fatal(err)
	}

	// The sentinel looks for replicas when it starts, and then every ten seconds, so this one must exist before.
	sentinel.addr = startSentinel(tb, sentinel.Master,
		"down-after-milliseconds "+MasterName+" 500",
		"failover-timeout "+MasterName+" 3000",
	).Addr

	sentinel.control = redis.NewSentinelClient(&redis.Options{
		Addr:                     sentinel.addr,
		DisableIdentity:          true,
		MaintNotificationsConfig: noMaintNotifications(),
	})
	tb.Cleanup(func() { _ = sentinel.control.Close() })

	if err := poll(tb.Context(), sentinelTimeout, sentinel.checkReady); err != nil {
		tb.Fatalf("redistest: %v", err)
	}

	return sentinel
}

// Client returns a client that finds the master through the sentinel, the same one on each call; the test's end
// closes it.
func (s *Sentinel) Client() *redis.Client {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.client == nil {
		s.client = s.NewClient(nil)
	}

	return s.client
}

// NewClient returns another client that finds the master through the sentinel; edit, if not nil, changes its
// options first. The test's end closes it.
func (s *Sentinel) NewClient(edit func(*redis.FailoverOptions)) *redis.Client {
	options := &redis.FailoverOptions{
		MasterName:      MasterName,
		SentinelAddrs:   []string{s.addr},
		DisableIdentity: true,
	}
	if edit != nil {
		edit(options)
	}

	client := redis.NewFailoverClient(options)
	s.tb.Cleanup(func() { _ = client.Close() })

	return client
}

// Failover makes the sentinel promote the replica while the master lives, and returns when the sentinel names the new master and that one
// answers as a master. It gives up after 30 s.
//
// Clients receive the new master a moment later. The old one is not notified for some ten seconds: until then it acts as a master, takes
// the writes of clients that do not know yet, and loses them when it becomes a replica. Another Failover in that time is refused at first,
// and then goes back to the old master and to its data. To end that time at once, call Replicate of the old master.
func (s *Sentinel) Failover(ctx context.Context) error {
	old, err := s.masterAddr(ctx)
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}

	if err := s.control.Failover(ctx, MasterName).Err(); err != nil {
		return fmt.Errorf("redistest: sentinel failover: %w", err)
	}

	if err := poll(ctx, sentinelTimeout, func(ctx context.Context) error {
		return s.checkFailedOver(ctx, old)
	}); err != nil {
		return fmt.Errorf("redistest: sentinel failover: %w", err)
	}

	return nil
}

// masterAddr returns the address of the master, as the sentinel sees it. During a failover, this is the old one until clients are notified
// of the new one.
func (s *Sentinel) masterAddr(ctx context.Context) (string, error) {
	master, err := s.control.Master(ctx, MasterName).Result()
	if err != nil {
		return "", fmt.Errorf("sentinel master: %w", err)
	}

	return net.JoinHostPort(master["ip"], master["port"]), nil
}

// checkReady returns nil if the sentinel could fail over.
func (s *Sentinel) checkReady(ctx context.Context) error {
	master, err := s.control.Master(ctx, MasterName).Result()
	if err != nil {
		return fmt.Errorf("sentinel master: %w", err)
	}

	replicas, err := s.control.Replicas(ctx, MasterName).Result()
	if err != nil {
		return fmt.Errorf("sentinel replicas: %w", err)
	}

	if master["flags"] != "master" || len(replicas) != 1 ||
		replicas[0]["flags"] != "slave" || replicas[0]["master-link-status"] != "ok" {
		return fmt.Errorf("%w: %v, %v", errNotReady, master, replicas)
	}

	return nil
}

// checkFailedOver returns nil if there is another master, which reports so itself.
func (s *Sentinel) checkFailedOver(ctx context.Context, old string) error {
	addr, err := s.masterAddr(ctx)
	if err != nil {
		return err
	}

	master := s.Master
	if addr == s.Replica.Addr {
		master = s.Replica
	}

	if addr == old {
		return fmt.Errorf("%w: %s", errOldMaster, old)
	}

	info, err := master.Client().Info(ctx, "replication").Result()
	if err != nil {
		return err
	}

	if !strings.Contains(info, "role:master\r\n") {
		return fmt.Errorf("%w: %s says:\n%s", errOldMaster, addr, info)
	}

	return nil
}

// startSentinel runs a sentinel that watches the master, with further settings of its own.
func startSentinel(tb testing.TB, master *Server, settings ...string) *Server {
	tb.Helper()

	host, masterPort, err := net.SplitHostPort(master.Addr)
	if err != nil {
		tb.Fatal(err)
	}

	settings = append([]string{"monitor " + MasterName + " " + host + " " + masterPort + " 1"}, settings...)
	text := "sentinel " + strings.Join(settings, "\nsentinel ") + "\n"

	sentinel := newServer(tb)
	if err := sentinel.start(tb.Context(), func(port int) ([]string, error) {
		// A sentinel rewrites its configuration: it must be a file.
		config := filepath.Join(sentinel.dir, "sentinel.conf")

		return []string{
			config, "--sentinel",
			"--port", strconv.Itoa(port),
			"--dir", sentinel.dir,
			"--bind", "127.0.0.1",
			"--protected-mode", "no",
		}, os.WriteFile(config, []byte(text), 0o600)
	}); err != nil {
		tb.Fatal(err)
	}

	return sentinel
}

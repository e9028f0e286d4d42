package faulttest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/internal/scripts"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A loser of replies stands between clients and a server. It passes everything on, except for a reply that a test makes it lose: what the
// server sends then is dropped, and the connection closed. The server has executed the request.
type replyLoser struct {
	server   string
	listener net.Listener

	mu     sync.Mutex
	lose   bool
	marker []byte // in the request whose reply gets lost; nil for the next reply
	lost   int
}

func newReplyLoser(t *testing.T, server string) *replyLoser {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &replyLoser{server: server, listener: listener}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go l.pass(client)
		}
	}()
	return l
}

func (l *replyLoser) pass(client net.Conn) {
	defer func() { _ = client.Close() }()
	var d net.Dialer
	server, err := d.DialContext(context.Background(), "tcp", l.server)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var marked atomic.Bool // this connection has the reply that gets lost
	go func() {
		_, _ = io.Copy(server, io.TeeReader(client, requests{l, &marked}))
		_ = server.Close()
	}()
	buffer := make([]byte, 1<<16)
	for {
		n, err := server.Read(buffer)
		if err != nil || l.loses(marked.Load()) {
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// requests are what a client sends by one connection, which go-redis writes one by one.
type requests struct {
	loser  *replyLoser
	marked *atomic.Bool
}

// Write implements [io.Writer]. It sees a request before the server does.
func (r requests) Write(p []byte) (int, error) {
	r.loser.mu.Lock()
	defer r.loser.mu.Unlock()
	if r.loser.lose && r.loser.marker != nil && bytes.Contains(p, r.loser.marker) {
		r.marked.Store(true)
	}
	return len(p), nil
}

// loses reports whether this reply is one to be lost. It is the one with the marker if it comes by a marked connection.
func (l *replyLoser) loses(marked bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.lose || l.marker != nil && !marked {
		return false
	}
	l.lose = false
	l.lost++
	return true
}

// next has the next reply lost.
func (l *replyLoser) next() { l.nextOf("") }

// nextOf has the reply to the next request lost that has a text in it.
func (l *replyLoser) nextOf(marker string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose, l.marker = true, nil
	if marker != "" {
		l.marker = []byte(marker)
	}
}

// count returns how many replies were lost.
func (l *replyLoser) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// lossy is a server behind a loser of replies, and a client of it that has its defaults, those for retries too.
type lossy struct {
	*replyLoser

	t     *testing.T
	redis *redistest.Server
	rdb   *redis.Client
}

func newLossy(t *testing.T) *lossy {
	t.Helper()
	server := redistest.Start(t)
	l := &lossy{newReplyLoser(t, server.Addr), t, server, nil}
	l.rdb = redis.NewClient(&redis.Options{Addr: l.listener.Addr().String(), MaintNotificationsConfig: noMaintNotifications()})
	t.Cleanup(func() { _ = l.rdb.Close() })
	require.Positive(t, l.rdb.Options().MaxRetries)
	return l
}

var evalshaCalls = regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`)

// requested returns how often the server was to run a script that it knows.
func (l *lossy) requested() int {
	l.t.Helper()
	info, err := l.redis.Client().Info(l.t.Context(), "commandstats").Result()
	require.NoError(l.t, err)
	found := evalshaCalls.FindStringSubmatch(info)
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	require.NoError(l.t, err)
	return n
}

const (
	lossyUpstream, lossyPolicy = "lossy", "count"

	lossyKey = "pacer:10:{" + lossyUpstream + "}:" + lossyPolicy
)

func counting() policies.Policy { return policies.Fixed(1_000_000, 24*time.Hour).Named(lossyPolicy) }

// charged returns what the account of the policy holds: of a window's key, the number before the list of its buckets.
func (l *lossy) charged() int {
	l.t.Helper()
	value, err := l.redis.Client().Get(l.t.Context(), lossyKey).Result()
	if errors.Is(err, redis.Nil) {
		return 0
	}
	require.NoError(l.t, err)
	fields := strings.Fields(value[:strings.IndexByte(value, '|')])
	require.Len(l.t, fields, 3, value)
	n, err := strconv.Atoi(fields[2])
	require.NoError(l.t, err)
	return n
}

func TestLostReplyIsChargedOnceAndNotRequestedAgain(t *testing.T) {
	t.Parallel()
	l := newLossy(t)

	// go-redis itself sends the command again.
	hash, err := l.rdb.ScriptLoad(t.Context(), "return 1").Result()
	require.NoError(t, err)
	l.next()
	require.NoError(t, l.rdb.EvalSha(t.Context(), hash, nil).Err())
	require.Equal(t, 1, l.count())
	require.Equal(t, 2, l.requested(), "a client that does not retry proves nothing")

	backing, err := redisstore.New(l.rdb)
	require.NoError(t, err)
	stack := store.Stack{Upstream: lossyUpstream, Limits: []store.Limit{{Policy: lossyPolicy, Spec: counting().Spec()}}}
	calls, grants := []store.Call{{Cost: 1, MaxWait: pacer.Forever}}, make([]store.Grant, 1)
	require.NoError(t, backing.Reserve(t.Context(), stack, calls, grants))
	require.Equal(t, 1, l.charged())
	for i := range 5 {
		require.NoError(t, l.rdb.Ping(t.Context()).Err()) // so that it has a connection, and the reply is not that to a greeting
		lost, requested := l.count(), l.requested()
		l.next()
		require.Error(t, backing.Reserve(t.Context(), stack, calls, grants))
		require.Equal(t, lost+1, l.count())
		require.Equal(t, requested+1, l.requested())
		require.Equal(t, 2+i, l.charged())
	}
	// The same of other operations.
	for _, do := range []func() error{
		func() error { return backing.Cancel(t.Context(), stack, grants) },
		func() error { _, err := backing.Status(t.Context(), stack); return err },
		func() error {
			_, _, err := backing.Report(t.Context(), stack, []store.Note{{Kind: store.NoteLearn, For: time.Millisecond}})
			return err
		},
		func() error {
			_, err := backing.Heartbeat(t.Context(), lossyUpstream, store.Heartbeat{ID: "x", TTL: time.Second})
			return err
		},
	} {
		require.NoError(t, do()) // so that the server knows the script
		requested := l.requested()
		l.next()
		require.Error(t, do())
		require.Equal(t, requested+1, l.requested())
	}
}

// A call whose reply is lost is charged once, and once more if the process went locally meanwhile. Then the process comes back, and reports
// what it spent locally.
func TestLostReplyWhilePacing(t *testing.T) {
	t.Parallel()
	const times = 2
	reserving := redis.NewScript(scripts.New()[scripts.Reserve]).Hash()
	for name, outage := range map[string]pacer.Outage{"PaceLocally": pacer.PaceLocally, "RefuseCalls": pacer.RefuseCalls, "LetThrough": pacer.LetThrough} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLossy(t)
			backing, err := redisstore.New(l.rdb)
			require.NoError(t, err)
			back := make(chan struct{}, times)
			p, err := pacer.New(pacer.Config{
				Upstream: lossyUpstream, Policies: []policies.Policy{counting()}, Store: backing, Outage: outage,
				StoreTimeout: 2 * time.Second, // so that nothing but a lost reply makes it pace locally
				Hooks: []*hooks.Set{{Failover: func(f hooks.Failover) {
					if !f.On {
						back <- struct{}{}
					}
				}}},
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, p.Close()) }()
			require.NoError(t, p.Wait(t.Context()))
			for i := range times {
				before, lost := l.charged(), l.count()
				l.nextOf(reserving) // heartbeats name the key, too
				err := p.Wait(t.Context())
				require.Equal(t, lost+1, l.count(), "the call's reply was not lost")
				if outage == pacer.RefuseCalls {
					require.ErrorIs(t, err, store.ErrUnreachable)
				} else {
					require.NoError(t, err)
				}
				require.GreaterOrEqual(t, l.charged(), before+1, "the script has run")

				select {
				case <-back:
				case <-time.After(patience):
					require.FailNow(t, "the process does not come back")
				}
				most := 1
				if outage == pacer.PaceLocally {
					most = 2
				}
				after := l.charged() - before
				require.GreaterOrEqual(t, after, 1, "call %d", i)
				require.LessOrEqual(t, after, most, "call %d", i)
				require.NoError(t, p.Wait(t.Context()))
				require.Equal(t, before+after+1, l.charged(), "it is together again")
			}
		})
	}
}

// A refund or settlement with a lost reply is done once: others may have had it meanwhile. Only the higher cost of a call is sent again.
func TestLostReplyOfWhatIsGivenBack(t *testing.T) {
	t.Parallel()
	program := scripts.New()
	for name, c := range map[string]struct {
		script string
		do     func(r *pacer.Reservation, ctx context.Context) error
		cost   int // of the call in the end
	}{
		"cancelled":    {program[scripts.Cancel], (*pacer.Reservation).NotUsed, 0},
		"settled less": {program[scripts.Report], settles(1), 1},
		"settled more": {program[scripts.Report], settles(30), 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLossy(t)
			backing, err := redisstore.New(l.rdb)
			require.NoError(t, err)
			back := make(chan struct{}, 100)
			p, err := pacer.New(pacer.Config{
				Upstream: lossyUpstream, Policies: []policies.Policy{counting()}, Store: backing, StoreTimeout: 2 * time.Second,
				Hooks: []*hooks.Set{{Failover: func(f hooks.Failover) {
					if !f.On {
						back <- struct{}{}
					}
				}}},
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, p.Close()) }()
			made := func() *pacer.Reservation {
				r, err := p.Reserve(t.Context(), pacer.Cost(10), pacer.NotBefore(50*time.Millisecond))
				require.NoError(t, err)
				if c.cost > 0 {
					require.NoError(t, r.Wait(t.Context()))
				}
				return r
			}
			require.NoError(t, c.do(made(), t.Context()))            // so that the server knows the script
			require.NoError(t, p.Wait(t.Context(), pacer.Cost(100))) // what others have
			want := 100 + c.cost
			require.Equal(t, want, l.charged())
			for range 2 {
				r, lost := made(), l.count()
				l.nextOf(redis.NewScript(c.script).Hash())
				require.NoError(t, c.do(r, t.Context()))
				require.Equal(t, lost+1, l.count(), "its reply was not lost")
				select {
				case <-back:
				case <-time.After(patience):
					require.FailNow(t, "the process does not come back")
				}
				want += c.cost
				require.Eventually(t, func() bool { return l.charged() == want }, patience, 10*time.Millisecond, "%d and not %d", l.charged(), want)
			}
			require.NoError(t, p.Wait(t.Context()), "it asks for nothing more")
			require.Equal(t, want+1, l.charged())
		})
	}
}

// settles returns what settles a call at a cost.
func settles(cost int64) func(*pacer.Reservation, context.Context) error {
	return func(r *pacer.Reservation, ctx context.Context) error { return r.Settle(ctx, policies.Cost{N: cost}) }
}

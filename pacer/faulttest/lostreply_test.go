package faulttest_test

import (
	"context"
	"io"
	"net"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// A loser of replies stands between clients and a server. It passes everything on, but for a reply that it is told
// to lose: what the server sends then is dropped, and the connection closed. The server has done what it was asked.
type replyLoser struct {
	server   string
	listener net.Listener

	mu   sync.Mutex
	lose int
	lost int
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
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	buffer := make([]byte, 1<<16)
	for {
		n, err := server.Read(buffer)
		if err != nil || l.loses() {
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// loses reports whether this reply is one to be lost.
func (l *replyLoser) loses() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lose == 0 {
		return false
	}
	l.lose--
	l.lost++
	return true
}

// next has the next reply lost.
func (l *replyLoser) next() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose = 1
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

// asked returns how often the server was asked to run a script that it knows.
func (l *lossy) asked() int {
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

const lossyUpstream, lossyPolicy = "lossy", "count"

func counting() policies.Policy { return policies.Fixed(1_000_000, 24*time.Hour).Named(lossyPolicy) }

// charged returns what the account of the policy holds. A window's key is a hash with a field for each bucket, named by
// when it begins.
func (l *lossy) charged() int {
	l.t.Helper()
	all, err := l.redis.Client().HGetAll(l.t.Context(), "pacer:{"+lossyUpstream+"}:"+lossyPolicy).Result()
	require.NoError(l.t, err)
	sum := 0
	for field, value := range all {
		if _, err := strconv.ParseInt(field, 10, 64); err == nil {
			n, err := strconv.Atoi(value)
			require.NoError(l.t, err)
			sum += n
		}
	}
	return sum
}

func TestLostReplyIsChargedOnceAndNotAskedAgain(t *testing.T) {
	t.Parallel()
	l := newLossy(t)

	// What go-redis does by itself: it sends the command again.
	hash, err := l.rdb.ScriptLoad(t.Context(), "return 1").Result()
	require.NoError(t, err)
	l.next()
	require.NoError(t, l.rdb.EvalSha(t.Context(), hash, nil).Err())
	require.Equal(t, 1, l.count())
	require.Equal(t, 2, l.asked(), "a client that does not retry proves nothing")

	store, err := redisstore.New(l.rdb)
	require.NoError(t, err)
	stack := pacer.Stack{Upstream: lossyUpstream, Limits: []pacer.Limit{{Policy: lossyPolicy, Spec: counting().Spec()}}}
	calls, grants := []pacer.Call{{Cost: 1, MaxWait: pacer.Forever}}, make([]pacer.Grant, 1)
	require.NoError(t, store.Reserve(t.Context(), stack, calls, grants))
	require.Equal(t, 1, l.charged())
	for i := range 5 {
		require.NoError(t, l.rdb.Ping(t.Context()).Err()) // so that it has a connection, and the reply is not that to a greeting
		lost, asked := l.count(), l.asked()
		l.next()
		require.Error(t, store.Reserve(t.Context(), stack, calls, grants))
		require.Equal(t, lost+1, l.count())
		require.Equal(t, asked+1, l.asked())
		require.Equal(t, 2+i, l.charged())
	}
	// The same of other operations.
	for _, do := range []func() error{
		func() error { return store.Cancel(t.Context(), stack, grants) },
		func() error { _, err := store.Status(t.Context(), stack); return err },
		func() error {
			_, _, err := store.Report(t.Context(), stack, []pacer.Note{{Kind: pacer.NotePause, Limit: 0, For: time.Millisecond}})
			return err
		},
		func() error {
			_, err := store.Beat(t.Context(), lossyUpstream, pacer.Beat{ID: "x", Lives: time.Second})
			return err
		},
	} {
		require.NoError(t, do()) // so that the server knows the script
		asked := l.asked()
		l.next()
		require.Error(t, do())
		require.Equal(t, asked+1, l.asked())
	}
}

// awaitBeat returns when a beat has just been sent, so that the next reply is that of a call.
func (l *lossy) awaitBeat() {
	l.t.Helper()
	before := l.asked()
	require.Eventually(l.t, func() bool { return l.asked() > before }, 10*time.Second, 5*time.Millisecond)
	time.Sleep(20 * time.Millisecond) // until it is answered
}

func TestLostReplyWhilePacing(t *testing.T) {
	t.Parallel()
	const times = 2
	for name, outage := range map[string]pacer.Outage{"PaceAlone": pacer.PaceAlone, "RefuseCalls": pacer.RefuseCalls, "LetThrough": pacer.LetThrough} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLossy(t)
			store, err := redisstore.New(l.rdb)
			require.NoError(t, err)
			p, err := pacer.New(pacer.Config{Upstream: lossyUpstream, Policies: []policies.Policy{counting()}, Store: store, Outage: outage})
			require.NoError(t, err)
			defer func() { require.NoError(t, p.Close()) }()
			require.NoError(t, p.Wait(t.Context()))
			for i := range times {
				l.awaitBeat()
				before, lost := l.charged(), l.count()
				l.next()
				err := p.Wait(t.Context())
				require.Equal(t, lost+1, l.count(), "the call's reply was not the one that was lost")
				if outage == pacer.RefuseCalls {
					require.ErrorIs(t, err, pacer.ErrUnreachable)
				} else {
					require.NoError(t, err)
				}
				require.Equal(t, before+1, l.charged(), "the script has run")

				// The process comes back, and says what it spent alone.
				time.Sleep(1500 * time.Millisecond)
				most := 1
				if outage == pacer.PaceAlone {
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

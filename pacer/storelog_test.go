package pacer_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A logged is a logger and its lines.
type logged struct {
	*slog.Logger

	mu  sync.Mutex
	buf bytes.Buffer
}

func newLogged() *logged {
	l := &logged{}
	l.Logger = slog.New(slog.NewTextHandler(l, nil))
	return l
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// count returns how many lines contain a text.
func (l *logged) count(text string) int {
	return strings.Count(l.text(), text)
}

// loggedUpstreams has a name for each test, because warnings are counted for the whole process.
var loggedUpstreams struct {
	sync.Mutex

	n int
}

func loggedUpstream() string {
	loggedUpstreams.Lock()
	defer loggedUpstreams.Unlock()
	loggedUpstreams.n++
	return fmt.Sprintf("logged-%d", loggedUpstreams.n)
}

func loggedPacer(t *testing.T, r *remote, c pacer.Config) *pacer.Pacer {
	t.Helper()
	c.Upstream, c.Store, c.Policies = loggedUpstream(), r, []policies.Policy{policies.PerSecond(1000).Burst(1000)}
	p, err := pacer.New(c)
	require.NoError(t, err)
	return p
}

// A process that loses its store logs it, once a minute at most, however often that happens, and logs its return.
func TestALostStoreIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, l := newRemote(3), newLogged()
		p := loggedPacer(t, r, pacer.Config{Logger: l.Logger, Processes: 3})
		defer closing(t, p)
		require.NoError(t, p.Wait(t.Context()))
		for range 5 { // it comes and goes
			r.set(errBroken, 0)
			require.NoError(t, p.Wait(t.Context()))
			time.Sleep(time.Second)
			r.set(nil, 0)
			back()
		}
		require.Equal(t, 1, l.count("level=WARN"), l.text())
		require.Equal(t, 1, l.count("the store is back"))
		require.Equal(t, 1, l.count("the store is lost"))
		require.Equal(t, 1, l.count("processes=3"))
		require.Equal(t, 1, l.count("connection refused"))

		r.set(errBroken, 0)
		require.NoError(t, p.Wait(t.Context()))
		require.Equal(t, 1, l.count("level=WARN"))
		time.Sleep(time.Minute)
		require.Equal(t, 2, l.count("level=WARN"), "it is still lost")
		time.Sleep(time.Hour)
		require.InDelta(t, 2+8, l.count("level=WARN"), 2, "every ten minutes, in the end")
		r.set(nil, 0)
		back()
		require.Equal(t, 2, l.count("the store is back"))
		n := l.count("\n")
		time.Sleep(time.Hour)
		require.Equal(t, n, l.count("\n"))
	})
}

// A logger that hangs or panics delays no call and not the way back to the store, and ends nothing. Dropped lines are counted.
func TestALoggerThatFailsHarmsNobody(t *testing.T) { //nolint:paralleltest // it sets the default logger, which logs a panic
	before := slog.Default()
	defer slog.SetDefault(before)
	for _, panics := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r, free, kept := newRemote(1), make(chan struct{}), newLogged()
			logger := slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
				if panics {
					panic("a handler")
				}
				<-free
				return kept.Write(p)
			}), nil))
			slog.SetDefault(logger)
			p := loggedPacer(t, r, pacer.Config{Logger: logger, Processes: 1})
			require.NoError(t, p.Wait(t.Context()))
			for absences := range 20 {
				r.set(errBroken, 0)
				require.NoError(t, p.Wait(t.Context()))
				time.Sleep(15 * time.Minute)
				r.set(nil, 0)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				require.NoError(t, p.Wait(ctx))
				cancel()
				back()
				require.Equal(t, absences+1, pacer.Absences(p))
			}
			if close(free); !panics {
				synctest.Wait()
				require.Equal(t, 1, kept.count("level=WARN msg=\"headway: the logger is too slow, lines were dropped\""), kept.text())
			}
			closing(t, p)
		})
	}
}

// A writer is a function.
type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// Two Pacers of an upstream log it once.
func TestALostStoreIsLoggedOnceForEachUpstream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, l := newRemote(2), newLogged()
		var all []*pacer.Pacer
		upstream := loggedUpstream()
		for range 3 {
			p, err := pacer.New(pacer.Config{Upstream: upstream, Store: r, Logger: l.Logger, Processes: 2})
			require.NoError(t, err)
			defer closing(t, p)
			all = append(all, p)
		}
		r.set(errBroken, 0)
		for _, p := range all {
			require.NoError(t, p.Wait(t.Context()))
		}
		synctest.Wait()
		require.Equal(t, 1, l.count("level=WARN"), l.text())
	})
}

// A first contact that does not come is logged, too.
func TestNoContactIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, l := newRemote(3), newLogged()
		r.failing = errBroken
		p := loggedPacer(t, r, pacer.Config{Logger: l.Logger})
		defer closing(t, p)
		require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), store.ErrNoContact)
		synctest.Wait()
		require.Equal(t, 1, l.count("the store has not answered since this process started"), l.text())
		for _, part := range []string{"level=WARN", "upstream=logged-", "address, network, ACL", "Config.Processes", "connection refused"} {
			require.Equal(t, 1, l.count(part), part)
		}
		time.Sleep(90 * time.Second)
		require.Equal(t, 2, l.count("level=WARN"))
		r.set(nil, 0)
		back()
		require.Equal(t, 1, l.count("the store is back"))
	})
}

// By default it goes to slog's default logger, unless hooks log it.
func TestWhoLogsALostStore(t *testing.T) { //nolint:paralleltest // it replaces the default logger
	before, output, flags := slog.Default(), log.Writer(), log.Flags()
	defer func() { // which sets the output of package log, too, but does not set it back
		slog.SetDefault(before)
		log.SetOutput(output)
		log.SetFlags(flags)
	}()
	synctest.Test(t, func(t *testing.T) {
		byDefault, byHooks := newLogged(), newLogged()
		slog.SetDefault(byDefault.Logger)
		lose := func(c pacer.Config) {
			r := newRemote(1)
			c.Processes = 1
			p := loggedPacer(t, r, c)
			require.NoError(t, p.Wait(t.Context()))
			r.set(errBroken, 0)
			require.NoError(t, p.Wait(t.Context()))
			time.Sleep(time.Second)
			closing(t, p)
		}
		lose(pacer.Config{})
		require.Equal(t, 1, byDefault.count("the store is lost"))
		lose(pacer.Config{Logger: slog.New(slog.DiscardHandler)})
		lose(pacer.Config{Hooks: []*hooks.Set{hooks.Log(byHooks.Logger)}})
		require.Equal(t, 1, byHooks.count("the store is lost"))
		require.Equal(t, 1, byDefault.count("the store is lost"))
		lose(pacer.Config{Hooks: []*hooks.Set{{Failover: func(hooks.Failover) {}}}})
		require.Equal(t, 2, byDefault.count("the store is lost"), "nobody knows whether those log")
	})
}

// Refunds that an absent store missed are counted, for hooks and in the log.
func TestWhatWasDroppedIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, dropped := newLogged(), 0
		sets := []*hooks.Set{hooks.Log(l.Logger), {Failover: func(f hooks.Failover) { dropped = f.Dropped }}}
		p := loggedPacer(t, newRemote(1), pacer.Config{Hooks: sets})
		pacer.Returned(p, 7)
		closing(t, p)
		require.Equal(t, 7, dropped)
		require.Equal(t, 1, l.count(`level=INFO msg="headway: the store is back"`), l.text())
		require.Equal(t, 1, l.count("dropped=7"), l.text())
	})
}

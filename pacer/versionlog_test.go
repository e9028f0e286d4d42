package pacer_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/hooks"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// counted is a store that returns a given number of versions of the policies.
type counted struct {
	*remote

	versions atomic.Int64
	every    atomic.Int64 // when processes report again, as they announce it
}

func (c *counted) Describe(_ context.Context, _ string, about store.About) (int, error) {
	c.every.Store(int64(about.Every))
	return int(c.versions.Load()), nil
}

func (*counted) Index(context.Context, string) (*store.Index, error) { return nil, errBroken }

func (*counted) Upstreams(context.Context) ([]string, error) { return nil, errBroken }

// A process warns when others have had other policies for minutes, at most once an hour, whatever its Pacers; and not of a change on its way.
func TestProcessesThatDisagreeAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backing, log := &counted{remote: newRemote(1)}, newLogged()
		const text = "processes have different policies"
		lines := func() int { return strings.Count(log.text(), text) }
		for range 2 {
			p := opened(t, pacer.Config{
				Upstream: "disagree", Store: backing, Policies: []policies.Policy{policies.PerSecond(20)}, Logger: log.Logger,
				Hooks: []*hooks.Set{hooks.Log(newLogged().Logger)},
			})
			require.NoError(t, p.Wait(t.Context()))
		}
		backing.versions.Store(1)
		time.Sleep(10 * time.Minute)
		require.Equal(t, 3*time.Second, time.Duration(backing.every.Load()))
		backing.versions.Store(2)
		time.Sleep(2 * time.Minute)
		backing.versions.Store(1)
		time.Sleep(5 * time.Second)
		backing.versions.Store(3)
		time.Sleep(2 * time.Minute)
		require.Zero(t, lines(), "what ends soon was a change on its way: %s", log.text())
		time.Sleep(90 * time.Second)
		require.Equal(t, 1, lines())
		require.Contains(t, log.text(), `upstream=disagree versions=3 for=3m`)
		require.Contains(t, log.text(), `policies="its code or file" `+
			`check="a rolling deployment ends this by itself; headway status shows who has which policies"`)
		time.Sleep(55 * time.Minute)
		require.Equal(t, 1, lines())
		time.Sleep(6 * time.Minute)
		require.Equal(t, 2, lines())
		require.Equal(t, 2, strings.Count(log.text(), "\n"), "nothing else is logged: %s", log.text())
	})
}

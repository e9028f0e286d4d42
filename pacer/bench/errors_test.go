package bench_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// TestTheTableOfErrors makes each error, and requires that its text is a line of testdata/errors.txt, and that docs/errors.md has a row with
// words of it.
func TestTheTableOfErrors(t *testing.T) {
	page, err := os.ReadFile("../../docs/errors.md")
	require.NoError(t, err)
	texts, err := os.ReadFile("testdata/errors.txt")
	require.NoError(t, err)
	var rows [][]string // the words of each row: "paused until … by Retry-After" is two
	for _, row := range regexp.MustCompile(`(?m)^\| (“.*?”) \|`).FindAllStringSubmatch(string(page), -1) {
		for _, words := range regexp.MustCompile(`“(.+?)”`).FindAllStringSubmatch(row[1], -1) {
			rows = append(rows, strings.Split(words[1], " … "))
		}
	}
	for _, one := range []struct {
		name string
		make func(*testing.T) error
	}{
		{"too far", tooFar},
		{"past the deadline", pastTheDeadline},
		{"paused", pausedUpstream},
		{"never", never},
		{"no permit", noPermit},
		{"nested", nested},
		{"not its turn", notItsTurn},
		{"no scope", noScope},
		{"no credential", noCredential},
		{"bad policy", badPolicy},
		{"bad setting", func(*testing.T) error { _, err := pacer.New(pacer.Config{Upstream: "zen desk"}); return err }},
		{"no store", noStore},
		{"no contact", noContact},
		{"closed", closedPacer},
		{"spent", spent},
	} {
		t.Run(one.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := one.make(t)
				require.Error(t, err)
				require.Contains(t, strings.Split(string(texts), "\n"), err.Error())
				require.True(t, slices.ContainsFunc(rows, func(words []string) bool {
					return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(err.Error(), w) })
				}), "docs/errors.md has no row for: %v", err)
			})
		})
	}
}

func tooFar(t *testing.T) error {
	t.Helper()
	p := newPacer(t, "zendesk", nil, []policies.Policy{policies.PerSecond(2).Per("tenant")})
	ctx := pacer.With(t.Context(), pacer.Scope("tenant", "acme"))
	for range 240 {
		_, err := p.Reserve(ctx)
		require.NoError(t, err)
	}
	return p.Wait(ctx, pacer.MaxWait(time.Minute))
}

func pastTheDeadline(t *testing.T) error {
	t.Helper()
	p := newPacer(t, "zendesk", nil, []policies.Policy{policies.PerSecond(2).Per("tenant")})
	ctx, cancel := context.WithTimeout(pacer.With(t.Context(), pacer.Scope("tenant", "acme")), 5*time.Second)
	defer cancel()
	for range 20 {
		_, err := p.Reserve(context.WithoutCancel(ctx))
		require.NoError(t, err)
	}
	err := p.Wait(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	return err
}

func pausedUpstream(t *testing.T) error {
	t.Helper()
	time.Sleep(time.Until(time.Date(2026, time.November, 26, 15, 2, 32, 0, time.UTC)))
	p := newPacer(t, "zendesk", nil, []policies.Policy{policies.PerSecond(2)})
	require.NoError(t, p.Report(t.Context(), policies.Feedback{Refused: true, Wait: 93 * time.Second, Source: "Retry-After"}))
	return p.Wait(t.Context(), pacer.MaxWait(time.Minute))
}

func never(t *testing.T) error {
	t.Helper()
	p := newPacer(t, "openai", nil, []policies.Policy{policies.PerMinute(30_000).Burst(30_000).Named("tokens")})
	err := p.Wait(t.Context(), pacer.Cost(48_000))
	require.ErrorIs(t, err, pacer.TooCostly)
	return err
}

func noPermit(t *testing.T) error {
	t.Helper()
	p := newPacer(t, "github", nil, []policies.Policy{policies.InFlight(2).Named("concurrent")})
	for range 2 {
		call, err := p.Acquire(t.Context())
		require.NoError(t, err)
		defer call.Release()
	}
	_, err := p.Acquire(t.Context(), pacer.MaxWait(5*time.Second))
	return err
}

func nested(t *testing.T) error {
	t.Helper()
	p := newPacer(t, "github", nil, []policies.Policy{policies.InFlight(2).Named("concurrent")})
	one, err := p.Acquire(t.Context())
	require.NoError(t, err)
	defer one.Release()
	inOne := one.Context(t.Context())
	two, err := p.Acquire(inOne)
	require.NoError(t, err)
	defer two.Release()
	_, err = p.Acquire(two.Context(inOne))
	return err
}

// notItsTurn is as it comes from a call whose deadline ends while others are still before it.
func notItsTurn(*testing.T) error {
	return &pacer.LimitError{Upstream: "zendesk", Policy: "per-second", Cost: 1, Reason: pacer.Queued, Ahead: 3, MaxWait: 2 * time.Second, Err: context.DeadlineExceeded}
}

func noScope(t *testing.T) error {
	t.Helper()
	return newPacer(t, "zendesk", nil, []policies.Policy{policies.PerSecond(2).Per("tenant")}).Wait(t.Context())
}

func noCredential(t *testing.T) error {
	t.Helper()
	pool, err := newPacer(t, "github", nil, []policies.Policy{policies.PerSecond(2).Per("token")}).Pool([]pacer.Credential{{ID: "ci"}}, "token")
	require.NoError(t, err)
	require.NoError(t, pool.Leave(t.Context(), "ci", time.Minute))
	_, err = pool.Acquire(t.Context())
	return err
}

func badPolicy(*testing.T) error {
	_, err := pacer.New(pacer.Config{Upstream: "zendesk", Policies: []policies.Policy{policies.PerSecond(0)}})
	return err
}

func noContact(t *testing.T) error {
	t.Helper()
	backing := &distant{Store: memstore.New(), epoch: store.Epoch{Began: 1000}}
	backing.set(errors.New("dial tcp 10.0.0.7:6379: connect: connection refused"))
	p, err := pacer.New(pacer.Config{Upstream: "zendesk", Store: backing, Policies: []policies.Policy{policies.PerSecond(2)}})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	err = p.Wait(t.Context())
	failed, ok := errors.AsType[*pacer.StoreError](err)
	require.True(t, ok && failed.NoContact)
	return err
}

func noStore(t *testing.T) error {
	t.Helper()
	backing := &distant{Store: memstore.New(), epoch: store.Epoch{Began: 1000}}
	backing.set(errors.New("dial tcp 10.0.0.7:6379: connect: connection refused"))
	p, err := pacer.New(pacer.Config{Upstream: "zendesk", Store: backing, Policies: []policies.Policy{policies.PerSecond(2)}, Outage: pacer.RefuseCalls})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	err = p.Wait(t.Context())
	require.ErrorIs(t, err, store.ErrUnreachable)
	return err
}

func closedPacer(t *testing.T) error {
	t.Helper()
	p := newPacer(t, "zendesk", nil, nil)
	require.NoError(t, p.Close())
	return p.Wait(t.Context())
}

func spent(t *testing.T) error {
	t.Helper()
	r, err := newPacer(t, "zendesk", nil, nil).Reserve(t.Context())
	require.NoError(t, err)
	require.NoError(t, r.Wait(t.Context()))
	return r.Wait(t.Context())
}

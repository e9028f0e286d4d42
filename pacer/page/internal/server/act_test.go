package server_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/page/internal/server"
	"github.com/headway-go/headway/policies"
)

// newActive returns a handler that intervenes, for a real pacer.
func newActive(t *testing.T) (*server.Handler, *pacer.Pacer) {
	t.Helper()
	p, err := pacer.New(pacer.Config{Upstream: "zendesk", MaxPause: 10 * time.Minute, Policies: []policies.Policy{
		policies.PerSecond(100).Burst(100).Named("peak"), policies.PerSecond(1).Per("tenant").Optional().Named("tenant"),
		policies.PerSecond(1).Per("user").Optional().Named("user"),
		policies.PerSecond(10).Burst(10).Per("tenant", "org").Optional().Named("orgs"),
		policies.Daily(3, time.UTC).Named("daily"),
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	h := server.New(server.Config{Sources: []server.Source{fleet.Of(p)}, Intervene: true, Hosts: []string{"example.com"}})
	t.Cleanup(h.Close)
	return h, p
}

func TestIntervening(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, p := newActive(t)
		acme := pacer.Scope("tenant", "acme & söhne")

		status, body := post(h, "/act", "action=pause&upstream=zendesk&for=30s")
		require.Equal(t, http.StatusOK, status, body)
		require.JSONEq(t, `{"done":"Paused the upstream for 30s."}`, body)
		require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)

		status, body = post(h, "/act", "action=resume")
		require.Equal(t, http.StatusOK, status, body)
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))

		status, body = post(h, "/act", "action=pause&for=1m&policy=tenant&scope=tenant%3Dacme+%26+s%C3%B6hne")
		require.Equal(t, http.StatusOK, status, body)
		require.Contains(t, body, `Paused tenant for tenant=acme \u0026 söhne for 1m0s.`)
		require.ErrorIs(t, p.Wait(t.Context(), acme, pacer.MaxWait(0)), pacer.ErrNotYet)
		require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", "globex"), pacer.MaxWait(0)), "others go")

		status, body = post(h, "/act", "action=resume&scope=tenant%3Dacme+%26+s%C3%B6hne")
		require.Equal(t, http.StatusOK, status, body)
		require.NoError(t, p.Wait(t.Context(), acme, pacer.MaxWait(0)))

		require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet, "the day's three are spent")
		status, body = post(h, "/act", "action=reset")
		require.Equal(t, http.StatusOK, status, body)
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
	})
}

// A pause with a scope and without a policy is of the policies that have just that scope, and of nobody else.
func TestAPauseOfAScopeIsOfItsPolicies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, p := newActive(t)
		status, body := post(h, "/act", "action=pause&for=1m&scope=tenant%3Dacme")
		require.Equal(t, http.StatusOK, status, body)
		require.JSONEq(t, `{"done":"Paused tenant for tenant=acme for 1m0s."}`, body)
		require.ErrorIs(t, p.Wait(t.Context(), pacer.Scope("tenant", "acme"), pacer.MaxWait(0)), pacer.ErrNotYet)
		require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", "globex"), pacer.MaxWait(0)))
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))

		status, body = post(h, "/act", "action=pause&for=1m&scope=org%3D7&scope=tenant%3Dglobex")
		require.Equal(t, http.StatusOK, status, body)
		require.JSONEq(t, `{"done":"Paused orgs for org=7 tenant=globex for 1m0s."}`, body)
		globex := pacer.Scope("tenant", "globex")
		require.ErrorIs(t, p.Wait(t.Context(), globex, pacer.Scope("org", "7"), pacer.MaxWait(0)), pacer.ErrNotYet)
		time.Sleep(2 * time.Second)
		require.NoError(t, p.Wait(t.Context(), globex, pacer.Scope("org", "8"), pacer.MaxWait(0)))
	})
}

func TestInterveningShowsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _ := newActive(t)
		w := watch(h, "/events")
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		w.take()
		status, _ := post(h, "/act", "action=pause&for=30s")
		require.Equal(t, http.StatusOK, status)
		synctest.Wait()
		require.Contains(t, w.take(), `"pausedSeconds":30`, "before the next figures are due")
		w.leave()
		<-w.left
	})
}

func TestBadInterventions(t *testing.T) {
	t.Parallel()
	h, p := newActive(t)
	for form, want := range map[string]string{
		"":                                                `action is \"\": must be pause, resume or reset`,
		"action=drop":                                     `action is \"drop\"`,
		"action=pause":                                    `for is \"\": must be a duration such as 30s or 5m`,
		"action=pause&for=30":                             "must be a duration",
		"action=pause&for=-1s":                            "must be longer than nothing",
		"action=pause&for=11m":                            "must be at most 10m0s, the pacer's MaxPause",
		"action=pause&for=1s&policy=other":                `no policy of upstream \"zendesk\" has that name`,
		"action=pause&for=1s&policy=tenant":               "the call carries no tenant",
		"action=pause&for=1s&scope=tenant":                "must be a name and a value",
		"action=resume&scope=ten=ant":                     "no policy is per ten",
		"action=resume&scope=tenant=a&scope=tenant=b":     `scope is \"tenant=b\": tenant is given twice`,
		"action=pause&for=1s&scope=tenant=a&scope=user=7": "no policy is per tenant and user: say by policy which one is meant, of peak, tenant, user, orgs, daily",
		"action=pause&for=1s&policy=peak&scope=tenant=a":  `policy is \"peak\": it is not per tenant: to pause it for everyone, leave scope out`,
		"action=pause&for=1s&policy=tenant&scope=user=7":  "it is not per user",
		"action=resume&upstream=other":                    `there is no upstream \"other\" here`,
		"action=%zz":                                      "the form cannot be read",
		"action=" + strings.Repeat("x", 1<<20):            "the form cannot be read",
		"action=pause&for=1s&for=2s&policy=peak":          "",
	} {
		status, body := post(h, "/debug/act", form)
		if want == "" {
			require.Equal(t, http.StatusOK, status, body)
			continue
		}
		require.GreaterOrEqual(t, status, 400, form)
		require.Less(t, status, 500, form)
		require.Contains(t, body, want, form)
	}
	require.NoError(t, p.Close())
	status, body := post(h, "/act", "action=pause&for=1s")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "pacer: closed")
	status, _ = post(h, "/", "action=pause&for=1s")
	require.Equal(t, http.StatusNotFound, status)
}

func TestOtherSitesCannotIntervene(t *testing.T) {
	t.Parallel()
	h, p := newActive(t)
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"},
	} {
		status, body := post(h, "/act", "action=pause&for=1m", header...)
		require.Equal(t, http.StatusForbidden, status, header)
		require.Contains(t, body, "comes from another site", header)
	}
	require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
	status, body := post(h, "/act", "action=pause&for=1m", "Sec-Fetch-Site", "same-origin")
	require.Equal(t, http.StatusOK, status, body)
	require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
}

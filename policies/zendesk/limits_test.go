package zendesk_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/profiletest"
	"github.com/headway-go/headway/policies/zendesk"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	for _, plan := range []zendesk.Plan{zendesk.SupportEssential, zendesk.SuiteTeam, zendesk.SuiteProfessional, zendesk.SuiteEnterprise, zendesk.HighVolume} {
		limits := zendesk.Limits(plan)
		profiletest.Limits(t, zendesk.Profile, limits)
		n, period := limits[0].Limit()
		require.Equal(t, int64(plan), n)
		require.Equal(t, time.Minute, period)
	}
	require.Error(t, zendesk.Limits(0)[0].Validate(), "no plan allows nothing")
	require.Error(t, zendesk.Limits(-1)[0].Validate())
}

// The add-on raises the endpoints that Zendesk names, and no others.
func TestHighVolume(t *testing.T) {
	t.Parallel()
	numbers := func(plan zendesk.Plan) map[string]int64 {
		all := make(map[string]int64)
		for _, p := range zendesk.Endpoints(plan) {
			all[p.Name()], _ = p.Limit()
		}
		return all
	}
	usual, high := numbers(zendesk.SuiteEnterprise), numbers(zendesk.HighVolume)
	for name, n := range usual {
		switch name {
		case zendesk.PolicyTicketsIndex, zendesk.PolicyTicketsUpdate:
			require.Equal(t, [2]int64{100, 300}, [2]int64{n, high[name]}, name)
		case zendesk.PolicyIncrementalExports:
			require.Equal(t, [2]int64{10, 30}, [2]int64{n, high[name]}, name)
		default:
			require.Equal(t, n, high[name], name)
		}
	}
}

// Each call carries the scopes of the limits that bind it, and no other.
func TestWhichLimitsBindACall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path string
		want         []string
	}{
		{"GET", "/api/v2/tickets.json", []string{"account", "tickets-index"}},
		{"", "/api/v2/tickets.json", []string{"account", "tickets-index"}},
		{"GET", "/api/v2/tickets?page=500", []string{"account", "tickets-index"}},
		{"GET", "/api/v2/tickets?page=501", []string{"account", "tickets-index", "tickets-index-deep-pagination"}},
		{"GET", "/api/v2/tickets/7.json", []string{"account"}},
		{"POST", "/api/v2/tickets.json", []string{"account"}},
		{"PUT", "/api/v2/tickets.json", []string{"account"}},
		{"PUT", "/api/v2/tickets/7.json", []string{"account", "tickets-update", "ticket"}},
		{"PUT", "/api/v2/tickets/update_many.json?ids=1,2", []string{"account", "tickets-update"}},
		{"PUT", "/api/v2/tickets/7", []string{"account", "tickets-update", "ticket"}},
		{"PUT", "/api/v2/tickets/mark_many_as_spam.json?ids=1,2", []string{"account", "tickets-update"}},
		{"PUT", "/api/v2/tickets/7/tags.json", []string{"account"}},
		{"GET", "/api/v2/incremental/users.json", []string{"account", "incremental-exports"}},
		{"GET", "/api/v2/incremental/tickets/cursor.json", []string{"account", "incremental-exports"}},
		{"POST", "/api/v2/users/create_or_update.json", []string{"account", "users-update"}},
		{"PUT", "/api/v2/users/7.json", []string{"account", "users-update", "user"}},
		{"PUT", "/api/v2/users/update_many.json?ids=1,2", []string{"account"}},
		{"GET", "/api/v2/users/7.json", []string{"account"}},
		{"GET", "/api/v2/search/export.json?query=x", []string{"account", "search-export"}},
		{"GET", "/api/v2/views/7/execute.json", []string{"account", "view"}},
		{"PUT", "/api/v2/organizations/7.json", []string{"account", "organization"}},
		{"PUT", "/api/v2/organizations/update_many.json?ids=1,2", []string{"account"}},
		{"GET", "/api/v2/help_center/articles.json", []string{"help-center"}},
		{"GET", "/", []string{"account"}},
		{"GET", "/api/v2/", []string{"account"}},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, "https://acme.zendesk.com"+c.path, nil)
		require.NoError(t, err)
		req.Method = c.method // "" stays: it means GET
		var got []string
		for _, s := range zendesk.Profile.Scopes {
			if s.Value(req) != "" {
				got = append(got, s.Name)
			}
		}
		require.Equal(t, c.want, got, "%s %s", c.method, c.path)
	}
}

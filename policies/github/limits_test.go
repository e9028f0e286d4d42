package github_test

import (
	"math"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/github"
	"github.com/headway-go/headway/policies/profiletest"
	"github.com/headway-go/headway/policies/specs"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	for _, kind := range []github.Kind{github.Anonymous, github.Actions, github.User, github.Enterprise, github.Installation(0, 0)} {
		profiletest.Limits(t, github.Profile, github.Limits(kind))
	}
	require.Error(t, github.Limits(0)[0].Validate())
}

// The primary limits of GraphQL and of searches differ from the others.
func TestPrimaryLimits(t *testing.T) {
	t.Parallel()
	for kind, want := range map[github.Kind]map[string]int64{
		github.Anonymous:               {"core": 60, "search": 10, "code_search": 9, "graphql": 60},
		github.Actions:                 {"core": 1_000, "search": 30, "code_search": 9, "graphql": 1_000},
		github.User:                    {"core": 5_000, "search": 30, "code_search": 9, "graphql": 5_000},
		github.Enterprise:              {"core": 15_000, "search": 30, "code_search": 9, "graphql": 10_000},
		github.Installation(1_000, 20): {"core": 12_500, "search": 30, "code_search": 9, "graphql": 12_500},
	} {
		got := make(map[string]int64)
		for _, p := range github.Limits(kind) {
			if _, primary := want[p.Name()]; primary {
				got[p.Name()], _ = p.Limit()
			}
		}
		require.Equal(t, want, got, "%d", kind)
	}
}

// A credential may have 100 calls running at once, whatever its kind, on REST and GraphQL together.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	p := github.Concurrent()
	require.NoError(t, p.Validate())
	require.Equal(t, "concurrent", p.Name())
	require.Equal(t, []string{github.ScopeCredential}, p.Scopes())
	require.True(t, p.IsOptional())
	spec := p.Spec()
	require.Equal(t, specs.Concurrency, spec.Algorithm)
	require.Equal(t, int64(100), spec.Limit)
	require.Zero(t, spec.After)
	for _, kind := range []github.Kind{github.Anonymous, github.User, github.Enterprise} {
		require.Contains(t, github.Limits(kind), p)
	}

	values := make(map[string]bool)
	for _, url := range []string{"https://api.github.com/user", "https://api.github.com/graphql", "https://api.github.com/search/code"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer abc")
		for _, s := range github.Profile.Scopes {
			if s.Name == github.ScopeCredential {
				values[s.Value(req)] = true
			}
		}
	}
	require.Equal(t, map[string]bool{"c355dce96c161288": true}, values)
}

func TestInstallation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		repositories, users int64
		want                github.Kind
	}{{0, 0, 5000}, {20, 20, 5000}, {21, 20, 5050}, {30, 40, 6500}, {1000, 0, 12_500}, {math.MaxInt64, math.MaxInt64, 12_500}, {-5, math.MinInt64, 5000}} {
		require.Equal(t, c.want, github.Installation(c.repositories, c.users))
	}
}

func TestWhichLimitsBindACall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, url string
		want        []string
		points      int64
	}{
		{"GET", "https://api.github.com/user", []string{"core", "rest", "credential"}, 1},
		{"", "https://api.github.com/user", []string{"core", "rest", "credential"}, 1},
		{"PATCH", "https://api.github.com/repos/a/b/issues/1", []string{"core", "rest", "credential"}, 5},
		{"POST", "https://api.github.com/repos/a/b/issues", []string{"core", "rest", "content", "credential"}, 5},
		{"POST", "https://api.github.com/repos/a/b/issues/1/comments", []string{"core", "rest", "content", "credential"}, 5},
		{"GET", "https://api.github.com/search/issues?q=x", []string{"search", "rest", "credential"}, 1},
		{"GET", "https://api.github.com/search/code?q=x", []string{"code_search", "rest", "credential"}, 1},
		{"POST", "https://api.github.com/graphql", []string{"graphql", "credential"}, 0},
		{"POST", "https://ghe.test/api/graphql", []string{"graphql", "credential"}, 0},
		{"GET", "https://ghe.test/api/v3/search/code?q=x", []string{"search", "rest", "credential"}, 1},
		{"GET", "https://api.github.com", []string{"core", "rest", "credential"}, 1},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, c.url, nil)
		require.NoError(t, err)
		req.Method = c.method
		var got []string
		for _, s := range github.Profile.Scopes {
			if s.Value(req) != "" {
				got = append(got, s.Name)
			}
		}
		require.Equal(t, c.want, got, "%s %s", c.method, c.url)
		if c.points > 0 {
			require.Equal(t, []policies.Cost{{Policy: "points", N: c.points}}, github.Profile.Costs(req))
		} else {
			require.Equal(t, []policies.Cost{{Policy: "graphql", N: 1}, {Policy: "graphql-points", N: 1}}, github.Profile.Costs(req), "no query to read")
		}
	}
}

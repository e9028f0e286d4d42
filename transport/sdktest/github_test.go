package sdktest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	sdkgithub "github.com/google/go-github/v84/github"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/github"
)

func goGitHub() sdk {
	client := func(hc *http.Client, at string) (*sdkgithub.Client, error) {
		gh := sdkgithub.NewClient(hc)
		gh.DisableRateLimitCheck = true // the pacer knows better: it counts other processes' calls, too
		var err error
		gh.BaseURL, err = url.Parse(at + "/")
		return gh, err
	}
	return sdk{
		profile: github.Profile, limits: github.Limits(github.User),
		wait: time.Second, body: "found a bug",
		read: func(ctx context.Context, hc *http.Client, at string) (any, error) {
			gh, err := client(hc, at)
			if err != nil {
				return nil, err
			}
			var all []string
			opts := &sdkgithub.IssueListByRepoOptions{}
			for {
				issues, resp, err := gh.Issues.ListByRepo(ctx, "o", "r", opts)
				if err != nil {
					return nil, err
				}
				for _, i := range issues {
					all = append(all, i.GetTitle())
				}
				if resp.NextPage == 0 {
					return all, nil
				}
				opts.ListOptions.Page = resp.NextPage
			}
		},
		write: func(ctx context.Context, hc *http.Client, at string) (any, error) {
			gh, err := client(hc, at)
			if err != nil {
				return nil, err
			}
			issue, _, err := gh.Issues.Create(ctx, "o", "r", &sdkgithub.IssueRequest{Title: new("found a bug")})
			return issue.GetTitle(), err
		},
		missing: func(ctx context.Context, hc *http.Client, at string) (any, error) {
			gh, err := client(hc, at)
			if err != nil {
				return nil, err
			}
			issue, _, err := gh.Issues.Get(ctx, "o", "r", 404)
			return issue, err
		},
		answer: func(w http.ResponseWriter, r *http.Request, _ string) {
			h := w.Header()
			h.Set("X-Ratelimit-Limit", "5000")
			h.Set("X-Ratelimit-Remaining", "4900")
			h.Set("X-Ratelimit-Resource", "core")
			h.Set("X-Ratelimit-Reset", strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10))
			switch {
			case strings.Contains(r.URL.Path, "404"):
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, `{"message":"Not Found"}`)
			case r.Method == http.MethodPost:
				w.WriteHeader(http.StatusCreated)
				fmt.Fprint(w, `{"title":"found a bug"}`)
			case r.FormValue("page") == "":
				h.Set("Link", `<http://`+r.Host+`/repos/o/r/issues?page=2>; rel="next"`)
				fmt.Fprint(w, `[{"title":"one"}]`)
			default:
				fmt.Fprint(w, `[{"title":"two"}]`)
			}
		},
		refuse: func(w http.ResponseWriter, wait string) {
			w.Header().Set("Retry-After", wait)
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"message":"You have exceeded a secondary rate limit.","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`)
		},
		limited: func(t *testing.T, err error) {
			t.Helper()
			var abuse *sdkgithub.AbuseRateLimitError
			require.ErrorAs(t, err, &abuse)
			require.Equal(t, time.Minute, abuse.GetRetryAfter())
		},
	}
}

package profiletest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/profiletest"
)

// acme is a profile that uses everything that a profile can.
var acme = policies.Profile{
	Name: "acme",
	Scopes: []policies.Scope{
		{Name: "tenant", Value: func(r *http.Request) string { return strings.TrimSuffix(r.URL.Hostname(), ".example") }},
		{Name: "user", Value: func(r *http.Request) string { return r.Header.Get("X-User") }},
	},
	Costs: func(r *http.Request) []policies.Cost {
		if r.GetBody == nil {
			return []policies.Cost{{N: 1}}
		}
		body, err := r.GetBody()
		if err != nil {
			return nil
		}
		data, _ := io.ReadAll(body)
		return append([]policies.Cost{{N: 2}}, cost(data)...)
	},
	Peek: func(r *http.Response) int {
		if r.StatusCode == http.StatusTooManyRequests {
			return len("slow down")
		}
		return 0
	},
	Read: func(r *policies.Reply) policies.Reading {
		if !bytes.HasPrefix(r.Body, []byte("slow down")) || r.Complete {
			return policies.Reading{}
		}
		tenant := []string{"tenant"}
		return policies.Reading{Verdict: policies.Limited, Feedback: []policies.Feedback{
			{Policies: tenant, Otherwise: policies.Everyone, Refused: true, Wait: 12 * time.Second, Source: "Retry-After"},
			{
				Policies: tenant, Otherwise: policies.Everyone, Limit: policies.Reported(40), Window: time.Minute,
				Remaining: policies.Reported(0), Used: policies.Reported(40), Reset: 1500 * time.Millisecond, Source: "X-Left",
			},
		}}
	},
	Settle: func(r *policies.Reply) []policies.Cost { return cost(r.Body) },
}

func cost(body []byte) []policies.Cost {
	var reported struct{ Cost int64 }
	if json.Unmarshal(body, &reported) != nil || reported.Cost <= 0 {
		return nil
	}
	return []policies.Cost{{Policy: "points", N: reported.Cost}}
}

func TestReplayOfAProfileThatKeepsTheRules(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, acme, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, acme, "testdata") }

func TestLimitsThatFit(t *testing.T) {
	t.Parallel()
	profiletest.Limits(t, acme, []policies.Policy{
		policies.AtMost(40, time.Minute).Per("tenant").Named("tenant"),
		policies.Daily(1000, time.UTC).Per("tenant").Named("points"),
	})
}

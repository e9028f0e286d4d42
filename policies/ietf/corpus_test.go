package ietf_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/ietf"
)

// newYear is the 1609459200 of the tables.
var newYear = time.Date(2021, time.January, 1, 0, 0, 0, 0, time.UTC)

func read(status int, now time.Time, h http.Header) policies.Reading {
	return ietf.Profile.Read(&policies.Reply{Status: status, Header: h, Now: now})
}

// fields makes a header of names and values.
func fields(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			h.Add(pairs[i], pairs[i+1])
		}
	}
	return h
}

// A 429 is refused and limited, whatever its Retry-After. Only a valid one makes everyone wait. Package fields tests the forms.
func TestRetryAfterInTheWild(t *testing.T) {
	t.Parallel()
	for v, want := range map[string]time.Duration{
		"0": 0, "12": 12 * time.Second, "2.0": 2 * time.Second, "-1": 0, "": 0, "1609459260": time.Minute, "60s": time.Minute, "1m0s": time.Minute,
		"Fri, 01 Jan 2021 00:00:42 GMT": 42 * time.Second, "2021-01-01 00:00:42 UTC": 42 * time.Second,
	} {
		got := read(http.StatusTooManyRequests, newYear, http.Header{"Retry-After": {v}})
		require.Equal(t, policies.Limited, got.Verdict, "%q", v)
		require.Len(t, got.Feedback, 1, "%q", v)
		require.True(t, got.Feedback[0].Refused, "%q", v)
		require.Equal(t, want, got.Feedback[0].Wait, "%q", v)

		got = read(http.StatusServiceUnavailable, newYear, http.Header{"Retry-After": {v}})
		require.Equal(t, policies.Unjudged, got.Verdict, "%q", v)
		if want == 0 {
			require.Empty(t, got.Feedback, "%q", v)
			continue
		}
		require.Len(t, got.Feedback, 1, "%q", v)
		require.False(t, got.Feedback[0].Refused, "%q", v)
		require.Equal(t, want, got.Feedback[0].Wait, "%q", v)
	}
}

func TestResetsInTheWild(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	for v, want := range map[string]time.Duration{
		"41": 41 * time.Second, "41.5": 41500 * time.Millisecond, "600000": 600000 * time.Second, "31536000": year, "31536001": 0, // more than a year
		"1609459200": 0, "1609459241": 41 * time.Second, "1640995200": year, "1640995201": 0, "1609459241000": 41 * time.Second,
		"99999999999999999999": 0, "6m0s": 6 * time.Minute, "9999h": 0, "-6m0s": 0, "2021-01-01T00:00:41Z": 41 * time.Second,
		"2020-12-31 16:00:41 -0800": 41 * time.Second, "2021-01-01 00:00:42 UTC": 42 * time.Second, "Fri, 01 Jan 2021 00:00:41 GMT": 41 * time.Second,
		"Fri Jan 01 2021 01:00:41 GMT+0100 (CET)": 41 * time.Second, "-1": 0, "0": 0, "41,": 0,
	} {
		for _, prefix := range []string{"X-RateLimit-", "X-Rate-Limit-", "RateLimit-"} {
			for _, name := range []string{"Reset", "ResetTime"} {
				h := fields(prefix+"Remaining", "0", prefix+name, v)
				got := read(http.StatusOK, newYear, h)
				require.Len(t, got.Feedback, 1, "%s %q", prefix, v)
				require.Equal(t, want, got.Feedback[0].Reset, "%s %q", prefix, v)

				got = read(http.StatusTooManyRequests, newYear, h)
				require.Equal(t, want, got.Feedback[0].Wait, "%s %q", prefix, v)

				h.Del(prefix + "Remaining") // then a refusal means that nothing remains
				got = read(http.StatusTooManyRequests, newYear, h)
				require.Len(t, got.Feedback, 1)
				require.Equal(t, want, got.Feedback[0].Wait, "%s%s %q", prefix, name, v)
				require.Empty(t, read(http.StatusOK, newYear, h).Feedback)
			}
		}
	}
}

func TestAProblemNamesNoMorePoliciesThanAServiceHas(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 99 {
		names = append(names, fmt.Sprintf(`"p%d"`, i))
	}
	body := `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","violated-policies":[` + strings.Join(names, ",") + `]}`
	got := ietf.Profile.Read(&policies.Reply{Status: http.StatusTooManyRequests, Body: []byte(body), Complete: true})
	require.Len(t, got.Feedback[0].Policies, 32)
}

// Only the body of a problem is read: other bodies are not held back.
func TestOnlyProblemsAreLookedInto(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		media  string
		want   int
	}{
		{429, "application/problem+json", 4096},
		{503, "Application/Problem+JSON; charset=utf-8", 4096},
		{200, "application/problem+json", 0},
		{500, "application/problem+json", 0},
		{429, "application/json", 0},
		{429, "application/problem+xml", 0},
		{429, "application/problem+json;;;=", 0},
		{429, "", 0},
	} {
		r := &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {c.media}}}
		require.Equal(t, c.want, ietf.Profile.Peek(r), "%+v", c)
	}
}

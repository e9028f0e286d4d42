package ietf_test

import (
	"fmt"
	"math"
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

// A 429 is refused and limited, whatever its Retry-After. Only a valid one makes everyone wait.
func TestRetryAfterInTheWild(t *testing.T) {
	t.Parallel()
	now := time.Date(1999, time.December, 31, 23, 59, 50, 0, time.UTC)
	for v, want := range map[string]time.Duration{
		"0":                              0,
		"12":                             12 * time.Second,
		"2.0":                            2 * time.Second,
		"1.5":                            1500 * time.Millisecond,
		"-1":                             0,
		"9223372037":                     math.MaxInt64,
		"99999999999999999999":           math.MaxInt64,
		"Fri, 31 Dec 1999 23:59:59 GMT":  9 * time.Second,
		"Friday, 31-Dec-99 23:59:59 GMT": 9 * time.Second,
		"Fri Dec 31 23:59:59 1999":       9 * time.Second,
		"2000-01-01T00:00:00Z":           10 * time.Second,
		"":                               0,
	} {
		got := read(http.StatusTooManyRequests, now, http.Header{"Retry-After": {v}})
		require.Equal(t, policies.Limited, got.Verdict, "%q", v)
		require.Len(t, got.Feedback, 1, "%q", v)
		require.True(t, got.Feedback[0].Refused, "%q", v)
		require.Equal(t, want, got.Feedback[0].Wait, "%q", v)

		got = read(http.StatusServiceUnavailable, now, http.Header{"Retry-After": {v}})
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
		"41":                            41 * time.Second,
		"41.5":                          41500 * time.Millisecond,
		"600000":                        600000 * time.Second,
		"31536000":                      year,
		"31536001":                      0, // more than a year
		"999999999":                     0,
		"1000000000":                    0, // an instant of 2001
		"1609459200":                    0,
		"1609459241":                    41 * time.Second,
		"1609459241.25":                 41250 * time.Millisecond,
		"1640995200":                    year,
		"1640995201":                    0,
		"100000000000":                  0, // an instant of 5138
		"100000000001":                  0, // in milliseconds, of 1973
		"1609459200000":                 0,
		"1609459241000":                 41 * time.Second,
		"999999999999999":               0,
		"1000000000000000":              0,
		"99999999999999999999":          0,
		"6m0s":                          6 * time.Minute,
		"42s":                           42 * time.Second,
		"1.5s":                          1500 * time.Millisecond,
		"20ms":                          20 * time.Millisecond,
		"9999h":                         0,
		"-6m0s":                         0,
		"2021-01-01T00:00:41Z":          41 * time.Second,
		"2021-01-01T01:01Z":             61 * time.Minute,
		"2020-12-31T00:00:00Z":          0,
		"2025-10-08T15:00:00Z":          0,
		"2020-12-31 16:00:41 -0800":     41 * time.Second,
		"2021-01-01 00:00:41":           0, // of which zone?
		"Fri, 01 Jan 2021 00:00:41 GMT": 41 * time.Second,
		"Fri, 01 Jan 2021 00:00:41 UTC": 41 * time.Second,
		"Fri Jan 01 2021 01:00:41 GMT+0100 (CET)": 41 * time.Second,
		"Tue Feb 16 2021 09:02:42 GMT+0100":       46*24*time.Hour + 8*time.Hour + 2*time.Minute + 42*time.Second,
		"Tue Feb 16 2021":                         0,
		"-1":                                      0,
		"+41":                                     0,
		"41,":                                     0,
		"0":                                       0,
		"1e3":                                     0,
	} {
		for _, prefix := range []string{"X-RateLimit-", "X-Rate-Limit-", "RateLimit-"} {
			h := fields(prefix+"Remaining", "0", prefix+"Reset", v)
			got := read(http.StatusOK, newYear, h)
			require.Len(t, got.Feedback, 1, "%s %q", prefix, v)
			require.Equal(t, want, got.Feedback[0].Reset, "%s %q", prefix, v)

			got = read(http.StatusTooManyRequests, newYear, h)
			require.Equal(t, want, got.Feedback[0].Wait, "%s %q", prefix, v)

			h.Del(prefix + "Remaining") // then a refusal means that nothing remains
			got = read(http.StatusTooManyRequests, newYear, h)
			require.Len(t, got.Feedback, 1)
			require.Equal(t, want, got.Feedback[0].Wait, "%s %q", prefix, v)
			require.Empty(t, read(http.StatusOK, newYear, h).Feedback)
		}
	}
}

// The bounds between the forms of X-RateLimit-Reset are as documented.
func TestResetsAreDistinguishedBySize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reset string
		now   time.Time
		want  time.Duration
	}{
		{"1000000000", time.Unix(1_000_000_000-41, 0), 41 * time.Second},
		{"999999999", time.Unix(999_999_999-41, 0), 0}, // from now, and ignored
		{"100000000000", time.Unix(100_000_000_000-41, 0), 41 * time.Second},
		{"100000000001", time.Unix(100_000_000_001-41, 0), 0}, // milliseconds, and past
		{"100000000001", time.UnixMilli(100_000_000_001 - 41), 41 * time.Millisecond},
	} {
		got := read(http.StatusOK, c.now, fields("X-RateLimit-Remaining", "0", "X-RateLimit-Reset", c.reset))
		require.Equal(t, c.want, got.Feedback[0].Reset, c.reset)
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

package ietf

import (
	"net/http"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
)

// dictionary reads RateLimit of draft -07, such as limit=100, remaining=50, reset=5. The draft requires limit and reset.
// It returns nothing if anything in it is malformed.
func dictionary(h http.Header, quotas []quota) []limit {
	d, err := httpsfv.UnmarshalDictionary(h.Values("Ratelimit"))
	if err != nil {
		return nil
	}
	get := func(key string) (n int64, there, valid bool) {
		member, there := d.Get(key)
		if !there {
			return 0, false, true
		}
		item, isItem := member.(httpsfv.Item)
		if !isItem {
			return 0, true, false
		}
		n, isInteger := item.Value.(int64)
		return n, true, isInteger && n >= 0
	}
	most, limited, validLimit := get("limit")
	left, counted, validRemaining := get("remaining")
	reset, resets, validReset := get("reset")
	if !limited || !resets || !validLimit || !validRemaining || !validReset {
		return nil
	}
	l := limit{calls: true, source: "RateLimit", resetIn: "RateLimit", reset: seconds(reset), quota: policies.Said(most)}
	if counted {
		l.remaining = policies.Said(left)
	}
	l.joinSize(quotas)
	return []limit{l}
}

// joinSize finds the window of a limit without name: that of the quota of the same size, as drafts up to -07 have it.
func (l *limit) joinSize(quotas []quota) {
	most, limited := l.quota.Value()
	for i := range quotas {
		if q := &quotas[i]; limited && q.name == "" && q.q == most {
			q.joined = true
			l.window = max(l.window, q.w)
		}
	}
}

// triples reads the fields of drafts up to -06, or of the forms that they were to replace: the first of them that says
// a limit or what remains of it.
func triples(h http.Header, quotas []quota, now time.Time) []limit {
	delta := func(s string, _ time.Time) time.Duration {
		n, _ := fields.Number(s)
		return seconds(n)
	}
	if said := triple(h, "RateLimit-", quotas, now, delta); len(said) > 0 {
		return said
	}
	for _, prefix := range []string{"X-RateLimit-", "X-Rate-Limit-"} {
		said := triple(h, prefix, quotas, now, resetByLooks)
		// No source says what a limit of 0 means. No call can be admitted under it, so it is taken for "unknown".
		if len(said) > 0 && said[0].quota != policies.Said(0) {
			return said
		}
	}
	return nil
}

// triple reads -Limit, -Remaining and -Reset. A field that is malformed or sent twice is ignored.
func triple(
	h http.Header, prefix string, quotas []quota, now time.Time, reset func(string, time.Time) time.Duration,
) []limit {
	l := limit{calls: true, resetIn: prefix + "Reset"}
	own := l.readLimit(h.Values(prefix + "Limit"))
	if item, err := httpsfv.UnmarshalItem(h.Values(prefix + "Remaining")); err == nil {
		l.remaining = count(item)
	}
	switch none := (policies.Count{}); {
	case l.remaining != none:
		l.source = prefix + "Remaining"
	case l.quota != none:
		l.source = prefix + "Limit"
	default:
		return nil
	}
	if v := h.Values(prefix + "Reset"); len(v) == 1 {
		l.reset = reset(v[0], now)
	}
	l.joinSize(quotas)
	l.joinSize(own)
	said := []limit{l}
	for i := range own {
		if q := &own[i]; !q.joined {
			said = append(said, q.limit(prefix+"Limit"))
		}
	}
	return said
}

// readLimit reads 100, or 100, 100;w=10 of drafts up to -03, which Envoy sends in X-RateLimit-Limit, too. The first
// integer is the limit; the others are quotas.
//
// Source: https://www.envoyproxy.io/docs/envoy/latest/api-v3/extensions/filters/http/ratelimit/v3/rate_limit.proto
// (DRAFT_VERSION_03).
func (l *limit) readLimit(values []string) []quota {
	list, err := httpsfv.UnmarshalList(values)
	if err != nil || len(list) == 0 || len(list) > maxItems {
		return nil
	}
	first, isItem := list[0].(httpsfv.Item)
	if !isItem {
		return nil
	}
	l.quota = count(first)
	if l.quota == (policies.Count{}) {
		return nil
	}
	own := readQuotas(list[1:])
	for i := range own {
		if own[i].name != "" { // not of this draft
			return nil
		}
	}
	return own
}

// count returns an Item that is a non-negative Integer. Drafts up to -06 say that its parameters must be ignored.
func count(item httpsfv.Item) policies.Count {
	n, isInteger := item.Value.(int64)
	if !isInteger {
		return policies.Count{}
	}
	return policies.Said(n)
}

// Magnitudes of the numbers in an X-RateLimit-Reset.
const (
	// firstEpoch is the least number that is taken for an instant: 10^9 s is in 2001, and as seconds from now 31 years.
	firstEpoch = 1_000_000_000
	// lastEpochSeconds is the largest number that is taken for seconds: 10^11 s is in 5138, and as milliseconds in 1973.
	lastEpochSeconds = 100_000_000_000
)

// resetByLooks reads an X-RateLimit-Reset, whose form nobody documents, and returns how long that is from now: 0 if it is
// past, more than a year away, or of no form that it knows. The package's documentation lists the forms.
func resetByLooks(s string, now time.Time) time.Duration {
	d, ok := byLooks(strings.TrimSpace(s), now)
	if !ok || d < 0 || d > year {
		return 0
	}
	return d
}

func byLooks(s string, now time.Time) (time.Duration, bool) {
	whole, _, _ := strings.Cut(s, ".")
	switch n, isNumber := fields.Number(whole); {
	case isNumber && n < firstEpoch:
		return fields.Seconds(s)
	case isNumber && n <= lastEpochSeconds:
		return fields.EpochSeconds(s, now)
	case isNumber:
		return fields.EpochMilliseconds(s, now)
	}
	if d, ok := fields.ISO8601(s, now); ok {
		return d, true
	}
	return fields.HTTPDate(s, now)
}

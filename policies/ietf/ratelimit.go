package ietf

import (
	"net/http"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
	"github.com/headway-go/headway/policies/specs"
)

// maxItems is how many items a list may have: more than any service has limits. A longer list is ignored.
const maxItems = 32

// A quota is an item of RateLimit-Policy.
type quota struct {
	name   string // "" before draft -08
	q      int64
	w      time.Duration // 0: not reported
	calls  bool
	joined bool // something else in the reply refers to it
}

// limit returns what a quota reports by itself.
func (q *quota) limit(source string) limit {
	l := limit{name: q.name, calls: q.calls, window: q.w, source: source}
	if q.w > 0 { // without a window, it is not known whether q is at once, or in which time
		l.quota = policies.Reported(q.q)
	}
	return l
}

// parseQuotas reads RateLimit-Policy: strings with a q, as of draft -08, or else integers. It returns nothing if anything in it is
// malformed, or if two different quotas cannot be distinguished.
func parseQuotas(values []string) []quota {
	list, err := httpsfv.UnmarshalList(values)
	if err != nil || len(list) > maxItems {
		return nil
	}
	return readQuotas(list)
}

func readQuotas(list httpsfv.List) []quota {
	var quotas []quota
	named := 0
	for _, member := range list {
		item, ok := member.(httpsfv.Item)
		if !ok {
			return nil
		}
		q, ok := readQuota(item)
		if !ok {
			return nil
		}
		if _, ok := item.Value.(string); ok {
			named++
		}
		quotas = append(quotas, q)
	}
	if named != 0 && named != len(quotas) {
		return nil
	}
	for i := range quotas {
		for j := range quotas[:i] {
			a, b := quotas[i], quotas[j]
			same := a.name == b.name
			if named == 0 {
				same = a.q == b.q
			}
			if same && a != b {
				return nil
			}
		}
	}
	return quotas
}

func readQuota(item httpsfv.Item) (q quota, ok bool) {
	q.calls = true
	switch v := item.Value.(type) {
	case int64: // draft -07: 100;w=10
		if v < 0 {
			return q, false
		}
		q.q = v
	case string: // draft -08: "burst";q=100;w=60
		n, there, valid := integer(item.Params, "q")
		if !there || !valid {
			return q, false
		}
		q.name, q.q = v, n
		if unit, there := item.Params.Get("qu"); there {
			u, isString := unit.(string)
			if !isString {
				return q, false
			}
			q.calls = u == "requests" || u == "request" // the draft's text has the one, its registry the other
		}
	default:
		return q, false
	}
	w, there, valid := integer(item.Params, "w")
	if !valid || there && w == 0 {
		return q, false
	}
	if w <= int64(specs.MaxPeriod/time.Second) {
		q.w = time.Duration(w) * time.Second
	}
	return q, true
}

// integer returns a parameter that must be a non-negative Integer, and whether it is there and valid. One that is not
// there is valid.
func integer(params *httpsfv.Params, key string) (n int64, there, valid bool) {
	v, there := params.Get(key)
	if !there {
		return 0, false, true
	}
	n, isInteger := v.(int64)
	if !isInteger || n < 0 {
		return 0, true, false
	}
	return n, true, true
}

// structured reads RateLimit as of draft -08, such as "burst";r=50;t=30. It returns nothing if anything in it is malformed.
func structured(h http.Header, quotas []quota) []limit {
	list, err := httpsfv.UnmarshalList(fields.Values(h, "Ratelimit"))
	if err != nil || len(list) > maxItems {
		return nil
	}
	reported := make([]limit, 0, len(list))
	for _, member := range list {
		item, isItem := member.(httpsfv.Item)
		if !isItem {
			return nil
		}
		name, isString := item.Value.(string)
		r, left, validR := integer(item.Params, "r")
		t, _, validT := integer(item.Params, "t")
		if !isString || !validR || !validT {
			return nil
		}
		l := limit{name: name, calls: true, source: "RateLimit", resetIn: "RateLimit", reset: seconds(t)}
		if left { // the draft requires r; Atlassian leaves it out while there is plenty
			l.remaining = policies.Reported(r)
		}
		reported = append(reported, l)
	}
	for i := range reported { // only after all items are known to be valid
		reported[i].joinNamed(quotas)
	}
	return reported
}

// joinNamed adds what the quota of the same name reports.
func (l *limit) joinNamed(quotas []quota) {
	for i := range quotas {
		if q := &quotas[i]; q.name == l.name && l.name != "" {
			q.joined = true
			l.calls, l.window, l.quota = q.calls, q.w, policies.Reported(q.q)
		}
	}
}

// seconds converts a reset in seconds from now to a Duration; 0 if it is longer than a year.
func seconds(n int64) time.Duration {
	if n > int64(year/time.Second) {
		return 0
	}
	return time.Duration(n) * time.Second
}

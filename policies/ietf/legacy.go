package ietf

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
	"github.com/headway-go/headway/policies/specs"
)

// dictionary reads RateLimit of draft -07, such as limit=100, remaining=50, reset=5. The draft requires limit and reset.
// It returns nothing if anything in it is malformed.
func dictionary(h http.Header, quotas []quota) []limit {
	d, err := httpsfv.UnmarshalDictionary(fields.Values(h, "Ratelimit"))
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
	l := limit{calls: true, source: "RateLimit", resetIn: "RateLimit", reset: seconds(reset), quota: policies.Reported(most)}
	if counted {
		l.remaining = policies.Reported(left)
	}
	l.joinSize(quotas)
	return []limit{l}
}

// joinSize finds the window of a limit without a name: that of the quota of the same size, as in drafts up to -07.
func (l *limit) joinSize(quotas []quota) {
	most, limited := l.quota.Value()
	for i := range quotas {
		if q := &quotas[i]; limited && q.name == "" && q.q == most {
			q.joined = true
			l.window = max(l.window, q.w)
		}
	}
}

// triples reads the fields of drafts up to -06, or of the older forms that they were to replace: the first of them that reports a limit,
// what remains of it, or when there is more.
func triples(h http.Header, quotas []quota, now time.Time) []limit {
	for _, prefix := range []string{"RateLimit-", "X-RateLimit-", "X-Rate-Limit-"} {
		reported := triple(h, prefix, quotas, now)
		// No source documents a limit of 0. It would admit no call, so it is read as "unknown".
		if len(reported) > 0 && (prefix == "RateLimit-" || reported[0].quota != policies.Reported(0)) {
			return reported
		}
	}
	return nil
}

// triple reads -Limit, -Remaining and -Reset. A field that is malformed or sent twice is ignored.
func triple(h http.Header, prefix string, quotas []quota, now time.Time) []limit {
	l := limit{calls: true, resetIn: prefix + "Reset"}
	own := l.readLimit(fields.Values(h, prefix+"Limit"))
	if item, err := httpsfv.UnmarshalItem(fields.Values(h, prefix+"Remaining")); err == nil {
		l.remaining = count(item)
	}
	l.readReset(h, prefix, now)
	switch none := (policies.Count{}); {
	case l.remaining != none:
		l.source = prefix + "Remaining"
	case l.quota != none:
		l.source = prefix + "Limit"
	case l.reset > 0:
		l.source = l.resetIn
	default:
		return nil
	}
	l.unreported = l.remaining == policies.Count{}
	l.readPeriod(h, prefix, now)
	l.joinSize(quotas)
	l.joinSize(own)
	reported := []limit{l}
	for i := range own {
		if q := &own[i]; !q.joined {
			reported = append(reported, q.limit(prefix+"Limit"))
		}
	}
	return reported
}

// readReset reads when there is more: from -Reset-After (Discord), -Retry-After (MailerLite), -Reset or -ResetTime (Yelp, GitLab). A time
// that is more than a year away is ignored.
//
// Sources: https://docs.discord.com/developers/topics/rate-limits, https://developers-classic.mailerlite.com/docs/api-rate-limits and
// https://docs.developer.yelp.com/docs/places-rate-limiting
func (l *limit) readReset(h http.Header, prefix string, now time.Time) {
	for _, name := range []string{"Reset-After", "Retry-After", "Reset", "ResetTime"} {
		if v := fields.Values(h, prefix+name); len(v) == 1 {
			if d, ok := fields.Wait(v[0], now); ok && d <= year {
				l.resetIn, l.reset = prefix+name, d
				return
			}
		}
	}
}

// readPeriod reads the period of a limit: from -Period (Datadog) or -Interval (Mapbox), which are in seconds, or durations such as 1s
// (Crossref).
//
// Sources: https://docs.datadoghq.com/api/latest/rate-limits, https://docs.mapbox.com/api/overview/#rate-limits and
// https://api.crossref.org/swagger-docs
func (l *limit) readPeriod(h http.Header, prefix string, now time.Time) {
	for _, name := range []string{"Period", "Interval"} {
		v := fields.Values(h, prefix+name)
		if len(v) != 1 {
			continue
		}
		if d, ok := fields.Wait(v[0], now); ok && d <= specs.MaxPeriod {
			l.window = d
		}
	}
}

// readLimit reads 100, or 100, 100;w=10 of drafts up to -03, which Envoy also sends in X-RateLimit-Limit. The first integer is the limit;
// the others are quotas. Docker Hub gives the first a window: 100;w=21600. WHOOP writes window in place of w.
//
// Sources: https://www.envoyproxy.io/docs/envoy/latest/api-v3/extensions/filters/http/ratelimit/v3/rate_limit.proto (DRAFT_VERSION_03),
// https://docs.docker.com/docker-hub/usage/pulls/ and https://developer.whoop.com/docs/developing/rate-limiting
func (l *limit) readLimit(values []string) []quota {
	list, err := httpsfv.UnmarshalList(values)
	if err != nil || len(list) == 0 || len(list) > maxItems {
		return nil
	}
	first, isItem := list[0].(httpsfv.Item)
	if !isItem {
		return nil
	}
	most, isInteger := first.Value.(int64)
	if !isInteger || most < 0 {
		return nil
	}
	l.quota = policies.Reported(most)
	for _, member := range list {
		if item, ok := member.(httpsfv.Item); ok {
			if w, has := item.Params.Get("window"); has {
				item.Params.Add("w", w)
			}
		}
	}
	if q, ok := readQuota(first); ok {
		l.window = q.w
	}
	own := readQuotas(list[1:])
	for i := range own {
		if own[i].name != "" { // not in this draft
			return nil
		}
	}
	return own
}

// count returns an Item that is a non-negative number, without its decimals, which Reddit sends. Drafts up to -06 require that its
// parameters are ignored.
func count(item httpsfv.Item) policies.Count {
	switch n := item.Value.(type) {
	case int64:
		return policies.Reported(n)
	case float64: // at most 12 digits before the point (RFC 9651 section 3.3.2)
		if n >= 0 {
			return policies.Reported(int64(n))
		}
	}
	return policies.Count{}
}

// operation reads the rate of the operation that was called, in calls a second, which Amazon's Selling Partner API reports without what is
// left of it: 5.0, or 0.0167 for one in a minute.
// Source: https://developer-docs.amazon.com/sp-api/docs/usage-plans-and-rate-limits
func operation(h http.Header) (policies.Feedback, bool) {
	const field = "X-Amzn-Ratelimit-Limit"
	if len(h[field]) == 0 || fields.Cached(h) {
		return policies.Feedback{}, false
	}
	f := policies.Feedback{Source: "x-amzn-RateLimit-Limit", Policies: []string{PolicyOperation}, Otherwise: policies.Unknown}
	rate, err := strconv.ParseFloat(fields.Get(h, field), 64)
	if err != nil || !(rate*specs.MaxPeriod.Seconds() >= 1 && rate <= float64(specs.MaxLimit)) {
		return f, false
	}
	f.Limit, f.Window = policies.Reported(int64(rate)), time.Second
	if rate != math.Trunc(rate) {
		f.Limit, f.Window = policies.Reported(1), time.Duration(math.Ceil(float64(time.Second)/rate))
	}
	return f, true
}

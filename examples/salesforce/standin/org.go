package standin

import (
	"net/http"
	"strconv"
	"time"
)

// Names of the limits, as the record counts refusals.
const (
	limitDaily      = "daily"
	limitConcurrent = "concurrent"
	limitPeak       = "peak"
)

// An org is what all consumers share: limits and a record. Its owner locks it.
type org struct {
	config    Config
	began     time.Time
	day       window
	running   map[*call]time.Time // since when
	consumers map[string]*consumer
}

// A consumer is one user or integration of the org.
type consumer struct {
	peak   window
	record record
}

func newOrg(c Config, now time.Time) *org {
	o := &org{
		config:    c,
		began:     now,
		day:       window{limit: c.Allocation, period: 24 * time.Hour},
		running:   map[*call]time.Time{},
		consumers: map[string]*consumer{},
	}
	for _, name := range c.Tokens {
		o.consumer(name)
	}
	return o
}

// consumer returns the one of this name.
func (o *org) consumer(name string) *consumer {
	c, ok := o.consumers[name]
	if !ok {
		c = &consumer{peak: window{limit: o.config.Peak, period: time.Second}, record: record{refusedBy: map[string]int{}}}
		o.consumers[name] = c
	}
	return c
}

// judge counts a call, or returns the limit that has no room for it. All limits admit it, or none counts it. The peak is for guarded calls.
func (o *org) judge(by *consumer, guarded bool, now time.Time) (broken string) {
	guarded = guarded && o.config.Peak > 0
	switch {
	case o.day.full(now):
		broken = limitDaily
	case o.long(now) >= o.config.LongLimit:
		broken = limitConcurrent
	case guarded && by.peak.full(now):
		broken = limitPeak
	default:
		o.day.add(now)
		if guarded {
			by.peak.add(now)
		}
	}
	by.record.count(now.Sub(o.began), broken)
	return broken
}

// long counts the requests that have been running for so long that they count.
func (o *org) long(now time.Time) (n int) {
	for _, since := range o.running {
		if now.Sub(since) >= o.config.LongAfter {
			n++
		}
	}
	return n
}

// describe writes the header with the state of the org. Source:
// https://developer.salesforce.com/docs/atlas.en-us.api_rest.meta/api_rest/headers_api_usage.htm
func (o *org) describe(h http.Header, now time.Time) {
	h.Set("Sforce-Limit-Info", "api-usage="+strconv.Itoa(o.day.used(now))+"/"+strconv.Itoa(o.config.Allocation))
}

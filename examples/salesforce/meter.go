package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// interactive is the caller's name of interactive calls. The other callers are the readers, by tenant.
const interactive = "interactive"

// A meter counts what this copy does, and keeps the org's last report.
type meter struct {
	began time.Time

	mu       sync.Mutex
	calls    map[string]int // calls that were answered, by caller
	records  map[string]int // that readers have read, by tenant
	waits    map[string][]time.Duration
	refused  int // 403s because of a limit
	tooSlow  int // calls that took, or would have waited, longer than they may
	failures int
	failure  error // the last

	used, limit int       // of the day, by the org's last report
	answered    []float64 // calls of this copy so far, by second
	usedAt      []float64 // calls of all so far, by second, by the org's reports
}

func newMeter() *meter {
	return &meter{began: time.Now(), calls: map[string]int{}, records: map[string]int{}, waits: map[string][]time.Duration{}}
}

// A trip is one request on its way through the layers.
type trip struct {
	caller string
	began  time.Time
	sent   bool
}

type tripKey struct{}

// A gauge sends requests and counts the answers. Only this layer sees the header of a failure: the SDK keeps only the body.
type gauge struct {
	*meter

	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (g gauge) RoundTrip(r *http.Request) (*http.Response, error) {
	t, ok := r.Context().Value(tripKey{}).(*trip)
	if !ok {
		return nil, fmt.Errorf("%s was not sent through a caller", r.URL)
	}
	if !t.sent {
		t.sent = true
		g.wait(t.caller, time.Since(t.began))
	}
	resp, err := g.next.RoundTrip(r)
	if err == nil {
		g.answer(t.caller, resp)
	}
	return resp, err
}

func (m *meter) wait(caller string, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waits[caller] = append(m.waits[caller], d)
}

func (m *meter) answer(caller string, resp *http.Response) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if resp.StatusCode == http.StatusForbidden {
		m.refused++
	} else {
		m.calls[caller]++
	}
	var used, limit int
	if n, _ := fmt.Sscanf(resp.Header.Get("Sforce-Limit-Info"), "api-usage=%d/%d", &used, &limit); n == 2 {
		m.used, m.limit = max(m.used, used), limit // answers overtake each other
	}
	own := 0
	for _, n := range m.calls {
		own += n
	}
	for second := int(time.Since(m.began) / time.Second); len(m.answered) <= second; {
		m.answered, m.usedAt = append(m.answered, last(m.answered)), append(m.usedAt, last(m.usedAt))
	}
	m.answered[len(m.answered)-1], m.usedAt[len(m.usedAt)-1] = float64(own), float64(m.used)
}

// last returns the last count, also that of a second without calls.
func last(ns []float64) float64 {
	if len(ns) == 0 {
		return 0
	}
	return ns[len(ns)-1]
}

func (m *meter) read(tenant string, records int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records[tenant] += records
}

func (m *meter) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failures++
	m.failure = err
}

func (m *meter) slow() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tooSlow++
}

// A tally is a meter's state at one instant.
type tally struct {
	calls       map[string]int
	total       int
	refused     int
	used, limit int           // of the day, by the org's last report; 0 before the first
	longest     time.Duration // wait of any call
}

func (m *meter) tally() tally {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := tally{calls: maps.Clone(m.calls), refused: m.refused, used: m.used, limit: m.limit}
	for _, n := range m.calls {
		t.total += n
	}
	for _, ds := range m.waits {
		t.longest = max(t.longest, slices.Max(ds))
	}
	return t
}

// quantile returns a quantile of the durations; 0 if there are none.
func quantile(ds []time.Duration, share float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(ds))
	return sorted[int(share*float64(len(sorted)-1)+0.5)]
}

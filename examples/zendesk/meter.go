package main

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A meter counts what this copy does.
type meter struct {
	began time.Time

	mu        sync.Mutex
	lists     int // calls that were answered, by what they do
	gets      int
	updates   int
	refused   int             // 429s
	answered  []int           // calls that were answered, by second
	refusedAt []int           // 429s, by second
	waits     []time.Duration // how long each call waited for its slot
	slept     []time.Duration // after 429s, without Headway
	failures  int
	failure   error // the last
	announced int   // the limit per minute that the API reported; 0 if it did not
}

func newMeter() *meter { return &meter{began: time.Now()} }

// A trip is one request on its way through the layers.
type trip struct {
	began time.Time
	sent  bool
}

type tripKey struct{}

// around records when a request enters the paced transport; the gauge below records when it leaves.
type around struct {
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (a around) RoundTrip(r *http.Request) (*http.Response, error) {
	return a.next.RoundTrip(r.WithContext(context.WithValue(r.Context(), tripKey{}, &trip{began: time.Now()})))
}

// A gauge sends requests and counts the answers.
type gauge struct {
	*meter

	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (g gauge) RoundTrip(r *http.Request) (*http.Response, error) {
	if t, ok := r.Context().Value(tripKey{}).(*trip); ok && !t.sent {
		t.sent = true
		g.wait(time.Since(t.began))
	}
	resp, err := g.next.RoundTrip(r)
	if err == nil {
		g.answer(r, resp)
	}
	return resp, err
}

func (m *meter) wait(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waits = append(m.waits, d)
}

func (m *meter) answer(r *http.Request, resp *http.Response) {
	m.mu.Lock()
	defer m.mu.Unlock()
	second := int(time.Since(m.began) / time.Second)
	if n := second + 1 - len(m.answered); n > 0 {
		m.answered = append(m.answered, make([]int, n)...)
		m.refusedAt = append(m.refusedAt, make([]int, n)...)
	}
	if n, err := strconv.Atoi(resp.Header.Get("X-Rate-Limit")); err == nil {
		m.announced = n
	}
	if resp.StatusCode == http.StatusTooManyRequests {
		m.refused++
		m.refusedAt[second]++
		return
	}
	m.answered[second]++
	switch {
	case r.Method == http.MethodPut:
		m.updates++
	case strings.HasSuffix(r.URL.Path, "/tickets.json"):
		m.lists++
	default:
		m.gets++
	}
}

func (m *meter) sleep(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slept = append(m.slept, d)
}

func (m *meter) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failures++
	m.failure = err
}

// total returns how many calls were admitted and refused.
func (m *meter) total() (admitted, refused int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lists + m.gets + m.updates, m.refused
}

// quantile returns a quantile of the durations; 0 if there are none.
func quantile(ds []time.Duration, share float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(ds))
	return sorted[int(share*float64(len(sorted)-1)+0.5)]
}

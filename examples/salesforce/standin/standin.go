package standin

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Defaults of [Config].
const (
	// DefaultPageSize is how many records a page of a query has: the fewest that a client can request from Salesforce. Source:
	// https://developer.salesforce.com/docs/atlas.en-us.api_rest.meta/api_rest/headers_queryoptions.htm
	DefaultPageSize = 200
	// DefaultLongAfter is the age from which a request counts as long, and DefaultLongLimit how many of those a production org may have.
	// Source: see the package's documentation.
	DefaultLongAfter = 20 * time.Second
	DefaultLongLimit = 25
	// DefaultLatency is how long a call takes. It is the stand-in's own.
	DefaultLatency = 20 * time.Millisecond
)

// NoLatency as [Config].Latency answers at once.
const NoLatency time.Duration = -1

// LatencyHeader is a header with which a request sets how long it takes, as a Go duration of at most [MaxLatency]. It is the stand-in's
// own: Salesforce's long requests take long by themselves.
const LatencyHeader = "Standin-Latency"

// MaxLatency is when Salesforce abandons a REST request.
const MaxLatency = 10 * time.Minute

// Config sets how strict a stand-in is.
type Config struct {
	// Allocation is how many calls the org has in 24 hours. Required.
	Allocation int

	// Tokens are the valid bearer tokens, with the names of their consumers. Required.
	Tokens map[string]string

	// Peak is the most calls of one consumer in any second. Salesforce documents no such limit: the guard is the stand-in's own, so that a
	// run of some seconds can distinguish a paced client from one that fires at will. 0 turns it off. Defaults to 0.
	Peak int

	// PageSize is how many records a page of a query has. Defaults to [DefaultPageSize], 200.
	PageSize int

	// Latency is how long a call takes without [LatencyHeader]. A refusal comes at once. [NoLatency] means no time. Defaults to
	// [DefaultLatency], 20 ms.
	Latency time.Duration

	// LongAfter is the age from which a request counts as long. Defaults to [DefaultLongAfter], 20 s.
	LongAfter time.Duration

	// LongLimit is how many long requests may run at a time: any further request is refused. Defaults to [DefaultLongLimit], 25.
	LongLimit int
}

// A Standin is an [http.Handler] that behaves like the REST API of one Salesforce org. Make one with [New]. It is safe for concurrent use.
type Standin struct {
	config Config
	id     string
	mux    *http.ServeMux

	mu   sync.Mutex
	org  *org
	last time.Time // when the last request came
}

var _ http.Handler = (*Standin)(nil)

// New returns a stand-in, or an error with the Config's mistake.
func New(c Config) (*Standin, error) {
	switch {
	case c.Allocation < 1:
		return nil, fmt.Errorf("standin: an allocation of %d calls: give at least 1", c.Allocation)
	case len(c.Tokens) == 0:
		return nil, errors.New("standin: no tokens: nobody could call")
	case c.Peak < 0:
		return nil, fmt.Errorf("standin: a peak of %d calls per second: give at least 1, or 0 for no guard", c.Peak)
	case c.PageSize < 0 || c.LongAfter < 0 || c.LongLimit < 0:
		return nil, errors.New("standin: page size and long requests: give at least 1, or 0 for the default")
	}
	c.Tokens = maps.Clone(c.Tokens)
	c.PageSize = cmp.Or(c.PageSize, DefaultPageSize)
	c.Latency = cmp.Or(c.Latency, DefaultLatency)
	c.LongAfter = cmp.Or(c.LongAfter, DefaultLongAfter)
	c.LongLimit = cmp.Or(c.LongLimit, DefaultLongLimit)
	now := time.Now()
	s := &Standin{config: c, id: "00D" + rand.Text()[:12], mux: http.NewServeMux(), org: newOrg(c, now), last: now}
	s.mux.HandleFunc("GET "+StatsPath, s.serveStats)
	s.mux.HandleFunc("GET "+dataPath+"{version}/query/{locator...}", s.api(true, s.query))
	s.mux.HandleFunc("GET "+dataPath+"{version}/query", s.api(true, s.query))
	s.mux.HandleFunc("GET "+dataPath+"{version}/limits", s.api(false, s.limits))
	s.mux.HandleFunc("GET "+dataPath+"{version}/limits/{$}", s.api(false, s.limits))
	s.mux.HandleFunc("GET "+dataPath+"{version}/sobjects/{object}/{id}", s.api(true, show))
	s.mux.HandleFunc("/", s.api(true, func(*call) reply { return notFound() }))
	return s, nil
}

// ServeHTTP implements [http.Handler].
func (s *Standin) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Spend is a call by a consumer outside HTTP. It takes no time, has no peak, and reports whether the call was admitted.
func (s *Standin) Spend(consumer string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.org.judge(s.org.consumer(consumer), false, time.Now()) == ""
}

// A call is a request that was admitted.
type call struct {
	*http.Request

	version string
	used    int // of the allocation, this call included
}

var versionGrammar = regexp.MustCompile(`^v[0-9]{2}\.0$`)

// api returns a handler that checks the token, then the limits, and then does what the resource does.
func (s *Standin) api(guarded bool, resource func(*call) reply) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		name, known := s.config.Tokens[token]
		if !bearer || !known {
			send(w, refuse(http.StatusUnauthorized, "INVALID_SESSION_ID", "Session expired or invalid"))
			return
		}
		c := &call{Request: r, version: r.PathValue("version")}
		if broken := s.begin(w.Header(), c, name, guarded); broken != "" {
			send(w, exceeded(broken))
			return
		}
		defer s.end(c)
		if sleep(r.Context(), s.latency(r)) != nil {
			return
		}
		if c.version != "" && !versionGrammar.MatchString(c.version) {
			send(w, notFound())
			return
		}
		send(w, resource(c))
	}
}

// begin judges a call.
func (s *Standin) begin(h http.Header, c *call, name string, guarded bool) (broken string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now() // under the lock: calls are judged in the order of their times
	s.last = now
	broken = s.org.judge(s.org.consumer(name), guarded, now)
	if broken == "" {
		s.org.running[c] = now
	}
	c.used = s.org.day.used(now)
	s.org.describe(h, now)
	return broken
}

func (s *Standin) end(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.org.running, c)
}

// latency returns how long a call takes.
func (s *Standin) latency(r *http.Request) time.Duration {
	if d, err := time.ParseDuration(r.Header.Get(LatencyHeader)); err == nil && d >= 0 {
		return min(d, MaxLatency)
	}
	return s.config.Latency
}

func send(w http.ResponseWriter, r reply) {
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	w.WriteHeader(r.status)
	_ = json.NewEncoder(w).Encode(r.body) //nolint:errchkjson // a client that has gone does not receive it
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Stats returns what was recorded so far.
func (s *Standin) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	out := Stats{
		Org:           s.id,
		Allocation:    s.config.Allocation,
		Used:          s.org.day.used(now),
		PeakPerSecond: s.config.Peak,
		UptimeMS:      now.Sub(s.org.began).Milliseconds(),
		IdleMS:        now.Sub(s.last).Milliseconds(),
		Consumers:     make(map[string]ConsumerRow, len(s.org.consumers)),
	}
	for name, c := range s.org.consumers {
		out.Consumers[name] = ConsumerRow{
			Admitted:          c.record.admitted,
			Refused:           c.record.refused,
			RefusedBy:         maps.Clone(c.record.refusedBy),
			AdmittedPerSecond: slices.Clone(c.record.admittedAt),
			RefusedPerSecond:  slices.Clone(c.record.refusedAt),
		}
	}
	return out
}

func (s *Standin) serveStats(w http.ResponseWriter, _ *http.Request) {
	stats := s.Stats()
	s.mu.Lock()
	s.last = time.Now()
	s.mu.Unlock()
	send(w, reply{http.StatusOK, stats})
}

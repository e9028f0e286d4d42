package standin

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// DefaultLatency is how long a call takes in the stand-in without a [Config.Latency].
const DefaultLatency = 20 * time.Millisecond

// NoLatency as [Config.Latency] answers at once.
const NoLatency time.Duration = -1

// maxAccounts bounds the accounts that clients can create.
const maxAccounts = 1000

// Config sets how strict a stand-in is.
type Config struct {
	// Plan sets the limit per minute: one of [Plans]. Required.
	Plan string

	// Peak is the most calls of an account in any second. [Peak] returns a plan's value. 0 turns the guard off. Defaults to 0.
	Peak int

	// Latency is how long a call takes. A 429 and a 401 come at once. [NoLatency] means no time. Defaults to [DefaultLatency], 20 ms.
	Latency time.Duration
}

// A Standin is an [http.Handler] that behaves like the Zendesk Support API. Make one with [New]. It is safe for concurrent use.
type Standin struct {
	config Config
	limit  int
	mux    *http.ServeMux
	began  time.Time

	mu       sync.Mutex
	accounts map[string]*account
	last     time.Time // when the last request came
}

var _ http.Handler = (*Standin)(nil)

// New returns a stand-in. It returns an error that lists the plans if there is no such plan.
func New(c Config) (*Standin, error) {
	limit, ok := PlanLimit(c.Plan)
	switch {
	case !ok:
		return nil, fmt.Errorf("standin: there is no plan %q: choose one of %s", c.Plan, strings.Join(Plans(), ", "))
	case c.Peak < 0:
		return nil, fmt.Errorf("standin: a peak of %d calls per second: give at least 1, or 0 for no guard", c.Peak)
	}
	if c.Latency == 0 {
		c.Latency = DefaultLatency
	}
	now := time.Now()
	s := &Standin{config: c, limit: limit, mux: http.NewServeMux(), began: now, last: now, accounts: map[string]*account{}}
	s.mux.HandleFunc("GET "+StatsPath, s.serveStats)
	s.mux.HandleFunc("GET /{tenant}/api/v2/tickets", s.api(opList, list))
	s.mux.HandleFunc("GET /{tenant}/api/v2/tickets.json", s.api(opList, list))
	s.mux.HandleFunc("GET /{tenant}/api/v2/tickets/show_many.json", s.api(opOther, showMany))
	s.mux.HandleFunc("GET /{tenant}/api/v2/tickets/{ticket}", s.api(opOther, show))
	s.mux.HandleFunc("PUT /{tenant}/api/v2/tickets/{ticket}", s.api(opUpdate, update))
	s.mux.HandleFunc("/{tenant}/api/v2/{rest...}", s.api(opOther, func(*call) reply { return notFound() }))
	return s, nil
}

// ServeHTTP implements [http.Handler].
func (s *Standin) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// A call is a request that was admitted.
type call struct {
	*account

	tenant string
	id     int64 // of the ticket; 0 if the path names none
	now    time.Time
	query  map[string][]string
	change change
}

// A reply is a status and its JSON.
type reply struct {
	status int
	body   any
}

func notFound() reply {
	return reply{http.StatusNotFound, map[string]string{"error": "RecordNotFound", "description": "Not found"}}
}

func invalid(description string) reply {
	return reply{http.StatusBadRequest, map[string]string{"error": "InvalidValue", "description": description}}
}

var tenantGrammar = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// api returns a handler that checks the credentials, then the limits, and then does what the endpoint does.
func (s *Standin) api(op operation, endpoint func(*call) reply) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		user, ok := userOf(r)
		if !ok {
			send(w, reply{http.StatusUnauthorized, map[string]string{"error": "Couldn't authenticate you"}})
			return
		}
		c := &call{tenant: r.PathValue("tenant"), query: r.URL.Query()}
		id, _ := strconv.ParseInt(strings.TrimSuffix(r.PathValue("ticket"), ".json"), 10, 64)
		c.id = id

		wait, known := s.judge(w.Header(), c, op, user)
		switch {
		case !known:
			send(w, notFound())
			return
		case wait > 0:
			w.Header().Set("Retry-After", strconv.Itoa(seconds(wait)))
			// http.Error would add a line feed.
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte("Number of allowed API requests per minute exceeded"))
			return
		}
		if op == opUpdate {
			if problem := c.readChange(w, r); problem != "" {
				send(w, invalid(problem))
				return
			}
		}
		if sleep(r.Context(), s.config.Latency) != nil {
			return
		}
		s.mu.Lock()
		out := endpoint(c)
		s.mu.Unlock()
		send(w, out)
	}
}

// judge counts a call, or returns how long to wait. It returns false for an unknown account.
func (s *Standin) judge(h http.Header, c *call, op operation, user string) (wait time.Duration, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.accounts[c.tenant]
	if !ok {
		if !tenantGrammar.MatchString(c.tenant) || len(s.accounts) >= maxAccounts {
			return 0, false
		}
		a = newAccount(s.limit, s.config.Peak)
		s.accounts[c.tenant] = a
	}
	now := time.Now() // under the lock: calls are judged in the order of their times
	c.account, c.now, s.last = a, now, now
	ws := a.binding(op, editor{user, c.id}, now)
	wait, by := a.admit(ws, now)
	a.record.count(now.Sub(s.began), by)
	a.describe(h, ws, now)
	return wait, true
}

// userOf returns the caller: the email of "email/token" in the basic credentials. Source:
// https://developer.zendesk.com/api-reference/introduction/security-and-auth/#api-token
func userOf(r *http.Request) (string, bool) {
	name, token, ok := r.BasicAuth()
	email, hasToken := strings.CutSuffix(name, "/token")
	return email, ok && hasToken && email != "" && token != ""
}

func send(w http.ResponseWriter, r reply) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
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
		Plan:           s.config.Plan,
		LimitPerMinute: s.limit,
		PeakPerSecond:  s.config.Peak,
		UptimeMS:       now.Sub(s.began).Milliseconds(),
		IdleMS:         now.Sub(s.last).Milliseconds(),
		Tenants:        make(map[string]TenantRow, len(s.accounts)),
	}
	for tenant, a := range s.accounts {
		out.Tenants[tenant] = TenantRow{
			Admitted:          a.record.admitted,
			Refused:           a.record.refused,
			RefusedBy:         maps.Clone(a.record.refusedBy),
			AdmittedPerSecond: slices.Clone(a.record.admittedAt),
			RefusedPerSecond:  slices.Clone(a.record.refusedAt),
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

//go:build measure

package redisstore_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
	"github.com/headway-go/headway/transport/upstreamtest"
)

// quotas is the profile of the upstreams of these tests: a tenant from the query, Retry-After, and the use of a daily quota that others
// share.
var quotas = policies.Profile{
	Name:   "quotas",
	Scopes: []policies.Scope{{Name: "tenant", Value: func(r *http.Request) string { return r.URL.Query().Get("tenant") }}},
	Read: func(r *policies.Reply) policies.Reading {
		var reading policies.Reading
		if r.Status == http.StatusTooManyRequests {
			wait, _ := fields.RetryAfter(r.Header, r.Now)
			reading.Verdict = policies.Limited
			reading.Feedback = append(reading.Feedback, policies.Feedback{Source: "Retry-After", Refused: true, Wait: wait})
		}
		if used, limit, ok := fields.Fraction(r.Header.Get("Quota")); ok {
			reading.Feedback = append(reading.Feedback, policies.Feedback{
				Source: "Quota", Policies: []string{"daily"}, Otherwise: policies.TheCall,
				Used: policies.Reported(used), Limit: policies.Reported(limit), Window: 24 * time.Hour,
			})
		}
		return reading
	},
}

// pausing is an upstream that answers "slow down" once to tenant a.
type pausing struct {
	after time.Duration // from the start on
	wait  time.Duration // for how long

	mu         sync.Mutex
	start      time.Time
	reportedAt time.Time // when it did
	went       map[string][]time.Time
}

func (u *pausing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now, tenant := time.Now(), r.FormValue("tenant")
	if u.start.IsZero() {
		u.start, u.went = now, make(map[string][]time.Time)
	}
	u.went[tenant] = append(u.went[tenant], now)
	if u.reportedAt.IsZero() && now.Sub(u.start) > u.after && tenant == "a" && r.FormValue("process") == "0" {
		u.reportedAt = now
		w.Header().Set("Retry-After", strconv.Itoa(int(u.wait/time.Second)))
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// One process of four receives "Retry-After" for a tenant, with calls of that tenant asleep in the others. No later call has a slot in the
// pause, sleeping calls in other processes wait for its end, too, and then all go on at their pace. Another tenant never stops.
//
// Measured: 64 calls are asleep, and from 100 ms later until the two seconds are over the upstream sees none of them.
func TestFleetHeedsAPause(t *testing.T) {
	u := &pausing{after: 2 * time.Second, wait: 2 * time.Second}
	// The queue is over 3 s long, so the refusal comes 2 to 6 s after the start, and calls that would go after the end leave.
	j := job{Fleet: "pauses", Duration: 16 * time.Second, HTTP: true, Tenants: []string{"a", "b"}}
	p := play(t, u, j, func(process int) []crew {
		if process == 0 {
			return []crew{{Tenant: "a", Goroutines: 1}, {Tenant: "b", Goroutines: 8}}
		}
		return []crew{{Tenant: "a", Goroutines: 22 - process/3*2}} // 22, 22, 20
	})
	in := func(tenant string, from, to time.Duration) (n int) {
		for _, at := range u.went[tenant] {
			if d := at.Sub(u.reportedAt); d >= from && d < to {
				n++
			}
		}
		return n
	}
	silence := in("a", 100*time.Millisecond, 2*time.Second)
	before, after := in("a", -2*time.Second, 0), in("a", 2*time.Second, 5*time.Second)
	other := in("b", 0, 2*time.Second)
	most := 0 // in any 100 ms afterwards, where the pace is one in 50 ms
	for _, at := range u.went["a"] {
		if d := at.Sub(u.reportedAt); d >= 2*time.Second {
			most = max(most, in("a", d, d+100*time.Millisecond))
		}
	}
	measure.Judge(t, p.late, tolerated, fmt.Sprintf("tenant a: %d calls in the pause; %d in the 2 s before, %d in the 3 s after, at most %d in 100 ms; tenant b: %d in the pause",
		silence, before, after, most, other), silence == 0 && before >= 38 && after >= 57 && after <= 62 && most <= 4 && other >= 38)
}

// halved is a strict upstream that allows half as much for a while, from its first call on.
type halved struct {
	strict

	begin    sync.Once
	start    time.Time
	from, to time.Duration
}

func (u *halved) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.begin.Do(func() {
		u.start = time.Now()
		time.AfterFunc(u.from, func() { u.SetLimits(upstreamtest.Sliding(25, time.Second)) })
		time.AfterFunc(u.to, func() { u.SetLimits(upstreamtest.Sliding(50, time.Second)) })
	})
	u.strict.ServeHTTP(w, r)
}

// An upstream halves its limit without notice: the fleet slows down when it is refused, no later call goes in the pause of a refusal, the
// configured limit is never broken, and the full rate comes back when nothing is refused any more.
//
// Measured: for 10 s there are at most six refusals, at least 80 % of what is still allowed, and the full rate is back within
// 10 s.
func TestFleetAdaptsToAHalvedLimit(t *testing.T) {
	u := &halved{from: 3 * time.Second, to: 13 * time.Second}
	u.SetLimits(upstreamtest.Sliding(50, time.Second))
	j := job{Fleet: "halved", Duration: 26 * time.Second, HTTP: true}
	p := play(t, u, j, crewed(crew{Tenant: "x", Goroutines: 16}))
	went, refused := u.came(true), u.came(false)
	in := func(times []time.Time, from, to time.Duration) (n int) {
		for _, at := range times {
			if d := at.Sub(u.start); d >= from && d < to {
				n++
			}
		}
		return n
	}
	refusals, during := in(refused, u.from, u.to), in(went, u.from, u.to)
	var when []time.Duration
	for _, at := range refused {
		when = append(when, at.Sub(u.start))
	}
	var rates []int
	for i := range 25 {
		rates = append(rates, in(went, time.Duration(i)*time.Second, time.Duration(i+1)*time.Second))
	}
	t.Logf("refusals at %v, calls per second %v", when, rates)
	after := in(went, 23*time.Second, 25*time.Second)
	measure.Judge(t, p.late, tolerated, fmt.Sprintf("%d refusals while it lasts, %d of 250 calls; %d refusals in all; %d calls of 100 in the 2 s from 10 s after its end",
		refusals, during, len(refused), after), refusals <= 6 && during >= 200 && after >= 95)
}

// shared is an upstream with a daily quota that another consumer spends half of.
type shared struct {
	mu                  sync.Mutex
	ours, others, limit int
	no                  int
}

func (u *shared) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	// The other consumer spends as much as we do, five at a time, until it has its half.
	if rand.N(5) == 0 {
		u.others = min(u.limit/2, u.others+5)
	}
	if u.ours+u.others >= u.limit {
		u.no++
		w.Header().Set("Quota", fmt.Sprintf("%d/%d", u.limit, u.limit))
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	u.ours++
	used := u.ours + u.others
	w.Header().Set("Quota", fmt.Sprintf("%d/%d", used, u.limit))
}

// Another consumer of the credential spends up to half of the day's quota: no call goes when that is used up, and the fleet's own limits
// hold. Measured: the fleet stops within 1 % of what there is, and is never refused.
func TestFleetSharesAQuotaWithOthers(t *testing.T) {
	u := &shared{limit: 5000}
	j := job{Fleet: "quota", Duration: 20 * time.Second, HTTP: true}
	p := play(t, u, j, crewed(crew{Tenant: "x", Goroutines: 8}))
	used := u.ours + u.others
	measure.Judge(t, p.late, tolerated, fmt.Sprintf("%d calls of ours, %d of another, of %d; %d times refused", u.ours, u.others, u.limit, u.no),
		u.no == 0 && used >= u.limit*99/100)
}

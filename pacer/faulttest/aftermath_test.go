package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
)

// account compares what the store charged with what went. It returns both as a part of what went: what was charged, and
// the same again if nothing was lost on purpose, or else 0.
//
// A call that went was charged at least once, by the store or by the process itself, which reports it later. It was
// charged twice if the store's answer was lost: the process then went locally, and did not know of the first charge. That
// happens only while the store does not answer a process, which is what trouble means here. A call that was cancelled or
// refused in trouble is charged once, instead of not at all, for the same reason; its cost is added to the bound.
//
// A Cancel whose answer was lost is not asked for again: it may stay charged. All that a process has spent is reported when the store is back,
// and charged once. So nothing is missing, and nothing else is too much.
//
// What is charged late is waited for: a machine may be slow.
func (r *run) account() (charged, least float64) {
	r.ops.status.Add(1)
	var broken string
	await(func() bool {
		n, err := r.spent()
		if err == nil {
			charged, least, broken = r.balance(n)
		} else {
			broken = "Status: " + err.Error()
		}
		return broken == ""
	})
	if broken != "" {
		r.complainf("%s", broken)
	}
	return charged, least
}

// spent returns what the store has charged to the quota.
func (r *run) spent() (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	status, err := r.fleet[0].pacer.Status(ctx, pacer.Scope("tenant", "t1"))
	if err != nil {
		return 0, err
	}
	of := slices.IndexFunc(status.Policies, func(p pacer.PolicyStatus) bool { return p.Policy.Name() == quota })
	return quotas - status.Policies[of].Remaining, nil
}

// balance compares so much with what went.
func (r *run) balance(n int64) (charged, least float64, broken string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	went, near, unsure := int64(0), int64(0), int64(0)
	for _, c := range r.went {
		went += c.cost
		if r.unanswered(c.began, c.at) {
			near += c.reserved
		}
	}
	for _, s := range r.unsure {
		if r.unanswered(s.from, s.to) {
			unsure += s.cost
		}
	}
	charged = float64(n) / float64(went)
	if y, m, d := r.begin.UTC().Date(); time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC).Before(time.Now().Add(time.Minute)) {
		return charged, 0, "" // the day is not the one in which the run began, or nearly so
	}
	if n > went+near+unsure {
		return charged, 0, fmt.Sprintf("%d were charged for calls of %d that went, %d of it in trouble, and %d that did not go and were under way in trouble", n, went, near, unsure)
	}
	if r.emptied || r.site.masters > 1 {
		return charged, 0, ""
	}
	if n < went {
		return charged, charged, fmt.Sprintf("only %d were charged for calls of %d that went, and nothing was lost", n, went)
	}
	return charged, charged, ""
}

// unanswered reports whether, at some time, the store had not answered a process, or not in time, or a process paced locally. The
// caller holds mu.
func (r *run) unanswered(from, to time.Time) bool {
	return slices.ContainsFunc(r.silences, func(x trouble) bool { return !x.from.After(to) && !from.After(x.to) })
}

// leave closes every Pacer and client, and checks what is left in Redis.
func (r *run) leave() {
	for _, m := range r.fleet {
		if err := m.pacer.Close(); err != nil {
			r.complainf("Close: %v", err)
		}
		if err := m.pacer.Wait(context.Background()); !errors.Is(err, pacer.ErrClosed) {
			r.complainf("Wait after Close: %v", err)
		}
		if err := m.rdb.Close(); err != nil {
			r.complainf("the client's Close: %v", err)
		}
	}
	keys := 0
	for _, server := range r.site.servers {
		n, err := r.expiring(server)
		if err != nil {
			r.complainf("the keys of %s: %v", server.Addr, err)
		}
		keys += n
	}
	if keys == 0 {
		r.complainf("there is no key")
	}
}

// expiring counts the keys of a server that is a master, each of which must be one that expires.
func (r *run) expiring(server *redistest.Server) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	info, err := server.Client().Info(ctx, "replication").Result()
	if err != nil {
		return 0, err
	}
	if !strings.Contains(info, "role:master") {
		return 0, nil // it has what its master has
	}
	keys, n := server.Client().Scan(ctx, 0, "*", 1000).Iterator(), 0
	for keys.Next(ctx) {
		ttl, err := server.Client().PTTL(ctx, keys.Val()).Result()
		if err != nil {
			return n, err
		}
		if n++; ttl == -1 { // -2: it has just expired
			r.complainf("%s never expires", keys.Val())
		}
	}
	return n, keys.Err()
}

// inPause finds calls that went in a pause that had been reported before their requests. A process that paces locally does not receive of
// what others report, so only quiet times count.
func (r *run) inPause() (checked int, broken []string) {
	ref := referee{troubles: r.troubles}
	for _, p := range r.pauses {
		lifted := slices.ContainsFunc(r.resumed, func(x span) bool { return x.from.Before(p.until) && p.began.Before(x.to) })
		if lifted || ref.troubled(p.reported.Add(-time.Second), p.until) != nil {
			continue
		}
		checked++
		for _, c := range r.went {
			if !c.blind && c.began.After(p.reported) && c.at.Before(p.until.Add(-time.Millisecond)) {
				broken = append(broken, fmt.Sprintf("a call went at %s, in a pause until %s that was reported at %s",
					c.at.Format("05.000"), p.until.Format("05.000"), p.reported.Format("05.000")))
			}
		}
	}
	return checked, broken
}

// early finds calls that went before the instant that their callers requested, and calls that went before their slots, by the clock that
// the store and this process have in common. A process that paces locally has a clock of its own.
func (r *run) early() (broken []string) {
	ref, drift := referee{troubles: r.troubles}, r.drift()
	for _, c := range r.went {
		if c.at.Before(c.before.Add(-time.Microsecond - drift)) { // whatever the fault
			broken = append(broken, fmt.Sprintf("a call went at %s, %v earlier than it was to", c.at.Format("05.000"), c.before.Sub(c.at)))
		}
		// Slots are in whole microseconds.
		if c.at.Before(c.slot.Add(-time.Microsecond-drift)) && ref.troubled(c.began, c.at) == nil {
			broken = append(broken, fmt.Sprintf("a call went at %s, %v before its slot", c.at.Format("05.000"), c.slot.Sub(c.at)))
		}
	}
	return broken
}

// drift returns by how much the wall clock, by which slots are given, and the clock of timers have parted since the run began.
func (r *run) drift() time.Duration {
	now := time.Now()
	return (now.Round(0).Sub(r.begin.Round(0)) - now.Sub(r.begin)).Abs() //realtime: by how much the wall clock was set
}

package failover

import (
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// A standing is what a process knows of its place in the fleet, by the heartbeats that were answered. It determines whether the process has
// a share of each limit, one of n, if it loses the store. Processes that start one after the other learn different numbers, so a share is
// only for a process that the store has known for long enough: all others that have one were there at its last heartbeat, or they have
// counted it at theirs.
//
// Proof that the shares add up to at most 1. Of those that have a share when the store is lost, let z be the one with the smallest n, and
// q another. If z had not counted q, q was registered after the last heartbeat of z, which was at most maturity(z.n) before z noticed the
// loss. But the store had known q for maturity(q.n), which therefore is shorter, so q.n < z.n: a contradiction. So z has counted all of
// them, they are at most z.n, and the share of each is at most 1/z.n. The same holds for permits, by rank.
type standing struct {
	n, rank int           // how many processes there are, and how many of them came before this one
	came    store.Instant // since then the store has known this one, without a break or a loss
	at      store.Instant // when it answered the last heartbeat
	until   store.Instant // until when that one counts, or one whose answer was lost
	sent    time.Time     // when it was sent; zero if none was answered
	began   store.Instant // the epoch of the store's data then

	// A store that has forgotten knows nobody. Until all that were there are there again, those that had a share know better.
	kept struct {
		n, rank int
		until   store.Instant
	}
}

// maturity is for how long the store has known a process that has a share, at its last heartbeat, and how long ago that was at most. It is
// more than the longest time between two heartbeats in a fleet of n, and grows with n.
func maturity(n int) time.Duration { return ScheduleOf(n).Heartbeat*5/4 + 500*time.Millisecond }

// lost takes note that the process has lost the store. Time before that does not count for one that has not been there for long enough: those
// that have a share may have lost the store before they could count it.
func (s *standing) lost() {
	if !s.isMature() {
		s.sent = time.Time{}
	}
}

// answered takes note of the answer to a heartbeat that counts for ttl.
func (s *standing) answered(sent time.Time, p *store.Membership, ttl time.Duration) {
	switch {
	case p.Now > s.until || s.sent.IsZero():
		s.came, s.kept.until = p.Now, 0
	case p.Epoch.Began != s.began:
		if s.hasShare(sent) { // otherwise others that came since may not have counted it
			s.kept.n, s.kept.rank, s.kept.until = s.n, s.rank, p.Now.Add(ScheduleOf(s.n).TTL)
		}
		s.came = p.Now
	}
	s.n = min(max(1, p.Alive), MaxProcesses)
	s.rank = min(max(0, p.Rank), s.n-1)
	if p.Now < s.kept.until {
		s.n, s.rank = max(s.n, s.kept.n), max(s.rank, s.kept.rank)
	}
	s.at, s.until, s.sent, s.began = p.Now, p.Now.Add(ttl), sent, p.Epoch.Began
}

// isMature reports whether the store had known this process for long enough at the last heartbeat.
func (s *standing) isMature() bool {
	return !s.sent.IsZero() && (s.at < s.kept.until || s.at.Sub(s.came) >= maturity(s.n))
}

// hasShare reports whether a process that notices now that it has lost the store has a share.
func (s *standing) hasShare(now time.Time) bool {
	return s.isMature() && now.Sub(s.sent) <= maturity(s.n)
}

// firstPause returns the least time from the first heartbeat of a process to its second: before that expires, but not all at once.
func (s *standing) firstPause() time.Duration {
	return max(firstHeartbeat, min(ScheduleOf(s.n).Heartbeat/16, heartbeatTTL/3))
}

// untilMature returns how soon to send the next heartbeat for a share of each limit.
func (s *standing) untilMature() time.Duration {
	if s.isMature() {
		return maturity(s.n)
	}
	return max(s.firstPause(), maturity(s.n)-s.at.Sub(s.came))
}

// A fleet is what heartbeats return: the store's time, and this process's standing.
type fleet struct {
	mu   sync.Mutex
	last standing
	seen store.Instant // the latest time that the store returned
	at   time.Time     // when
}

// Now implements [store.Member]: the last store time that was returned, and what has passed since.
func (f *fleet) Now() store.Instant {
	seen, at := f.lastSeen()
	if at.IsZero() {
		return store.Instant(time.Now().UnixMicro())
	}
	return seen.Add(time.Since(at))
}

// observe notes what the store's time is, and reports whether its clock has stepped forward by more than a second.
func (f *fleet) observe(now store.Instant) (stepped bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now > f.seen {
		stepped = f.seen > 0 && now.Sub(f.seen)-time.Since(f.at) > time.Second
		f.seen, f.at = now, time.Now()
	}
	return stepped
}

// lastSeen returns the latest time that the store returned, and when it did.
func (f *fleet) lastSeen() (store.Instant, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen, f.at
}

func (f *fleet) standing() standing { return f.change(func(*standing) {}) }

func (f *fleet) change(change func(*standing)) standing {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.last)
	return f.last
}

// schedule returns how often this process sends requests.
func (f *fleet) schedule() Schedule { return ScheduleOf(f.standing().n) }

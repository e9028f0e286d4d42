package failover

import (
	"time"
)

// A Schedule is how often a process sends requests besides those of its calls. The more processes there are, the less often: a whole
// fleet sends some fifty heartbeats, as many pings, and a hundred descriptions a second at most, whatever its size, up to five
// thousand.
type Schedule struct {
	Heartbeat time.Duration // between two, more or less
	TTL       time.Duration // for how long a heartbeat counts
	Describe  time.Duration // between two descriptions, at most
	Check     time.Duration // without an answer of the store, while calls wait, at least
	Spread    time.Duration // within which all check, when all of them have a reason to
}

// ScheduleOf returns the schedule for a fleet of n processes.
func ScheduleOf(n int) Schedule {
	all := time.Duration(n) * time.Second
	heartbeat := max(heartbeatEvery, all/40)
	return Schedule{
		Heartbeat: heartbeat,
		TTL:       max(heartbeatTTL, heartbeat*10/3),
		Describe:  min(max(heartbeatEvery, all/80), longestDescribe),
		Check:     max(checkEvery, all/20),
		Spread:    all / 10_000,
	}
}

// longestDescribe is how often the processes of the largest fleets report what they spent: before a tally forgets it.
const longestDescribe = time.Minute

func (w *Store) schedule() Schedule {
	w.mu.Lock()
	defer w.mu.Unlock()
	return ScheduleOf(w.standing.n)
}

// Check implements [store.Member]. When all processes do so at once, they spread over a little while.
func (w *Store) Check() {
	select {
	case w.checks <- struct{}{}:
	default:
	}
}

// probePause returns how long after a failed attempt to return a process makes the next one: a sixteenth of the time for which the store
// has been lost, so that a short outage ends promptly and a long one costs little.
func (w *Store) probePause() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lostSince.IsZero() {
		return probeEvery
	}
	return min(max(time.Since(w.lostSince)/16, probeEvery), longestProbe)
}

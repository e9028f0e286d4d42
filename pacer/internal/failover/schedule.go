package failover

import (
	"math/rand/v2"
	"time"

	"github.com/headway-go/headway/pacer/internal/charges"
)

// A Schedule is how often a process sends requests besides those of its calls. A whole fleet sends some fifty heartbeats, as many pings, and
// a hundred descriptions a second at most, up to five thousand processes.
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

// Intervals.
const (
	// checkEvery is how often a process checks whether it has something to report, and its least silence while calls wait.
	checkEvery = 125 * time.Millisecond
	// heartbeatEvery is how often a process of a small fleet sends a heartbeat, at first sooner, and heartbeatTTL for how long one counts.
	firstHeartbeat = heartbeatEvery / 16
	heartbeatEvery = charges.HeartbeatEvery
	heartbeatTTL   = 10 * time.Second
	// probeEvery is how long after a failure a store is tried again, later more rarely, but at least every longestProbe.
	probeEvery   = 100 * time.Millisecond
	longestProbe = time.Second
)

// roughly returns d, up to an eighth shorter or longer: processes that started together drift apart. sooner makes it up to a quarter shorter.
func roughly(d time.Duration) time.Duration {
	return (d - d/8).Truncate(time.Millisecond) + within(d/4)
}

func sooner(d time.Duration) time.Duration { return d.Truncate(time.Millisecond) - within(d/4) }

// within returns a duration at random from 0 to most, in whole milliseconds.
func within(most time.Duration) time.Duration { return rand.N(most + 1).Truncate(time.Millisecond) }

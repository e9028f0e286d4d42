package faulttest_test

import (
	"sync"
	"time"
)

// watchers is how many timers are measured.
const watchers = 2

// lateness knows by how much this machine's timers were late, and when.
type lateness struct {
	mu   sync.Mutex
	naps []nap
}

type nap struct {
	woke time.Time
	late time.Duration
}

// watch sleeps, and notes when it wakes too late, until stop is closed.
func (l *lateness) watch(stop <-chan struct{}) {
	const sleep = 2 * time.Millisecond
	timer := time.NewTimer(sleep)
	defer timer.Stop()
	for {
		asleep := time.Now()
		select {
		case <-stop:
			return
		case <-timer.C:
		}
		if late := time.Since(asleep) - sleep; late > skew/5 {
			l.mu.Lock()
			l.naps = append(l.naps, nap{time.Now(), late})
			l.mu.Unlock()
		}
		timer.Reset(sleep)
	}
}

// during returns the most that a timer was late in a time.
func (l *lateness) during(from, to time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := time.Duration(0)
	for _, n := range l.naps {
		if n.woke.After(from) && n.woke.Add(-n.late).Before(to) {
			most = max(most, n.late)
		}
	}
	return most
}

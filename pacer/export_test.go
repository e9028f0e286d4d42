package pacer

import (
	"time"

	"github.com/headway-go/headway/pacer/internal/failover"
)

// Recalled returns how many keys a Pacer remembers of its store, and the most intervals and buckets of one of them.
func Recalled(p *Pacer) (keys, spans, buckets int) { return p.member.(*failover.Store).Remembered() }

// Absences returns how often a Pacer was without its store.
func Absences(p *Pacer) int { return p.member.(*failover.Store).Absences() }

// Pulses returns how often a process of a fleet of n speaks to the store: see pulses.
func Pulses(n int) (beat, lives, describe, look time.Duration) {
	p := failover.ScheduleOf(n)
	return p.Heartbeat, p.TTL, p.Describe, p.Check
}

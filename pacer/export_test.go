package pacer

import (
	"time"

	"github.com/headway-go/headway/pacer/internal/failover"
)

// Remembered returns how many keys a Pacer remembers of its store, and the most intervals and buckets of one of them.
func Remembered(p *Pacer) (keys, spans, buckets int) { return p.member.(*failover.Store).Remembered() }

// Absences returns how often a Pacer was without its store.
func Absences(p *Pacer) int { return p.member.(*failover.Store).Absences() }

// Schedule returns how often a process of a fleet of n sends requests to the store.
func Schedule(n int) (heartbeat, ttl, describe, check time.Duration) {
	p := failover.ScheduleOf(n)
	return p.Heartbeat, p.TTL, p.Describe, p.Check
}

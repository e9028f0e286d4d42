package pacer

import (
	"time"

	"github.com/headway-go/headway/pacer/internal/failover"
)

// Returned has a Pacer report that its store is back, for which it could not keep so many debts.
func Returned(p *Pacer, dropped int) { (events{p}).FailedOver(failover.Change{Dropped: dropped}) }

// Absences returns how often a Pacer was without its store.
func Absences(p *Pacer) int { return p.member.(*failover.Store).Losses() }

// Schedule returns how often a process of a fleet of n sends requests to the store.
func Schedule(n int) (heartbeat, ttl, describe, check time.Duration) {
	p := failover.ScheduleOf(n)
	return p.Heartbeat, p.TTL, p.Describe, p.Check
}

package engine_test

import (
	"testing"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/policies/specs"
)

// benchmarked are stacks of limits that make nobody wait.
var benchmarked = []struct {
	name  string
	specs []specs.Spec
}{
	{"rate", []specs.Spec{rate(1000, 10)}},
	{"rates", []specs.Spec{rate(1000, 10), rate(1000, 10), rate(1000, 10)}},
	{"exact", []specs.Spec{{Algorithm: specs.GCRA, Limit: 5, Interval: 10, Most: 10, Within: 100}}},
	{"fixed", []specs.Spec{fixed(1<<40, 1_000_000, 0)}},
	{"sliding", []specs.Spec{sliding(1<<40, 100_000, 10)}},
	{"mixed", []specs.Spec{rate(1000, 10), sliding(1<<40, 100_000, 10), fixed(1<<40, 1_000_000, 0)}},
}

// BenchmarkReserve measures a call that need not wait.
func BenchmarkReserve(b *testing.B) {
	for _, stack := range benchmarked {
		b.Run(stack.name, func(b *testing.B) {
			b.ReportAllocs()
			r := newRig(b, stack.specs...)
			var room [4]engine.Charge
			now := epoch
			for b.Loop() {
				now += 10
				if g, _ := engine.Reserve(now, r.stack, engine.Call{Cost: 1}, room[:0]); !g.OK || g.At != now {
					b.Fatal(g)
				}
			}
		})
	}
}

// BenchmarkReserveAhead measures a call that goes in front of slots that are reserved, and is cancelled.
func BenchmarkReserveAhead(b *testing.B) {
	for _, stack := range benchmarked {
		b.Run(stack.name, func(b *testing.B) {
			b.ReportAllocs()
			r := newRig(b, stack.specs...)
			for i := range int64(200) {
				r.book(0, 1000*ms+i*ms, 1)
			}
			var room [4]engine.Charge
			for b.Loop() {
				g, charges := engine.Reserve(epoch, r.stack, engine.Call{Cost: 1, NotBefore: 1100*ms + 500, MaxWait: always}, room[:0])
				if !g.OK {
					b.Fatal(g)
				}
				for i := range charges {
					r.stack[i].Account.Cancel(&r.stack[i].Limit, epoch, charges[i])
				}
			}
		})
	}
}

// BenchmarkReserveQueued measures a call with a permit and a fair share, that need not wait.
func BenchmarkReserveQueued(b *testing.B) {
	b.ReportAllocs()
	fair := rate(1000, 10)
	fair.Queue = specs.FairQueue
	r := newRig(b, fair, inFlight(10, 1000*ms))
	var room [4]engine.Charge
	now := epoch
	for b.Loop() {
		now += 10
		g, _, _ := engine.ReserveQueued(now, r.stack, engine.Call{Cost: 1, ID: now, Flow: 1, Weight: 1, MaxWait: always}, room[:0])
		if !g.OK {
			b.Fatal(g)
		}
		r.stack[1].Account.Release(&r.stack[1].Limit, engine.Left{ID: now})
	}
}

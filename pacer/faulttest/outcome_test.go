package faulttest_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// operations counts what the processes did.
type operationCounts struct{ wait, reserve, allow, cancel, settle, report, status atomic.Int64 }

func (c *operationCounts) all() int64 {
	return c.wait.Load() + c.reserve.Load() + c.allow.Load() + c.cancel.Load() + c.settle.Load() + c.report.Load() + c.status.Load()
}

func (c *operationCounts) add(other *operationCounts) {
	c.wait.Add(other.wait.Load())
	c.reserve.Add(other.reserve.Load())
	c.allow.Add(other.allow.Load())
	c.cancel.Add(other.cancel.Load())
	c.settle.Add(other.settle.Load())
	c.report.Add(other.report.Load())
	c.status.Add(other.status.Load())
}

// An outcome is what became of a run, or of several.
type outcome struct {
	findings

	about   []string // the policies and the faults
	ops     operationCounts
	runs    int
	went    int
	faults  map[string]int
	latest  time.Duration // the most that a call went later than the store, or the process itself, had promised
	goodput float64       // of the last phase, as a part of the tightest rate; of several runs, the lowest
	sum     float64       // of the goodputs
	charged float64       // what was charged, as a part of what went; the largest, and of runs without a loss the smallest
	least   float64
	pauses  int // pauses far from faults
	stalls  int // times when this machine, or a store on it, was too slow
}

func (o *outcome) add(other *outcome) {
	if o.runs == 0 {
		o.goodput = other.goodput
	}
	o.findings.add(other.findings)
	o.ops.add(&other.ops)
	o.runs += other.runs
	o.went += other.went
	o.latest = max(o.latest, other.latest)
	o.goodput, o.sum = min(o.goodput, other.goodput), o.sum+other.sum
	o.charged, o.pauses, o.stalls = max(o.charged, other.charged), o.pauses+other.pauses, o.stalls+other.stalls
	if other.least > 0 && (o.least == 0 || other.least < o.least) {
		o.least = other.least
	}
	if o.faults == nil {
		o.faults = make(map[string]int)
	}
	for name, n := range other.faults {
		o.faults[name] += n
	}
}

func (o *outcome) String() string {
	var faults []string
	for name, n := range o.faults {
		faults = append(faults, fmt.Sprintf("%d × %s (%.0f %%)", n, name, 100*o.overshoot[name]))
	}
	slices.Sort(faults)
	charged := fmt.Sprintf("charged at most %.3f of what went", o.charged)
	if o.least > 0 {
		charged += fmt.Sprintf(", at least %.3f where no data were lost", o.least)
	}
	return fmt.Sprintf("%d runs, %d operations (%d Wait, %d Reserve, %d Allow, %d Cancel, %d Settle, %d Report, %d Status), %d calls went; faults, with the largest overshoot near each: %s; %d violations; "+
		"%d windows, %d of them far from faults; largest overshoot %.1f %% (%s); "+
		"latest call %v beyond its slot; goodput after the faults, if measured, at least %.1f %%, %.1f %% on average; %s; %d pauses checked; %d stalls of this machine",
		o.runs, o.ops.all(), o.ops.wait.Load(), o.ops.reserve.Load(), o.ops.allow.Load(), o.ops.cancel.Load(), o.ops.settle.Load(), o.ops.report.Load(), o.ops.status.Load(), o.went,
		strings.Join(faults, ", "), len(o.broken), o.judged, o.exactly, 100*o.worst, o.worstAt,
		o.latest.Round(time.Millisecond), 100*o.goodput, 100*o.sum/float64(max(1, o.runs)), charged, o.pauses, o.stalls)
}

package policies

import (
	"fmt"
	"time"

	"github.com/headway-go/headway/policies/specs"
)

// Defaults of an [Adaptation].
const (
	// defaultFloor is the smallest part of its rate, in per cent, to which an adaptive policy slows down.
	defaultFloor = 5
	// defaultDecrease is the part of its rate that a refusal leaves, in per cent.
	defaultDecrease = 50
	// defaultHold is how long an adaptive policy keeps a rate after a refusal before it speeds up.
	defaultHold = 5 * time.Second
	// defaultRecovery is how long a rate takes to grow from nothing to the whole limit: a third of the limit a second.
	defaultRecovery = 3 * time.Second
)

// Bounds of an [Adaptation]. They keep what a store computes below 2^53.
const maxAdaptation = time.Hour

// An Adaptation defines how a policy adapts to an upstream whose limit changes without notice: by additive increase and multiplicative
// decrease, shared by the whole fleet.
//
// A single refusal may be stray, and does not change the rate: see [Policy.Margin]. A second one within the period multiplies the rate by
// Decrease. Refusals of calls that already had their slots count as part of it. After Hold the rate grows again, evenly over time. A
// refusal meanwhile shows how much the upstream admits: the rate returns at once to what was admitted in the last period, but not below the
// rate before it grew, and other calls are not paused. The rate never exceeds the policy's limit and never falls below Floor. Zero fields
// mean their defaults.
//
// This is TCP's additive increase and multiplicative decrease, with two properties of TCP CUBIC and of the adaptive mode of the AWS SDKs:
// it remembers the admitted rate, and the time until it tries a faster one does not depend on how far the rate fell.
type Adaptation struct {
	// Floor is the smallest part of the rate, in per cent, from 1 to 99. Defaults to 5.
	Floor int
	// Decrease is the part of the rate that a refusal leaves, in per cent, from 1 to 99. Defaults to 50.
	Decrease int
	// Hold is how long after a refusal the rate starts to grow, at most an hour. Defaults to 5 s.
	Hold time.Duration
	// Recovery is how long a rate would take to grow from nothing to the whole limit, at most an hour. Defaults to 3 s.
	Recovery time.Duration

	_ struct{}
}

// Adaptive returns a copy of a rate that slows down when the upstream refuses calls, and recovers over time: see [Adaptation]. Only rates
// can be adaptive ([Rate], [AtMost] and similar constructors), with an emission interval of at most an hour.
func (p Policy) Adaptive(a Adaptation) Policy {
	p.adaptation = &a
	if !p.isRate() {
		return p.mistake("Adaptive", p.Name(), "only rates adapt: stack an adaptive AtMost with the window")
	}
	return p
}

func (a *Adaptation) check(interval int64) *Error {
	percent := func(field string, n int) *Error {
		if n < 0 || n > 99 {
			return &Error{Field: "Adaptation." + field, Value: fmt.Sprintf("%d %%", n), Reason: "must be from 1 to 99 per cent; 0 means the default"}
		}
		return nil
	}
	long := func(field string, d time.Duration) *Error {
		if d < 0 || d > maxAdaptation {
			return &Error{Field: "Adaptation." + field, Value: d.String(), Reason: fmt.Sprintf("must be from 0, which means the default, to %s", maxAdaptation)}
		}
		return nil
	}
	for _, err := range []*Error{
		percent("Floor", a.Floor), percent("Decrease", a.Decrease), long("Hold", a.Hold), long("Recovery", a.Recovery),
	} {
		if err != nil {
			return err
		}
	}
	if interval > maxAdaptation.Microseconds() {
		return &Error{Field: "Adaptive", Value: time.Duration(interval * 1000).String(), Reason: fmt.Sprintf("between two calls is too slow to adapt: at most %s", maxAdaptation)}
	}
	return nil
}

// spec converts it to the store's units; nil stays nil.
func (a *Adaptation) spec() *specs.Adapt {
	if a == nil {
		return nil
	}
	const perCent = 10_000 // millionths
	or := func(d, other time.Duration) int64 {
		if d == 0 {
			d = other
		}
		return max(1, d.Microseconds())
	}
	floor, decrease := a.Floor, a.Decrease
	if floor == 0 {
		floor = defaultFloor
	}
	if decrease == 0 {
		decrease = defaultDecrease
	}
	return &specs.Adapt{
		Floor: int64(floor) * perCent, Decrease: int64(decrease) * perCent,
		Hold: or(a.Hold, defaultHold), Recovery: or(a.Recovery, defaultRecovery),
	}
}

package batch

import (
	"slices"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

const (
	// MaxCalls bounds the calls of a request, so that no script runs for long.
	MaxCalls = 256
	// MaxSending bounds the concurrent requests of refunds: a process of thousands of calls must give them back to a distant store quickly.
	MaxSending = 4
	// maxRefunds bounds the charges that one request gives back, which takes a little longer than charging them.
	maxRefunds = 128
	// maxChanges bounds the changes of settings of a request.
	maxChanges = 256
)

type (
	// A Refund is grants of one stack to give back, few enough for one request.
	Refund = Waited[store.Batch, struct{}]
	// A Redemption is a change of one record of a booking.
	Redemption = Waited[store.Booking, store.Redemption]
	// A Change is what one caller sets. Callers share its answer: nobody changes it.
	Change = Waited[Set, *store.Settings]
)

// A Set is settings of an upstream.
type Set struct {
	Upstream string
	Settings []store.Setting
}

// Refunds returns grants of a stack in pieces. They are copies, for their owner may be gone when they are sent.
func Refunds(stack *store.Stack, grants []store.Grant) (pieces []store.Batch) {
	copied, all := stack.Clone(), slices.Clone(grants)
	for i := range all {
		all[i].Charges = slices.Clone(all[i].Charges)
	}
	for some := range slices.Chunk(all, max(1, min(MaxCalls, maxRefunds/max(1, len(stack.Limits))))) {
		pieces = append(pieces, store.Batch{Stack: copied, Grants: some})
	}
	return pieces
}

// FitRefunds returns how many refunds fit in a request.
func FitRefunds(all []*Refund) (n int) {
	calls, charges := 0, 0
	for ; n < len(all); n++ {
		b := &all[n].Value
		more := len(b.Grants) * len(b.Stack.Limits)
		if n == 0 || !b.Stack.Alike(&all[n-1].Value.Stack) {
			more += len(b.Stack.Limits)
		}
		if n > 0 && (calls+len(b.Grants) > MaxCalls || charges+more > maxRefunds) {
			break
		}
		calls, charges = calls+len(b.Grants), charges+more
	}
	return n
}

// FitRedemptions returns how many changes fit in a request: a record, a refund to a limit, and reading a limit take the store about as
// long. Limits of the same key are equal, so each charge is given back as it was made.
func FitRedemptions(all []*Redemption) (n int) {
	specs, work := make(map[store.Key]*specs.Spec), 0
	for ; n < len(all); n++ {
		b := &all[n].Value
		work += 1 + len(b.Refund)
		for i := range b.Limits {
			l := &b.Limits[i]
			switch spec := specs[l.Key()]; {
			case spec == nil:
				work++
			case !spec.Equal(l.Spec):
				return n
			}
			specs[l.Key()] = &l.Spec
		}
		if n > 0 && work > store.MaxBookings {
			break
		}
	}
	return n
}

// FitChanges returns how many changes fit in a request, which is for one upstream.
func FitChanges(all []*Change) (n int) {
	for n < min(len(all), maxChanges) && all[n].Value.Upstream == all[0].Value.Upstream {
		n++
	}
	return n
}

// Merged merges changes: of several for the same key, the last counts.
func Merged(all []*Change) (merged []store.Setting) {
	known := make(map[store.Key]bool)
	for _, c := range slices.Backward(all) {
		for _, s := range slices.Backward(c.Value.Settings) {
			if k := (store.Key{Policy: s.Policy, Scope: s.Scope}); !known[k] {
				known[k] = true
				merged = append(merged, s)
			}
		}
	}
	slices.Reverse(merged)
	return merged
}

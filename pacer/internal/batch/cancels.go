package batch

import (
	"context"
	"hash/maphash"
	"slices"

	"github.com/headway-go/headway/pacer/store"
)

// MaxCalls bounds the calls of a request, so that no script runs for long.
const MaxCalls = 256

// maxRefunds bounds the charges that one request gives back, which takes a little longer than charging them.
const maxRefunds = 128

// maxSending bounds the concurrent requests of refunds: a process of thousands of calls must give them back to a distant store quickly.
const maxSending = 4

// PerRequest returns how many calls of a stack fit in a request that moves them, or gives them back.
func PerRequest(s *store.Stack) int { return max(1, min(MaxCalls, maxRefunds/max(1, len(s.Limits)))) }

// Cancels batches grants to give back.
type Cancels struct {
	requests[*Refund]

	seed maphash.Seed
}

// A Refund is grants of one stack to give back, few enough for one request.
type Refund struct {
	Ctx    context.Context //nolint:containedctx // for its values
	Stack  store.Stack
	Grants []store.Grant

	answer chan error
}

// NewCancels returns Cancels that give refunds back by send, which returns the error of each.
func NewCancels(send func([]*Refund) []error) *Cancels {
	c := &Cancels{seed: maphash.MakeSeed()}
	c.init(maxSending, enough, func(all []*Refund) {
		for i, err := range send(all) {
			all[i].answer <- err
		}
	})
	return c
}

// Refunds returns grants of a stack in pieces. They are copies, for their owner may be gone when they are sent.
func Refunds(ctx context.Context, stack *store.Stack, grants []store.Grant) []*Refund {
	copied, all := stack.Clone(), slices.Clone(grants)
	for i := range all {
		all[i].Charges = slices.Clone(all[i].Charges)
	}
	var pieces []*Refund
	for n := PerRequest(stack); len(all) > 0; all = all[min(n, len(all)):] {
		pieces = append(pieces, &Refund{ctx, copied, all[:min(n, len(all))], make(chan error, 1)})
	}
	return pieces
}

// Add sends refunds, and does not wait for that.
func (c *Cancels) Add(all []*Refund) { c.add(all) }

// GiveBack gives refunds back, and waits for that. It returns the first error.
func (c *Cancels) GiveBack(all []*Refund) (err error) {
	c.Add(all)
	for _, r := range all {
		if failed := <-r.answer; err == nil {
			err = failed
		}
	}
	return err
}

// Each calls f with as many of the refunds as fit in a request, until all are done.
func Each(all []*Refund, f func([]*Refund)) {
	for n := enough(all); n > 0; n = enough(all) {
		f(all[:n:n])
		all = all[n:]
	}
}

// enough returns how many refunds fit in a request.
func enough(all []*Refund) (n int) {
	calls, charges := 0, 0
	for ; n < len(all); n++ {
		r := all[n]
		more := len(r.Grants) * len(r.Stack.Limits)
		if n == 0 || !r.Stack.Alike(&all[n-1].Stack) {
			more += len(r.Stack.Limits)
		}
		if n > 0 && (calls+len(r.Grants) > MaxCalls || charges+more > maxRefunds) {
			break
		}
		calls, charges = calls+len(r.Grants), charges+more
	}
	return n
}

// Batches groups the grants of refunds by stack, and returns the index of each refund's batch.
func (c *Cancels) Batches(all []*Refund) (batches []store.Batch, places []int) {
	seen := make(map[uint64]int)
	for _, r := range all {
		hash := r.Stack.Hash(c.seed)
		i, found := seen[hash]
		if !found || !batches[i].Stack.Alike(&r.Stack) {
			i = len(batches)
			seen[hash], batches = i, append(batches, store.Batch{Stack: r.Stack})
		}
		batches[i].Grants = append(batches[i].Grants, r.Grants...)
		places = append(places, i)
	}
	return batches, places
}

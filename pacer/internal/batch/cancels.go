package batch

import (
	"context"
	"hash/maphash"
	"slices"

	"github.com/headway-go/headway/pacer/store"
)

// MaxCalls bounds the calls of one request, so that no run of the store's program takes long.
const MaxCalls = 256

// maxRefunds is how many charges are enough for one request that gives them back: that takes a little more than to charge them.
const maxRefunds = 128

// maxSending is how many requests of refunds are on their way at the same time, if there are more refunds than are enough for one: a process
// of thousands of calls must not take long to give them back to a store far away.
const maxSending = 4

// PerRequest returns how many calls of a stack that move, or are given back, are enough for one request.
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

// NewCancels returns one that has refunds given back by send, which returns the error of each.
func NewCancels(send func([]*Refund) []error) *Cancels {
	c := &Cancels{seed: maphash.MakeSeed()}
	c.init(maxSending, enough, func(all []*Refund) {
		for i, err := range send(all) {
			all[i].answer <- err
		}
	})
	return c
}

// Refunds returns grants of a stack in pieces. They are copies, for they may be sent when their owner has gone.
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

// Add has refunds sent, and does not wait for that.
func (c *Cancels) Add(all []*Refund) { c.add(all) }

// GiveBack gives refunds back, and returns when that is done. It returns the first error.
func (c *Cancels) GiveBack(all []*Refund) (err error) {
	c.Add(all)
	for _, r := range all {
		if failed := <-r.answer; err == nil {
			err = failed
		}
	}
	return err
}

// Each calls f with some refunds after the other, each time as many as are enough for a request.
func Each(all []*Refund, f func([]*Refund)) {
	for n := enough(all); n > 0; n = enough(all) {
		f(all[:n:n])
		all = all[n:]
	}
}

// enough returns how many of some refunds are enough for a request.
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

// Batches returns the grants of refunds by their stacks, and for each refund the index of its batch.
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

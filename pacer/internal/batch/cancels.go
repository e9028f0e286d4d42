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

// Cancels batches grants to give back.
type Cancels struct {
	*Requests[*Refund]

	seed maphash.Seed
}

// A Refund is grants of one stack to give back, few enough for one request.
type Refund struct {
	owned

	Stack  store.Stack
	Grants []store.Grant
}

// NewCancels returns Cancels that give refunds back by send, which sets the error of each.
func NewCancels(send func([]*Refund)) *Cancels {
	return &Cancels{newWaited(maxSending, enough, send), maphash.MakeSeed()}
}

// Refunds returns grants of a stack in pieces. They are copies, for their owner may be gone when they are sent.
func Refunds(ctx context.Context, stack *store.Stack, grants []store.Grant) (pieces []*Refund) {
	copied, all := stack.Clone(), slices.Clone(grants)
	for i := range all {
		all[i].Charges = slices.Clone(all[i].Charges)
	}
	for some := range slices.Chunk(all, max(1, min(MaxCalls, maxRefunds/max(1, len(stack.Limits))))) {
		pieces = append(pieces, &Refund{owned: ownedBy(ctx), Stack: copied, Grants: some})
	}
	return pieces
}

// GiveBack gives refunds back, and waits for that. It returns the first error.
func (c *Cancels) GiveBack(all []*Refund) error { return do(c.Requests, all) }

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

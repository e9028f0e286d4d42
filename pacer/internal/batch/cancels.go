package batch

import (
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
type Cancels = Answered[store.Batch, struct{}]

// A Refund is grants of one stack to give back, few enough for one request.
type Refund = Waited[store.Batch, struct{}]

// NewCancels returns Cancels that give refunds back by send, which sets the error of each.
func NewCancels(send func([]*Refund)) Cancels { return NewAnswered(maxSending, enough, send) }

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

// enough returns how many refunds fit in a request.
func enough(all []*Refund) (n int) {
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

// Batches groups the grants of refunds by stack, and returns the index of each refund's batch.
func Batches(all []*Refund) (batches []store.Batch, places []int) {
	seed, seen := maphash.MakeSeed(), make(map[uint64]int)
	for _, r := range all {
		b := &r.Value
		hash := b.Stack.Hash(seed)
		i, found := seen[hash]
		if !found || !batches[i].Stack.Alike(&b.Stack) {
			i = len(batches)
			seen[hash], batches = i, append(batches, store.Batch{Stack: b.Stack})
		}
		batches[i].Grants = append(batches[i].Grants, b.Grants...)
		places = append(places, i)
	}
	return batches, places
}

package observe

import (
	"container/heap"
	"context"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// estimate estimates the store's clock. The caller holds mu.
func (o *Observer) estimate() store.Instant {
	if o.nowAt.IsZero() {
		return 0
	}
	return o.now.Add(time.Since(o.nowAt))
}

// advance removes slots that have come from the virtual queue. The caller holds mu.
func (o *Observer) advance(ctx context.Context, now store.Instant) {
	if now > o.estimate() || o.nowAt.IsZero() {
		o.now, o.nowAt = now, time.Now()
	}
	for len(o.virtual) > 0 && o.virtual[0].grant.At <= now {
		one := heap.Pop(&o.virtual).(*Observation) //nolint:forcetypeassert // it holds no other
		if one.state == isVirtual {
			one.state = isPast
			o.settleIfKnown(ctx, one)
		}
	}
}

// A virtualQueue is the future slots, by time.
type virtualQueue []*Observation

// Len implements [heap.Interface].
func (q *virtualQueue) Len() int { return len(*q) }

// Less implements [heap.Interface].
func (q *virtualQueue) Less(i, j int) bool { return (*q)[i].grant.At < (*q)[j].grant.At }

// Swap implements [heap.Interface].
func (q *virtualQueue) Swap(i, j int) { (*q)[i], (*q)[j] = (*q)[j], (*q)[i] }

// Push implements [heap.Interface].
func (q *virtualQueue) Push(one any) { *q = append(*q, one.(*Observation)) } //nolint:forcetypeassert // it holds no other

// Pop implements [heap.Interface].
func (q *virtualQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}

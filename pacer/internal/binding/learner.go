package binding

import (
	"math"
	"math/bits"
	"sync"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

const (
	// Enough is how many costs a key needs for an estimate.
	Enough = 20
	// MaxKeys is the most keys that a Learner knows.
	MaxKeys = 1024
	// percentile is the estimate: see the package's comment.
	percentile = 25
	// fullHistory is the number of costs at which a history halves its counts.
	fullHistory = 1024
)

// A Learner knows the recent costs of calls, by key. Its zero value is empty. It is safe for concurrent use.
type Learner struct {
	mu   sync.Mutex
	keys map[store.Key]*history
}

// A Lesson is a cost to learn from, once it is known.
type Lesson struct {
	Key store.Key
	How policies.Learned
}

// Estimate returns the charge for a call that costs about n by its request.
func (l *Learner) Estimate(key store.Key, n int64, how policies.Learned) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.keys[key]
	if h == nil || h.total < Enough {
		return n
	}
	estimate := sum(how.Known, product(h.quantile(), how.Times))
	if how.Most > 0 {
		estimate = min(estimate, how.Most)
	}
	return max(1, estimate)
}

// Learn records the real cost of a call. A cost of 0 teaches nothing: that call was refused, or failed.
func (l *Learner) Learn(key store.Key, actual int64, how policies.Learned) {
	if actual <= 0 || how.Times <= 0 {
		return
	}
	rest := max(0, actual-max(0, how.Known))
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.keys[key]
	if h == nil {
		if l.keys == nil {
			l.keys = make(map[store.Key]*history)
		}
		if len(l.keys) >= MaxKeys {
			for other := range l.keys { // any: one that is in use is learned again
				delete(l.keys, other)
				break
			}
		}
		h = new(history)
		l.keys[key] = h
	}
	h.add(rest/how.Times + min(1, rest%how.Times))
}

// sum and product are at most the highest cost.
func sum(a, b int64) int64 { return min(max(0, a), specs.MaxLimit) + min(b, specs.MaxLimit) }

func product(a, b int64) int64 {
	if a > specs.MaxLimit/b {
		return specs.MaxLimit
	}
	return a * b
}

const (
	// perOctave is the number of buckets between a number and its double. Each is an eighth to a sixteenth of its numbers wide.
	perOctave = 8
	// buckets hold every positive int64.
	buckets = (63 - 3 + 1) * perOctave
)

// history counts recent numbers by bucket.
type history struct {
	counts [buckets]uint16
	total  int
}

// add counts a number.
func (h *history) add(n int64) {
	h.counts[bucketOf(n)]++
	if h.total++; h.total < fullHistory {
		return
	}
	h.total = 0
	for i := range h.counts {
		h.counts[i] /= 2
		h.total += int(h.counts[i])
	}
}

// quantile returns the largest number of the percentile's bucket.
func (h *history) quantile() int64 {
	need := (h.total*percentile + 99) / 100
	for i, c := range h.counts {
		if need -= int(c); need <= 0 {
			return largestOf(i)
		}
	}
	return math.MaxInt64 // not reached
}

// bucketOf returns the bucket of a number of at least 0: one for each number up to 15, then eight for each octave.
func bucketOf(n int64) int {
	shift := max(0, bits.Len64(uint64(n))-4) //nolint:gosec // it is not negative
	return shift*perOctave + int(n>>shift)
}

// largestOf returns the largest number of a bucket.
func largestOf(bucket int) int64 {
	if bucket < 2*perOctave {
		return int64(bucket)
	}
	shift := bucket/perOctave - 1
	return int64(bucket%perOctave+perOctave+1)<<shift - 1
}

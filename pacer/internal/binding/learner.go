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
	// Enough is how many costs of a key have to be known before it has an estimate.
	Enough = 20
	// MaxKeys is how many keys a Learner knows at most.
	MaxKeys = 1024
	// percentile is the one that is estimated: see the package's comment.
	percentile = 25
	// fullHistory is at how many costs a history halves what it knows of each.
	fullHistory = 1024
)

// A Learner knows what calls cost lately, by key. Its zero value knows nothing. It is safe for concurrent use.
type Learner struct {
	mu   sync.Mutex
	keys map[store.Key]*history
}

// A Lesson is a cost that is learned from when it is known.
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

// Learn notes what a call has really cost. A call that cost nothing was refused or failed, and teaches nothing about the others.
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

// sum and product are at most the highest cost that there is.
func sum(a, b int64) int64 { return min(max(0, a), specs.MaxLimit) + min(b, specs.MaxLimit) }

func product(a, b int64) int64 {
	if a > specs.MaxLimit/b {
		return specs.MaxLimit
	}
	return a * b
}

const (
	// perOctave is how many buckets there are between a number and its double: each is an eighth to a sixteenth of its numbers wide.
	perOctave = 8
	// buckets hold every positive int64.
	buckets = (63 - 3 + 1) * perOctave
)

// history is how often the numbers of each bucket came lately.
type history struct {
	counts [buckets]uint16
	total  int
}

// add notes a number.
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

// quantile returns the largest number of the bucket that the percentile is in.
func (h *history) quantile() int64 {
	need := (h.total*percentile + 99) / 100
	for i, c := range h.counts {
		if need -= int(c); need <= 0 {
			return largestOf(i)
		}
	}
	return math.MaxInt64 // not reached
}

// bucketOf returns the bucket of a number of at least 0: of its own up to 15, and then one of eight for each octave.
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

package simulate

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/headway-go/headway/pacer/store"
)

// Waits summarizes how long some calls waited, each from its arrival until its start, including the request to the store. Times are in
// seconds. Percentiles are exact to three digits.
type Waits struct {
	Calls int64   `json:"calls"`
	Mean  float64 `json:"meanSeconds"`
	P50   float64 `json:"p50Seconds"`
	P95   float64 `json:"p95Seconds"`
	P99   float64 `json:"p99Seconds"`
	Max   float64 `json:"maxSeconds"`
}

// waits collects waits.
type waits struct {
	n    int64
	sum  float64 // µs
	most store.Instant
	hist *hdrhistogram.Histogram // nil before the first
}

// longestWait is the longest wait that is distinguished from longer ones, in µs: ten years.
const longestWait = int64(maxFor / time.Microsecond)

func (w *waits) add(d store.Instant) {
	if w.hist == nil {
		w.hist = hdrhistogram.New(1, longestWait, 3)
	}
	w.n++
	w.sum += float64(d)
	w.most = max(w.most, d)
	_ = w.hist.RecordValue(min(int64(d), longestWait)) // which is in its range
}

func (w *waits) result() Waits {
	r := Waits{Calls: w.n, Max: seconds(w.most)}
	if w.n > 0 {
		r.Mean = w.sum / float64(w.n) / float64(time.Second/time.Microsecond)
		at := func(percent float64) float64 {
			return min(r.Max, seconds(store.Instant(w.hist.ValueAtQuantile(percent))))
		}
		r.P50, r.P95, r.P99 = at(50), at(95), at(99)
	}
	return r
}

// seconds converts store time to seconds.
func seconds(d store.Instant) float64 { return float64(d) / float64(time.Second/time.Microsecond) }

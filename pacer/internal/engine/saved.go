package engine

import "github.com/headway-go/headway/policies/specs"

// A Saved is what a window counts, in numbers that can be kept in a file.
type Saved struct {
	Width, Buckets int64 // its grid
	Calendar       bool
	Ends           int64      // when its last count stops to count
	Counts         [][2]int64 // of each bucket, in order: its begin, and its calls
	Line, Since    int64      // the pace of a fixed one
}

// Save returns what an account of a window counts at now. It leaves out buckets that begin after the horizon: their calls have not gone.
// It returns false for another account, and for one that counts nothing.
func (k *Kept) Save(now, horizon int64) (Saved, bool) {
	w, ok := k.Account.(*Window)
	if !ok || w.ends <= now {
		return Saved{}, false
	}
	s := Saved{Width: k.grid.width, Buckets: k.grid.buckets, Calendar: k.grid.calendar, Ends: w.ends}
	if k.grid.buckets == 0 { // the front of a sliding window may be that of calls that are left out
		s.Line, s.Since = w.line, w.since
	}
	for _, b := range w.buckets {
		if b.n > 0 && b.begin <= horizon {
			s.Counts = append(s.Counts, [2]int64{b.begin, b.n})
		}
	}
	return s, len(s.Counts) > 0
}

// Restored returns the account that was saved. The counts must be in order.
func Restored(s Saved) Kept {
	w := &Window{ends: s.Ends, line: s.Line, since: s.Since}
	for _, c := range s.Counts {
		w.buckets = append(w.buckets, bucket{c[0], c[1]})
		w.total += c[1]
	}
	return Kept{w, grid{specs.Window, s.Calendar, s.Width, s.Buckets}}
}

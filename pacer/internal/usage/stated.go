package usage

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

const (
	maxStated      = 1 << 12
	maxAboutStated = 16
	// A wait of more than longWait is long. It is again if it ends more than longerBy later.
	longWait = time.Hour
	longerBy = 10 * time.Minute
)

// Stated holds what an upstream stated to this process about when there is more of its limits. Its zero value is ready, and it is safe for
// concurrent use.
type Stated struct {
	mu  sync.Mutex
	all map[statedKey]stated
}

type statedKey struct{ policy, limit, scope string }

// A stated is a statement, and the end of the last long wait of its limit.
type stated struct {
	store.Statement

	long store.Instant
}

// Keep replaces the statement about a limit. It reports whether nothing is left for longer than longWait, and this is new.
func (s *Stated) Keep(one store.Statement, nothingLeft bool, now store.Instant) (long bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := statedKey{one.Policy, one.Limit, one.Scope}
	before, known := s.all[k]
	if s.all == nil || !known && len(s.all) >= maxStated {
		s.all = make(map[statedKey]stated) // forgotten limits are stated again
	}
	next := stated{one, before.long}
	if long = nothingLeft && one.Until.Sub(now) > longWait && one.Until > before.long.Add(longerBy); long {
		next.long = one.Until
	}
	s.all[k] = next
	return long
}

// Now returns the n statements that hold longest.
func (s *Stated) Now(now store.Instant, n int) (all []store.Statement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.Until > now {
			all = append(all, one.Statement)
		}
	}
	slices.SortFunc(all, func(a, b store.Statement) int {
		return cmp.Or(cmp.Compare(b.Until, a.Until), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Scope, b.Scope))
	})
	return all[:min(len(all), n)]
}

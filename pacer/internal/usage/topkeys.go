package usage

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// topKeys bounds the keys whose cost is remembered. The keys that spend most are among them: a dropped one has spent less than the 512th
// part of all (the algorithm of Misra and Gries).
const topKeys = 512

// TopKeys is the spending of keys with scopes in this minute and the one before.
type TopKeys struct {
	minute      int64
	now, before map[store.Key]*int64
}

// minuteOf converts an instant in µs to minutes since the Unix epoch.
func minuteOf(now int64) int64 { return now / time.Minute.Microseconds() }

// turn makes room for the minute of an instant.
func (b *TopKeys) turn(now int64) {
	minute := minuteOf(now)
	if minute <= b.minute && b.now != nil {
		return
	}
	if b.before = nil; minute == b.minute+1 {
		b.before = b.now
	}
	b.minute, b.now = minute, make(map[store.Key]*int64)
}

// Add counts a key's spending at an instant, in µs.
func (b *TopKeys) Add(k store.Key, cost, now int64) {
	b.turn(now)
	spend(b.now, k, cost)
}

// Correct adds more, which may be negative, to a key's spending that was counted at an instant, in µs.
func (b *TopKeys) Correct(k store.Key, more, at int64) {
	minute := b.now
	switch b.minute - minuteOf(at) {
	case 0:
	case 1:
		minute = b.before
	default:
		return
	}
	if n := minute[k]; n != nil {
		*n = max(0, *n+more)
	}
}

// spend adds a key's spending in one minute. It copies what it keeps of a key: otherwise the options of every call would be on the heap.
func spend(minute map[store.Key]*int64, k store.Key, cost int64) {
	if n := minute[k]; n != nil {
		*n += cost
		return
	}
	if len(minute) >= topKeys {
		least := cost
		for _, n := range minute {
			least = min(least, *n)
		}
		for k, n := range minute {
			if *n -= least; *n <= 0 {
				delete(minute, k)
			}
		}
		if cost -= least; cost == 0 {
			return
		}
	}
	rest := cost
	minute[store.Key{Policy: strings.Clone(k.Policy), Scope: strings.Clone(k.Scope)}] = &rest
}

// Spent adds the spending of each key in the last minute or so to sums.
func (b *TopKeys) Spent(now int64, sums map[store.Key]int64) {
	b.turn(now)
	for k, n := range b.now {
		sums[k] += *n
	}
	for k, n := range b.before {
		sums[k] += lastMinute(*n, now)
	}
}

// lastMinute returns how much of the previous minute's spending belongs to the last sixty seconds, if it was even.
func lastMinute(n, now int64) int64 {
	const minute = int64(time.Minute / time.Microsecond)
	left := float64(minute-now%minute) / float64(minute)
	return int64(float64(n)*left + 0.5)
}

// Top returns the n keys that spend or wait most, first. Idle keys are last.
func Top(spent, waiting map[store.Key]int64, n int) []store.KeyUse {
	all := make([]store.KeyUse, 0, len(spent)+len(waiting))
	for k, cost := range spent {
		all = append(all, store.KeyUse{Policy: k.Policy, Scope: k.Scope, Cost: cost, Waiting: waiting[k]})
	}
	for k, w := range waiting {
		if _, both := spent[k]; !both {
			all = append(all, store.KeyUse{Policy: k.Policy, Scope: k.Scope, Waiting: w})
		}
	}
	slices.SortFunc(all, func(a, b store.KeyUse) int {
		return cmp.Or(cmp.Compare(b.Cost+b.Waiting, a.Cost+a.Waiting), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Scope, b.Scope))
	})
	return slices.Clip(all[:min(n, len(all))])
}

package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/policies/specs"
)

// A model knows the charges, and whether a call may go at an instant.
type model struct {
	spec *specs.Spec
	live map[int]engine.Charge // by the number of the call
	slot map[int]int64         // of all that were not given back
	cost map[int]int64
}

// admits reports whether a call of cost n may go at s.
func (m *model) admits(now, s, n int64) bool {
	if m.spec.Algorithm == specs.Window {
		return m.admitsByWindow(s, n)
	}
	// Its interval begins in [s, s+τ], less what its own first cells take of τ, and nobody else has any of it.
	need := n * m.spec.Interval
	for x := max(now, s); x <= s+m.spec.Tolerance()-(n-1)*m.spec.Interval; x++ {
		free := true
		for _, c := range m.live {
			if x < c.To && c.From < x+need {
				free = false
				x = max(x, c.To-1)
			}
		}
		if free {
			return true
		}
	}
	return false
}

func (m *model) admitsByWindow(s, n int64) bool {
	width, k := m.spec.Interval, s-s%m.spec.Interval
	if s >= k+width-m.spec.Guard {
		return false
	}
	for j := k; j <= k+m.spec.Buckets*width; j += width {
		sum := n
		for _, c := range m.live {
			if c.From <= j && c.From >= j-m.spec.Buckets*width {
				sum += c.To
			}
		}
		if sum > m.spec.Limit {
			return false
		}
	}
	return true
}

// played plays a random history of calls that come and are given back, and checks each slot against the model: denied at every
// instant before it, allowed at it.
func played(t *testing.T, spec specs.Spec, seed uint64) *model {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	r := newRig(t, spec)
	m := &model{&spec, make(map[int]engine.Charge), make(map[int]int64), make(map[int]int64)}
	bookings := make(map[int]booking)
	now := int64(0)
	for i := range 50 {
		now += max(0, rng.Int64N(40)-20)
		if len(bookings) > 0 && rng.IntN(3) == 0 { // give one back that has not gone
			j := rng.IntN(i)
			if b, ok := bookings[j]; ok && b.At > now {
				r.cancel(now, b)
				if spec.Algorithm == specs.GCRA && rng.IntN(4) == 0 {
					r.cancel(now, b) // to a rate, that is harmless
				}
				delete(m.live, j)
				delete(m.slot, j)
				delete(bookings, j)
			}
			continue
		}
		n, ahead := 1+rng.Int64N(spec.Limit), max(0, rng.Int64N(300)-150)
		want := epoch + now + ahead
		for !m.admits(epoch+now, want, n) {
			if spec.Algorithm == specs.Window {
				want += spec.Interval - 1 - want%spec.Interval // it is the same for the whole bucket
			}
			want++
		}
		for range 5 {
			if before := want - epoch - now - ahead; before > 0 {
				from := ahead + rng.Int64N(before)
				require.False(t, r.ask(now, engine.Call{Cost: n, NotBefore: from, MaxWait: from}).OK, "seed %d, call %d", seed, i)
			}
		}
		b := r.book(now, now+ahead, n)
		require.Equal(t, want-epoch, b.At, "seed %d, call %d", seed, i)
		require.GreaterOrEqual(t, b.Slack, int64(0))
		for _, late := range []int64{0, b.Slack} {
			if spec.Algorithm == specs.GCRA {
				require.LessOrEqual(t, b.At+late, b.charges[0].To-epoch-n*spec.Interval, "seed %d: it may be later than its interval begins", seed)
			} else {
				require.True(t, m.admits(epoch+now, want+late, n), "seed %d: late by its slack", seed)
			}
		}
		bookings[i], m.live[i], m.slot[i], m.cost[i] = b, b.charges[0], b.At+rng.Int64N(b.Slack+1), n
	}
	return m
}

// A call gets the very first slot that reservations leave: it is denied at every instant before, and allowed then.
func TestEarliestIsFirst(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]specs.Spec{
		"rate":           rate(1, 10),
		"rate, burst":    rate(4, 10),
		"rate, odd":      rate(3, 7),
		"fixed":          fixed(3, 40, 0),
		"fixed, guard":   fixed(3, 40, 7),
		"sliding, two":   sliding(3, 20, 1),
		"sliding, ten":   sliding(5, 8, 9),
		"sliding, exact": sliding(1, 10, 4),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(8) {
				m := played(t, spec, seed)
				m.conforms(t, seed)
			}
		})
	}
}

// conforms checks that the calls conform by the definition of their policy, at some instant within the slack of each.
func (m *model) conforms(t *testing.T, seed uint64) {
	t.Helper()
	ids := make([]int, 0, len(m.slot))
	for i := range m.slot {
		ids = append(ids, i)
	}
	slices.SortFunc(ids, func(a, b int) int { return int(m.slot[a] - m.slot[b]) })
	for i := range ids {
		cells := int64(0)
		for _, id := range ids[i:] {
			cells += m.cost[id]
			first, last := m.slot[ids[i]], m.slot[id]
			switch s := m.spec; {
			case s.Algorithm == specs.GCRA:
				require.LessOrEqual(t, (cells-1)*s.Interval, last-first+s.Tolerance(), "seed %d: %d cells in [%d, %d]", seed, cells, first, last)
			case s.Buckets == 0 && first/s.Interval == last/s.Interval, s.Buckets > 0 && last-first < s.Interval*s.Buckets:
				require.LessOrEqual(t, cells, s.Limit, "seed %d: %d calls in [%d, %d]", seed, cells, first, last)
			}
		}
	}
}

// Charges that are given back, in any order, leave no trace, whatever was requested meanwhile.
func TestCancelledHistoriesLeaveNothing(t *testing.T) {
	t.Parallel()
	for _, spec := range []specs.Spec{rate(1, 10), rate(4, 10), rate(3, 7), fixed(3, 40, 7), sliding(5, 8, 9)} {
		t.Run(fmt.Sprint(spec), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(20) {
				rng := rand.New(rand.NewPCG(seed, 2))
				r := newRig(t, spec)
				var all []booking
				for range 30 {
					all = append(all, r.book(0, rng.Int64N(200)+1, 1+rng.Int64N(spec.Limit)))
				}
				rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				for _, b := range all {
					r.cancel(0, b)
				}
				require.Equal(t, spec.Limit, r.inspect(0).Remaining, "seed %d", seed)
				require.Zero(t, r.inspect(0).Backlog, "seed %d", seed)
				if spec.Algorithm == specs.GCRA {
					require.Nil(t, r.free(), "seed %d", seed)
				} else {
					require.Empty(t, r.counts(), "seed %d", seed)
				}
			}
		})
	}
}

// An account then does what its inspection shows.
func TestInspectTellsTheTruth(t *testing.T) {
	t.Parallel()
	for _, spec := range []specs.Spec{rate(1, 10), rate(4, 10), fixed(3, 40, 7), sliding(5, 8, 9)} {
		t.Run(fmt.Sprint(spec), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(60) {
				rng := rand.New(rand.NewPCG(seed, 3))
				r := newRig(t, spec)
				now := int64(0)
				for range 12 {
					now += rng.Int64N(12)
					r.book(now, now+max(0, rng.Int64N(120)-60), 1)
				}
				in := r.inspect(now)
				for range in.Remaining {
					require.Equal(t, now, r.inspect(now).Next, "seed %d", seed)
					require.True(t, r.ask(now, engine.Call{Cost: 1}).OK, "seed %d: %d remain", seed, in.Remaining)
				}
				require.False(t, r.ask(now, engine.Call{Cost: 1}).OK, "seed %d: just %d remain", seed, in.Remaining)
				next := r.inspect(now).Next
				require.Equal(t, next, r.book(now, now, 1).At, "seed %d", seed)
			}
		})
	}
}

// From Full on, an account is as after idling. A microsecond before, less may go, or the pace is another one.
func TestFullTellsTheTruth(t *testing.T) {
	t.Parallel()
	exact, loose, adapting := rate(5, 10), rate(2, 10), rate(4, 10)
	exact.Most, exact.Within = 5, 50
	loose.Most, loose.Within = 5, 50
	adapting.Adapt = &specs.Adapt{Floor: 10_000, Decrease: 500_000, Hold: 20, Recovery: 190}
	short := inFlight(3, 40)
	for name, spec := range map[string]specs.Spec{
		"rate": rate(4, 10), "no burst": rate(1, 10), "exact": exact, "small burst": loose, "adapting": adapting,
		"fixed": fixed(3, 40, 0), "guarded": fixed(3, 40, 7), "sliding": sliding(5, 8, 9), "permits": short,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(200) {
				rng := rand.New(rand.NewPCG(seed, 5))
				r := newRig(t, spec)
				now := int64(0)
				var last booking
				for i := range 12 {
					now += rng.Int64N(12)
					switch a, l, what := r.account(), r.limit(), rng.IntN(12); {
					case spec.Algorithm == specs.Concurrency:
						last, _ = r.late(now, engine.Call{ID: int64(i) + 1})
					case what == 0 && last.OK:
						r.cancel(now, last)
					case what == 2:
						a.Learn(l, epoch+now, rng.Int64N(20), epoch+now+rng.Int64N(200))
					case what == 3:
						a.Slow(l, epoch+now, epoch+now)
					default:
						last = r.book(now, now+max(0, rng.Int64N(120)-60), 1)
					}
				}
				full := r.inspect(now).Full
				require.GreaterOrEqual(t, full, now)
				idle := newRig(t, spec)
				require.Equal(t, idle.inspect(full), r.inspect(full), "seed %d", seed)
				require.Equal(t, spec.Limit, r.inspect(full).Remaining, "seed %d", seed)
				if full > now {
					in := r.inspect(full - 1)
					require.True(t, in.Remaining < spec.Limit || in.Pace != idle.inspect(full).Pace, "seed %d: %+v", seed, in)
					require.Equal(t, full, in.Full, "seed %d: time alone changes nothing about it", seed)
				}
			}
		})
	}
}

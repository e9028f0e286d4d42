package failover

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/charges"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// A simulation is processes that send heartbeats to a store, by simulation: some answers are slow, and some heartbeats late.
type simulation struct {
	rng     *rand.Rand
	now     time.Duration
	events  events
	epoch   store.Instant
	entries []*process    // that the store knows, in the order in which they came
	expires time.Duration // when the first of them does, at the earliest
	members []*process
}

// A process is one of them. One that makes calls notices at once that the store is lost; another one by its next heartbeat.
type process struct {
	standing

	since, until time.Duration // the store knows it
	pause        time.Duration
	next         time.Duration // when it sends its next heartbeat, or gets the answer to the last one
	calls        bool
	gone         bool
}

type event struct {
	at time.Duration
	do func()
}

type events []event

func (e *events) Len() int           { return len(*e) }
func (e *events) Less(i, j int) bool { return (*e)[i].at < (*e)[j].at }
func (e *events) Swap(i, j int)      { (*e)[i], (*e)[j] = (*e)[j], (*e)[i] }
func (e *events) Push(x any)         { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (f *simulation) after(d time.Duration, do func()) { heap.Push(&f.events, event{f.now + d, do}) }

func (f *simulation) way() time.Duration {
	if f.rng.IntN(10) == 0 {
		return f.random(200 * time.Millisecond)
	}
	return 2 * time.Millisecond
}

func (f *simulation) random(d time.Duration) time.Duration {
	return time.Duration(f.rng.Int64N(int64(d) + 1))
}

func (f *simulation) instant(d time.Duration) store.Instant {
	return store.Instant(1e12 + d.Microseconds())
}

// clock is the time of processes.
func (f *simulation) clock(d time.Duration) time.Time { return time.Unix(1e6, 0).Add(d) }

func (f *simulation) join() {
	m := &process{calls: f.rng.IntN(2) == 0}
	f.members = append(f.members, m)
	f.heartbeat(m)
}

func (f *simulation) leave(m *process, leaves bool) {
	if m.gone = true; leaves {
		f.forget(func(other *process) bool { return other == m })
	}
}

// forget removes entries of the store.
func (f *simulation) forget(which func(*process) bool) {
	f.entries = slices.DeleteFunc(f.entries, which)
	f.expires = math.MaxInt64
	for _, m := range f.entries {
		f.expires = min(f.expires, m.until)
	}
}

// heartbeat has a process send one, and then the next ones.
func (f *simulation) heartbeat(m *process) {
	if m.gone {
		return
	}
	sent := f.now
	lives := ScheduleOf(m.n).TTL
	there, back := f.way(), f.way()
	m.next = f.now + there + back
	f.after(there, func() {
		if m.gone {
			return
		}
		if f.now >= f.expires {
			f.forget(func(other *process) bool { return other.until <= f.now })
		}
		before := func(other *process, since time.Duration) int { return cmp.Compare(other.since, since) }
		rank, _ := slices.BinarySearchFunc(f.entries, m.since, before)
		if !slices.Contains(f.entries[rank:], m) {
			m.since = f.now
			rank, _ = slices.BinarySearchFunc(f.entries, m.since, before)
			f.entries = append(f.entries, m)
		}
		m.until = f.now + lives
		f.expires = min(f.expires, m.until)
		p := store.Membership{Now: f.instant(f.now), Alive: len(f.entries), Rank: rank, Epoch: store.Epoch{Began: f.epoch}}
		f.after(back, func() {
			m.answered(f.clock(sent), &p, lives)
			every := ScheduleOf(m.n).Heartbeat
			m.pause = min(max(2*m.pause, firstHeartbeat, min(every/16, heartbeatTTL/3)), every)
			d := m.pause*7/8 + f.random(m.pause/4)
			if f.rng.IntN(20) == 0 {
				d += f.random(4 * every)
			}
			m.next = f.now + d
			f.after(d, func() { f.heartbeat(m) })
		})
	})
}

// lose runs the fleet until its store is lost, and returns the sum of the shares, and of the permits of a limit.
func (f *simulation) lose(at time.Duration, limit int64) (shares float64, permits int64) {
	for len(f.events) > 0 && f.events[0].at < at {
		e, _ := heap.Pop(&f.events).(event)
		f.now = e.at
		e.do()
	}
	local := charges.NewAccounts(nil, nil, nil, func(*store.Limit) policies.Policy { return policies.InFlight(limit) }, nil)
	for _, m := range f.members {
		noticed := max(at, m.next)
		if m.calls {
			noticed = at + f.random(300*time.Millisecond)
		}
		if m.gone || !m.hasShare(f.clock(noticed+250*time.Millisecond)) {
			continue
		}
		shares += 1 / float64(m.n)
		own := local.Share(&store.Stack{Limits: []store.Limit{{Spec: policies.InFlight(limit).Spec()}}}, &charges.Absence{Processes: m.n, Rank: m.rank, Counted: true})
		permits += own.Limits[0].Spec.Limit
	}
	return shares, permits
}

// However processes come and go, whatever answers are slow and heartbeats late, and whether or not the store forgets: the shares of those that
// have one add up to at most one, and so do their permits.
func TestSharesAddUpToAtMostOne(t *testing.T) {
	t.Parallel()
	type script = func(f *simulation) (lost time.Duration)
	starts := func(n int, within time.Duration) script {
		return func(f *simulation) time.Duration {
			for range n {
				f.after(f.random(within), f.join)
			}
			lost := time.Duration([...]int{50, 100, 500, 1000, 3000, 6000, 10_000, 20_000}[f.rng.IntN(8)]) * time.Millisecond
			return lost/2 + f.random(lost) + f.random(within)
		}
	}
	churns := func(n, leave, join int, span time.Duration) script {
		return func(f *simulation) time.Duration {
			for range n {
				f.after(f.random(2*time.Second), f.join)
			}
			from := 5*time.Second + f.random(30*time.Second)
			f.after(from, func() {
				for _, i := range f.rng.Perm(len(f.members))[:min(leave, len(f.members))] {
					f.after(f.random(span), func() { f.leave(f.members[i], f.rng.IntN(3) > 0) })
				}
			})
			second := from + f.random(span)
			for range join {
				f.after(second+f.random(span), f.join)
			}
			return second + f.random(span*5/2) + f.random(5*time.Second)
		}
	}
	seeds := 20
	if os.Getenv("HEADWAY_LONG") != "" {
		seeds = 1000
	}
	for name, s := range map[string]script{
		"20 start at once":         starts(20, 50*time.Millisecond),
		"20 start":                 starts(20, 5*time.Second),
		"60 start":                 starts(60, time.Second),
		"600 start at once":        starts(600, 50*time.Millisecond),
		"8 grow to 20":             churns(8, 0, 12, 3*time.Second),
		"30 become 45":             churns(30, 25, 40, 6*time.Second),
		"200 become 180":           churns(200, 120, 100, 10*time.Second),
		"half of a fleet is other": churns(20, 10, 10, time.Second),
	} {
		for _, forgets := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", the store forgets: ", forgets), func(t *testing.T) {
				t.Parallel()
				some := 0.0
				for seed := range uint64(seeds) {
					f := &simulation{rng: rand.New(rand.NewPCG(1, seed)), epoch: 1}
					lost := s(f)
					if forgets {
						f.after(max(0, lost-f.random(12*time.Second)), func() {
							f.entries = nil
							f.epoch++
						})
					}
					limit := []int64{1, 3, 10, 25, 100, 1000}[f.rng.IntN(6)]
					shares, permits := f.lose(lost, limit)
					require.LessOrEqual(t, shares, 1+1e-9, "seed %d", seed)
					require.LessOrEqual(t, permits, limit, "seed %d", seed)
					some = max(some, shares)
				}
				require.Positive(t, some)
			})
		}
	}
}

// A process has its share once the store has known it for long enough, while its last heartbeat is not too old.
func TestAProcessMatures(t *testing.T) {
	t.Parallel()
	began := time.Unix(1000, 0)
	var s standing
	hears := func(at time.Duration, n, rank int, epoch store.Instant) {
		s.answered(began.Add(at), &store.Membership{Now: store.Instant(1e9 + at.Microseconds()), Alive: n, Rank: rank, Epoch: store.Epoch{Began: epoch}}, heartbeatTTL)
	}
	has := func(at time.Duration) bool { return s.hasShare(began.Add(at)) }
	require.False(t, has(0))
	hears(0, 3, 2, 1)
	hears(4*time.Second, 4, 2, 1)
	require.False(t, has(5*time.Second), "it had known it for 4 s then, and not for 4.25 s")
	hears(4250*time.Millisecond, 4, 2, 1)
	require.True(t, has(8500*time.Millisecond))
	require.False(t, has(8501*time.Millisecond), "others may have come since")
	hears(8*time.Second, 1, 0, 2)
	require.True(t, has(8*time.Second), "the store has forgotten the others")
	require.Equal(t, []int{4, 2}, []int{s.n, s.rank})
	hears(30*time.Second, 1, 0, 2)
	require.False(t, has(30*time.Second), "it was away for so long that others did not count it")
	require.Equal(t, []int{1, 0}, []int{s.n, s.rank})
}

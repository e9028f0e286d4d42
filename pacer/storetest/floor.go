package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// parties returns the keys of a policy that keeps parts, those of the parts, and what calls of each party must leave.
func parties(s *Session, p policies.Policy) (st store.Stack, kept map[string]uint64) {
	keys := []Key{{Policy: p}}
	kept = map[string]uint64{"": 0}
	for i, name := range p.Lanes() {
		part, _ := p.InLane(name)
		keys = append(keys, Key{Policy: part})
		kept[""] |= 1 << (i + 1)
	}
	for i, name := range p.Lanes() {
		kept[name] = kept[""] &^ (1 << (i + 1))
	}
	return s.Stack(keys...), kept
}

// spending is what parties have spent of windows. It shares no code with the engine.
type spending struct {
	limit, burst int64 // burst: ahead of the pace; 0: there is none
	floors       map[string]int64
	length       time.Duration
	spent        map[time.Duration]map[string]int64 // by when the window begins, and then by party
	ahead        map[time.Duration]ahead
}

// ahead is how many units calls were ahead of the pace of a window at a time.
type ahead struct {
	units float64
	since time.Duration
}

// beyond returns what was spent of a window beyond the parts.
func (j *spending) beyond(begin time.Duration) (n int64) {
	for p, spent := range j.spent[begin] {
		n += max(0, spent-j.floors[p])
	}
	return n
}

// room returns whether a call may start at a time, in the window that began at begin, and by how much calls are then ahead of the pace.
func (j *spending) room(begin, at time.Duration, party string, cost int64) (ok bool, units float64) {
	left, others, rest := j.limit, int64(0), j.limit
	for _, n := range j.spent[begin] {
		left -= n
	}
	for _, floor := range j.floors {
		rest -= floor
	}
	kept := func(p string) int64 {
		floor, share := j.floors[p], min(1, float64(begin+j.length-time.Microsecond-at)/float64(j.length/4))
		if p == "" {
			floor = rest
		}
		return max(0, min(floor-j.spent[begin][p], int64(float64(floor)*share)))
	}
	for p := range j.floors {
		if p != party {
			others += kept(p)
		}
	}
	a := j.ahead[begin]
	a.since = max(a.since, begin)
	pace := (float64(max(0, left-others)) + a.units) / float64(begin+j.length-time.Microsecond-a.since)
	units = max(0, a.units-pace*float64(at-a.since))
	within := party != "" && j.spent[begin][party]+cost <= j.floors[party]
	onpace := j.burst == 0 || within || units <= float64(j.burst)+0.01
	if party != "" {
		others += kept("")
	}
	return left >= cost && (left-cost >= others && onpace || cost <= kept(party) && (party != "" || j.burst == 0)), units
}

// spend charges a party's call, which got its slot at now in a window; less than 0: it was cancelled.
func (j *spending) spend(begin, now time.Duration, party string, n int64) {
	if j.spent[begin] == nil {
		j.spent[begin] = make(map[string]int64)
	}
	a, before := j.ahead[begin], j.beyond(begin)
	if n > 0 && j.spent[begin][party]+n > j.floors[party] {
		_, a.units = j.room(begin, max(begin, now), party, n)
		a.since = max(begin, now)
	}
	j.spent[begin][party] += n
	a.units = max(0, a.units+float64(j.beyond(begin)-before))
	j.ahead[begin] = a
}

// floorCases are about windows that keep parts for parties.
func floorCases() []Case {
	const minute = time.Minute
	desk := policies.Fixed(100, minute).Reserve("support", 30).Reserve("sync", 20).Named("quota")
	return []Case{
		{"floor/clock", "the pace of a window does not go back when the clock does", func(t testing.TB, s *Session) {
			st, _ := parties(s, policies.Fixed(100, minute).Burst(5).Named("quota"))
			for _, ms := range []int{30_000, 29_800, 29_600} {
				s.At(time.Duration(ms) * time.Millisecond)
				if g := s.Ask(st, store.Call{Cost: 2, MaxWait: store.Forever}); !g.OK {
					t.Fatalf("got %+v", g)
				}
			}
			if l := s.Status(st).Limits[0]; l.Remaining != 94 {
				t.Fatalf("%+v is left of 100 after 6 calls", l)
			}
		}},
		{"floor/kept", "what is kept for parties is there for them until the last quarter of the window, and then let go", func(t testing.TB, s *Session) {
			st, kept := parties(s, desk)
			ask := func(party string, want time.Duration) {
				t.Helper()
				g := s.Ask(st, store.Call{Cost: 1, MaxWait: store.Forever, Kept: kept[party]})
				if !g.OK || Since(g.At) < want || Since(g.At) > want+4*time.Second {
					t.Fatalf("a call of %q got %+v, want the slot at %v", party, g, want)
				}
			}
			for range 50 {
				ask("", 0)
			}
			s.At(10 * time.Second)
			for range 30 {
				ask("support", 10*time.Second)
			}
			for range 20 {
				ask("sync", 10*time.Second)
			}
			ask("", minute)
			ask("support", minute)
			s.At(minute)
			for range 49 {
				ask("", minute)
			}
			ask("", minute+45*time.Second)
			for range 10 {
				ask("", minute+45*time.Second)
			}
			s.At(2*minute - 1*time.Second)
			ask("support", 2*minute-time.Second)
		}},
		{"floor/status", "a part tells what is left of it, and a call that leaves it to others costs it nothing", func(t testing.TB, s *Session) {
			st, kept := parties(s, desk)
			s.Ask(st, store.Call{Cost: 7, Kept: kept[""]})
			g := s.Ask(st, store.Call{Cost: 5, Kept: kept["sync"]})
			for i, want := range []int64{88, 30, 15} {
				if got := s.Status(st).Limits[i].Remaining; got != want {
					t.Fatalf("limit %d: %d left, want %d", i, got, want)
				}
			}
			s.Cancel(st, g)
			for i, want := range []int64{93, 30, 20} {
				if got := s.Status(st).Limits[i].Remaining; got != want {
					t.Fatalf("limit %d: %d left after a cancel, want %d", i, got, want)
				}
			}
		}},
		{"floor/random", "no call takes what is kept for others or is ahead of the pace, nor waits longer than for that", func(t testing.TB, s *Session) {
			for seed := range uint64(16) {
				rng := rand.New(rand.NewPCG(seed, 11))
				limit := 20 + rng.Int64N(200)
				p := policies.Fixed(limit, minute).Named(fmt.Sprintf("quota-%d", seed))
				j := spending{limit: limit, floors: make(map[string]int64), length: minute, spent: make(map[time.Duration]map[string]int64), ahead: make(map[time.Duration]ahead)}
				if seed%2 == 1 {
					j.burst = 1 + rng.Int64N(limit/5)
					p = p.Burst(j.burst)
				}
				names := []string{""}
				for i := range rng.IntN(4) {
					name, percent := fmt.Sprintf("p%d", i), 1+rng.Int64N(33)
					p, names = p.Reserve(name, percent), append(names, name)
					j.floors[name] = max(1, limit*percent/100)
				}
				st, kept := parties(s, p)
				now := Since(s.now).Truncate(minute) + minute
				for range 150 {
					now += time.Duration(rng.Int64N(int64(2 * time.Second))).Truncate(time.Microsecond)
					s.At(now)
					party := names[rng.IntN(len(names))]
					c := store.Call{Cost: 1 + rng.Int64N(1+limit/10), MaxWait: time.Duration(rng.Int64N(int64(2 * minute))), Kept: kept[party]}
					g := s.Ask(st, c)
					at := Since(g.At)
					begin := at.Truncate(minute)
					if ok, units := j.room(begin, at, party, c.Cost); g.OK && !ok {
						t.Fatalf("seed %d: at %v a call of %q that costs %d got the slot %v, with %f of %d ahead and %v spent", seed, now, party, c.Cost, at, units, j.burst, j.spent[begin])
					}
					for _, before := range []time.Duration{time.Millisecond, 10 * time.Millisecond, time.Second, at - now} {
						early := at - before
						if ok, units := j.room(early.Truncate(minute), early, party, c.Cost); ok && early >= now && before > 0 && units <= float64(j.burst)-0.01 {
							t.Fatalf("seed %d: at %v a call of %q that costs %d got the slot %v, and could have started %v earlier", seed, now, party, c.Cost, at, before)
						}
					}
					if g.OK {
						j.spend(begin, now, party, c.Cost)
						if rng.IntN(5) == 0 {
							s.Cancel(st, g)
							j.spend(begin, now, party, -c.Cost)
						}
					}
				}
			}
		}},
		{"floor/idle", "a part halves with each window after three in which others call and its party does not, and is whole again after a call", func(t testing.TB, s *Session) {
			for party, other := range map[string]string{"desk": "", "": "desk"} { // calls in no party are one
				st, kept := parties(s, policies.Fixed(96, minute).Reserve("desk", 50).Named("quota-"+party))
				begin := Since(s.now).Truncate(minute) + minute
				all := func(window int, want int64) {
					t.Helper()
					s.At(begin + time.Duration(window)*minute)
					if s.Ask(st, store.Call{Cost: want + 1, Kept: kept[other]}).OK || !s.Ask(st, store.Call{Cost: want, Kept: kept[other]}).OK {
						t.Fatalf("in window %d, calls of %q may not spend just %d of 96", window, other, want)
					}
				}
				for window, want := range []int64{48, 48, 48, 48, 48, 72, 84, 90, 93, 95, 95} {
					all(window, want)
				}
				if !s.Ask(st, store.Call{Cost: 1, Kept: kept[party]}).OK {
					t.Fatal("a party that comes back found nothing")
				}
				for window, want := range []int64{48, 48, 48, 48, 72} {
					all(11+window, want)
				}
				all(15+8, 48) // nobody called in seven
			}
		}},
		{"floor/day", "a desk from 9 to 17 finds its part of a day that a batch job spends, and the day is spent", func(t testing.TB, s *Session) {
			d := spendDay(t, s, daily, atDesk, allDay)
			if d.refused > 0 || d.used < 9_900 || d.most < 23*time.Hour || d.busiest < 6_900 {
				t.Fatalf("%+v", d)
			}
		}},
		{"floor/lasts", "a day with a burst lasts, no hour has more than its share of it, and the desk finds its part", func(t testing.TB, s *Session) {
			d := spendDay(t, s, daily.Burst(100), atDesk, allDay)
			if d.refused > 0 || d.used < 9_990 || d.most < 23*time.Hour+30*time.Minute || d.busiest > 750 {
				t.Fatalf("%+v", d)
			}
		}},
		{"floor/sliding", "a party that comes back has its part of a sliding window within a period, and all is used", func(t testing.TB, s *Session) {
			st, kept := parties(s, policies.Sliding(1000, minute).Reserve("desk", 30).Named("quota"))
			begin := Since(s.now)
			var desk, late, used int64
			for at := time.Duration(0); at < 4*minute; at += 200 * ms {
				s.At(begin + at)
				if at >= 2*minute {
					g := s.Ask(st, store.Call{Cost: 1, MaxWait: store.Forever, Kept: kept["desk"]}) // 300 in a minute
					if at >= 3*minute {
						if desk++; Since(g.At) > begin+at+time.Second {
							late++
						}
						used++
					}
				}
				for s.Ask(st, store.Call{Cost: 5, Kept: kept[""]}).OK {
					if at >= 3*minute {
						used += 5
					}
				}
			}
			if late > desk/10 || used < 955 {
				t.Fatalf("%d of %d calls within a part waited for over a second, and %d of 1000 were used", late, desk, used)
			}
		}},
		{"floor/fails/late", "a party that first calls in the last quarter, and wants all of its part, is refused most of it", func(t testing.TB, s *Session) {
			d := spendDay(t, s, daily, shift{party: "desk", from: 22*time.Hour + 30*time.Minute, to: 23*time.Hour + 30*time.Minute, cost: 48}, allDay)
			if d.refused < 40 || d.refused == 60 {
				t.Fatalf("%+v", d)
			}
		}},
		{"floor/fails/gone", "if others are gone before the last quarter, what an idle party was kept is lost, on the first days", func(t testing.TB, s *Session) {
			d := spendDay(t, s, daily, shift{from: 0, to: 8 * time.Hour, cost: 10, greedy: true})
			if d.used != 7_000 {
				t.Fatalf("%+v", d)
			}
		}},
		{"floor/fails/night", "with a burst, a job that runs at night only gets what the night is worth", func(t testing.TB, s *Session) {
			night := shift{from: 0, to: 6 * time.Hour, cost: 10, greedy: true}
			d := spendDay(t, s, daily.Burst(100), atDesk, night)
			if got := d.used - 2_880; got < 7_000*25/100 || got > 7_000*33/100 {
				t.Fatalf("%+v", d)
			}
		}},
		{"floor/fails/costs", "costs that were underestimated exceed a window, and what is settled after its end is lost", func(t testing.TB, s *Session) {
			st, kept := parties(s, policies.Fixed(100, minute).Reserve("desk", 30).Named("quota"))
			s.At(Since(s.now).Truncate(minute) + 2*minute - time.Second)
			g := s.Ask(st, store.Call{Cost: 60, Kept: kept[""]})
			if !g.OK || !s.Ask(st, store.Call{Cost: 20, Kept: kept["desk"]}).OK {
				t.Fatal("a call was refused")
			}
			s.Report(st, store.Note{Kind: store.NoteSettle, Charge: g.Charges[0], Cost: 60, Actual: 130})
			if left := s.Status(st).Limits[0].Remaining; left != 0 || s.Ask(st, store.Call{Cost: 1, Kept: kept["desk"]}).OK {
				t.Fatalf("%d left, and the desk finds some, though 150 of 100 are spent", left)
			}
			s.At(Since(s.now) + 2*time.Second)
			s.Report(st, store.Note{Kind: store.NoteSettle, Charge: g.Charges[0], Cost: 130, Actual: 10})
			if left := s.Status(st).Limits[0].Remaining; left != 100 {
				t.Fatalf("%d left of the next window", left)
			}
		}},
		{"floor/fails/newcomer", "who has no part and comes late finds a window spent; with a burst, most of its calls go", func(t testing.TB, s *Session) {
			late := shift{from: 9 * time.Hour, to: 17 * time.Hour, cost: 2}
			d, lasts := spendDay(t, s, daily, late, allDay), spendDay(t, s, daily.Burst(100).Named("lasts"), late, allDay)
			if d.refused != 480 || lasts.refused > 240 {
				t.Fatalf("%+v %+v", d, lasts)
			}
		}},
	}
}

// daily keeps for a desk what its calls from 9 to 17 need, and a little more.
var daily = policies.Daily(10_000, time.UTC).Reserve("desk", 30).Named("day")

// shift is a party's calls in a day: one of a cost each minute, or as many as it can get.
type shift struct {
	party    string
	from, to time.Duration
	cost     int64
	greedy   bool
}

var (
	atDesk = shift{party: "desk", from: 9 * time.Hour, to: 17 * time.Hour, cost: 6}
	allDay = shift{from: 0, to: 24 * time.Hour, cost: 10, greedy: true}
)

// A day is what became of one.
type day struct {
	used, busiest int64         // what was spent, and that of the busiest hour
	refused       int           // calls that are not greedy
	most          time.Duration // when 99 % were used
}

// spendDay plays the next whole day.
func spendDay(t testing.TB, s *Session, p policies.Policy, shifts ...shift) (d day) {
	t.Helper()
	st, kept := parties(s, p)
	begin := Since(s.now).Truncate(24*time.Hour) + 24*time.Hour - Since(Epoch+store.Instant(-int64(Epoch)%86_400_000_000)) // midnight
	limit, _ := p.Limit()
	var hour [24]int64
	for at := time.Duration(0); at < 24*time.Hour; at += time.Minute {
		s.At(begin + at)
		for _, of := range shifts {
			for more := at >= of.from && at < of.to; more; more = more && of.greedy {
				if more = s.Ask(st, store.Call{Cost: of.cost, Kept: kept[of.party]}).OK; !more {
					if !of.greedy {
						d.refused++
					}
					continue
				}
				hour[at/time.Hour] += of.cost
				if d.used += of.cost; d.used >= limit*99/100 && d.most == 0 {
					d.most = at
				}
			}
		}
	}
	d.busiest = slices.Max(hour[:])
	return d
}

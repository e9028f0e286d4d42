package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// parties are the keys of a policy that keeps parts, those of the parts, and what calls of each party leave to others.
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
	limit  int64
	floors map[string]int64
	length time.Duration
	spent  map[time.Duration]map[string]int64 // by when the window begins, and then by party
}

// room returns whether a call may start at a time, which is in the window that began then.
func (j *spending) room(begin, at time.Duration, party string, cost int64) bool {
	left, others := j.limit-cost, int64(0)
	for _, n := range j.spent[begin] {
		left -= n
	}
	kept := func(p string) int64 {
		share := min(1, float64(begin+j.length-time.Microsecond-at)/float64(j.length/4))
		return max(0, min(j.floors[p]-j.spent[begin][p], int64(float64(j.floors[p])*share)))
	}
	for p := range j.floors {
		if p != party {
			others += kept(p)
		}
	}
	return left >= 0 && (left >= others || party != "" && cost <= kept(party))
}

func (j *spending) spend(begin time.Duration, party string, n int64) {
	if j.spent[begin] == nil {
		j.spent[begin] = make(map[string]int64)
	}
	j.spent[begin][party] += n
}

// floorCases are about windows that keep parts for parties.
func floorCases() []Case {
	const minute = time.Minute
	desk := policies.Fixed(100, minute).Reserve("support", 30).Reserve("sync", 20).Named("quota")
	return []Case{
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
		{"floor/random", "no call takes what is kept for others, nor waits longer than for that", func(t testing.TB, s *Session) {
			for seed := range uint64(8) {
				rng := rand.New(rand.NewPCG(seed, 11))
				limit := 20 + rng.Int64N(200)
				p := policies.Fixed(limit, minute).Named(fmt.Sprintf("quota-%d", seed))
				j := spending{limit: limit, floors: make(map[string]int64), length: minute, spent: make(map[time.Duration]map[string]int64)}
				names := []string{""}
				for i := range 1 + rng.IntN(3) {
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
					if g.OK && !j.room(begin, at, party, c.Cost) {
						t.Fatalf("seed %d: at %v a call of %q that costs %d got the slot %v, and others lack what is kept for them: %v", seed, now, party, c.Cost, at, j.spent[begin])
					}
					for _, before := range []time.Duration{time.Microsecond, time.Millisecond, time.Second, at - now} {
						if at-before >= now && before > 0 && j.room((at-before).Truncate(minute), at-before, party, c.Cost) {
							t.Fatalf("seed %d: at %v a call of %q that costs %d got the slot %v, and could have started %v earlier", seed, now, party, c.Cost, at, before)
						}
					}
					if g.OK && rng.IntN(5) > 0 {
						j.spend(begin, party, c.Cost)
					} else if g.OK {
						s.Cancel(st, g)
					}
				}
			}
		}},
		{"floor/day", "a desk from 9 to 17 finds its part of a day that a batch job spends, and the day is spent", func(t testing.TB, s *Session) {
			const limit = 10_000
			st, kept := parties(s, policies.Daily(limit, time.UTC).Reserve("desk", 30).Named("day"))
			day := Since(s.now).Truncate(24*time.Hour) + 24*time.Hour - Since(Epoch+store.Instant(-int64(Epoch)%86_400_000_000)) // midnight
			used, late := 0, time.Duration(0)
			for at := time.Duration(0); at < 24*time.Hour; at += 6 * time.Second {
				s.At(day + at)
				if at >= 9*time.Hour && at < 17*time.Hour && at%(10*time.Second) == 0 { // 960 calls in eight hours
					if g := s.Ask(st, store.Call{Cost: 1, Kept: kept["desk"]}); !g.OK {
						t.Fatalf("the desk was refused at %v", at)
					}
					used++
				}
				for s.Ask(st, store.Call{Cost: 1, Kept: kept[""]}).OK {
					if used++; used == limit*99/100 {
						late = at
					}
				}
			}
			if used < limit*99/100 || late < 18*time.Hour {
				t.Fatalf("%d of %d used, 99 %% of it by %v", used, limit, late)
			}
		}},
	}
}

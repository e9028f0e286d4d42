package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// keptGaps is how many gaps a rate remembers.
const keptGaps = 1024

// longQueueCases are about accounts with thousands of future slots, of which a store must not read all.
func longQueueCases() []Case {
	rate := policies.PerSecond(100).Named("rate")
	line := func(s *Session, st store.Stack, n int) (all []store.Grant) {
		for len(all) < n {
			calls := make([]store.Call, min(100, n-len(all)))
			for i := range calls {
				calls[i] = store.Call{Cost: 1, MaxWait: store.Forever}
			}
			all = append(all, s.AskAll(st, calls...)...)
		}
		return all
	}
	return []Case{
		{"claim/difference", "a claim of a rate makes a difference if anything of it that is to come was free, and one of a window none", func(t testing.TB, s *Session) {
			for name, p := range map[string]policies.Policy{"rate": rate, "exact": policies.AtMost(100, time.Second).Burst(5).Skew(0)} {
				st := s.Stack(Key{Policy: p.Named("difference-" + name)}, Key{Policy: policies.Fixed(3, time.Second).Named("window-" + name)})
				all := line(s, st, 6)
				own := func(i int, later int64) store.Note {
					c := all[i].Charges[0]
					return store.Note{Kind: store.NoteClaim, Charge: store.Charge{From: c.From + later, To: c.To + later}}
				}
				expect := func(want int, notes ...store.Note) {
					if got := s.Report(st, notes...); got != want {
						t.Fatalf("%s: %d differences, want %d", name, got, want)
					}
				}
				expect(0, own(1, 0), own(4, 0), own(5, 0))
				expect(0, own(0, -3_600_000_000))
				s.Cancel(st, all[4])
				expect(1, own(3, 0), own(4, 0))
				expect(0, own(4, 0))
				expect(1, own(5, 50_000))
				bucket := store.Note{Kind: store.NoteClaim, Limit: 1, Charge: store.Charge{From: all[0].Charges[1].From, To: 3}}
				expect(0, bucket)
			}
		}},
		{"gaps/bounded", "of more gaps than a rate remembers, the shortest and last count as taken", func(t testing.TB, s *Session) {
			const n = 2*keptGaps + 100
			st := s.Stack(Key{Policy: rate})
			all := line(s, st, n)
			s.Cancel(st, all[n-11], all[n-10], all[n-9])
			for i := 1; i < n-50; i += 2 {
				s.Cancel(st, all[i])
			}
			if got := s.Status(st).Limits[0].Backlog; got != n-keptGaps-3 {
				t.Fatalf("a backlog of %d, want %d", got, n-keptGaps-3)
			}
			for i := range keptGaps - 1 {
				s.Go(st, 1, time.Duration(10+20*i)*ms)
			}
			s.Go(st, 3, (n-9)*10*ms)
			s.Go(st, 1, n*10*ms)
		}},
		{"gaps/past", "gaps that are past mean nothing, however many they are", func(t testing.TB, s *Session) {
			const n = 2 * keptGaps
			st := s.Stack(Key{Policy: rate})
			all := line(s, st, n)
			for i := 1; i < n-1; i += 2 {
				s.Cancel(st, all[i])
			}
			s.At(20 * time.Second)
			for k := range 5 { // each looks at the earliest gap that is left
				s.Go(st, 1, 20*time.Second+time.Duration(10+20*k)*ms)
			}
			s.Cancel(st, all[n-1])
			s.Go(st, 1, 20*time.Second+110*ms)
			if got := s.Status(st).Limits[0].Backlog; got < 25 || got > 35 {
				t.Fatalf("a backlog of %d", got)
			}
		}},
		{"changed/long-queue", "behind a long queue, a rate that changes and admits as much as before lets nothing go before the end of the queue", func(t testing.TB, s *Session) {
			for i, pair := range [][2]policies.Policy{
				{policies.AtMost(20, time.Second).Burst(5).Skew(0), policies.AtMost(20, time.Second).Burst(4).Skew(0)},
				{policies.PerSecond(20), policies.PerSecond(15)},
				{policies.PerSecond(20), policies.PerSecond(20).Burst(2)},
			} {
				key := fmt.Sprint("k", i)
				const n = 1500
				old := Key{Policy: pair[0].Named("p").Per("key"), Scope: key}
				all := line(s, s.Stack(old), n)
				last := time.Duration(all[n-1].At-s.now) * time.Microsecond
				now := Key{Policy: pair[1].Named("p").Per("key"), Scope: key}
				g := s.Ask(s.Stack(now), store.Call{Cost: 1, MaxWait: store.Forever})
				if wait := g.Wait(); wait < last*8/10 || wait > last+3*time.Second {
					t.Fatalf("%v: a call after it waits %v, and the last one before it %v", pair, wait, last)
				}
			}
		}},
	}
}

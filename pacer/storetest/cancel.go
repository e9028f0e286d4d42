package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

func cancelCases() []Case {
	return []Case{
		{"cancel/tail", "the last reservation, given back, is as if it had never been", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10)})
			s.Go(st, 1, 0)
			g := s.Go(st, 1, 100*ms)
			s.Cancel(st, g)
			s.Go(st, 1, 100*ms)
		}},
		{"cancel/middle", "a slot given back is the next to be granted, and nobody else moves", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10)})
			var line []store.Grant
			for i := range 10 {
				line = append(line, s.Go(st, 1, time.Duration(i)*100*ms))
			}
			s.Cancel(st, line[7])
			s.Cancel(st, line[3])
			s.Go(st, 1, 300*ms)
			s.Go(st, 1, 700*ms)
			s.Go(st, 1, 1000*ms)
		}},
		{"cancel/merge", "neighbours given back in any order make room for one costly call", func(_ testing.TB, s *Session) {
			for _, order := range [][]int{{3, 4, 5}, {5, 4, 3}, {3, 5, 4}, {4, 3, 5}} {
				st := s.Stack(Key{Policy: policies.PerSecond(10).Burst(3).Named(fmt.Sprintf("p%d%d%d", order[0], order[1], order[2]))})
				var line []store.Grant
				for range 10 {
					line = append(line, s.Ask(st, store.Call{Cost: 1, MaxWait: time.Minute}))
				}
				for _, i := range order {
					s.Cancel(st, line[i])
				}
				s.Go(st, 3, Since(line[5].At))
			}
		}},
		{"cancel/twice", "giving a rate's slot back twice gives it back once", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10)})
			s.Go(st, 1, 0)
			a, b := s.Go(st, 1, 100*ms), s.Go(st, 1, 200*ms)
			s.Go(st, 1, 300*ms)
			s.Cancel(st, a)
			s.Cancel(st, a)
			s.Cancel(st, b, b)
			s.Go(st, 1, 100*ms)
			s.Go(st, 1, 200*ms)
			s.Go(st, 1, 400*ms)
		}},
		{"cancel/fragment", "a slot with odd edges, given back, leaves no splinter behind", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10)})
			g := s.Ask(st, store.Call{Cost: 1, NotBefore: 150 * ms, MaxWait: time.Minute}) // [0,100) stays a gap, 50 ms are too short for one
			s.Cancel(st, g)
			s.Go(st, 1, 0)
			s.Go(st, 1, 100*ms)
			s.Go(st, 1, 200*ms)
		}},
		{"cancel/past", "what is past cannot be given back", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.PerSecond(10).Named("r")}, Key{Policy: policies.Fixed(1, time.Second).Named("w")})
			g := s.Go(st, 1, 0)
			s.At(1500 * ms)
			s.Go(st, 1, 1500*ms)
			s.Cancel(st, g)
			s.Go(st, 1, 2000*ms)
		}},
		{"cancel/thousand", "a thousand calls that are cancelled at random leave the capacity as if they had never asked", thousandCancelled},
	}
}

func thousandCancelled(t testing.TB, s *Session) {
	rng := rand.New(rand.NewPCG(1, 2))
	stack := func(name string) store.Stack {
		return s.Stack(
			Key{Policy: policies.PerSecond(100).Burst(5).Named(name + "-rate")},
			Key{Policy: policies.PerSecond(30).Burst(2).Named(name + "-slow")},
			Key{Policy: policies.Fixed(20, time.Second).Named(name + "-fixed")},
			Key{Policy: policies.Sliding(50, 2*time.Second).Buckets(5).Named(name + "-sliding")},
		)
	}
	touched, fresh := stack("touched"), stack("fresh")
	var held []store.Grant
	for i := range 1000 {
		held = append(held, s.Ask(touched, store.Call{
			Cost: 1 + rng.Int64N(2), NotBefore: time.Duration(rng.Int64N(int64(30 * time.Second))), MaxWait: store.Forever,
		}))
		if rng.IntN(3) == 0 && i > 0 {
			j := rng.IntN(len(held))
			s.Cancel(touched, held[j])
			held[j] = held[len(held)-1]
			held = held[:len(held)-1]
		}
	}
	rng.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
	s.Cancel(touched, held...)
	for i := range 300 {
		c := store.Call{Cost: 1 + int64(i%2), MaxWait: store.Forever}
		a, b := s.Ask(touched, c), s.Ask(fresh, c)
		if a.At != b.At || a.Slack != b.Slack {
			t.Fatalf("call %d: slot %v slack %v, on a fresh stack %v slack %v", i, Since(a.At), a.Slack, Since(b.At), b.Slack)
		}
	}
}

package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// statedCases are about an upstream's statements under every kind of policy: they bind exactly until the reset, and not beyond it.
func statedCases() (all []Case) {
	for name, p := range map[string]policies.Policy{
		"rate": policies.PerSecond(100), "burst": policies.PerMinute(6000).Burst(50), "atmost": policies.AtMost(100, time.Second), "sliding": policies.Sliding(1000, time.Hour),
		"fixed": policies.Fixed(1000, 10*time.Minute), "daily": policies.Daily(10_000, time.UTC), "monthly": policies.Monthly(100_000, time.UTC),
		"tenant": policies.PerSecond(100).Per("tenant"), "adaptive": policies.PerSecond(100).Adaptive(policies.Adaptation{}),
	} {
		key := Key{Policy: p.Named("p")}
		if p.Scopes() != nil {
			key.Scope = "acme"
		}
		for of, under := range map[string][]Key{"own": {key, left(key)}, "others": {key, left(Key{Policy: policies.Fixed(10, 10*time.Second).Named("other")})}} {
			all = append(all, untilReset(name+"/"+of, under), againAndAgain(name+"/"+of, under), ofADay(name+"/"+of, under))
		}
	}
	return all
}

// replied reports the answer to a call: what is left, and when there is more.
func (s *Session) replied(st store.Stack, g *store.Grant, n int64, reset time.Duration) {
	s.t.Helper()
	c := g.Charges[len(g.Charges)-1]
	s.Report(st, store.Note{Kind: store.NoteAnswer, Limit: len(st.Limits) - 1, At: store.Instant(c.From), Cost: c.To, Remaining: n, For: reset})
}

func untilReset(name string, keys []Key) Case {
	return Case{"stated/until/" + name, "what is left goes at once, and the next call at the reset, whatever was stated first", func(_ testing.TB, s *Session) {
		for first := range int64(3) {
			s.upstream += fmt.Sprint("-", first)
			start := time.Duration(first) * 3 * time.Hour
			st := s.Stack(keys...)
			for n := first; n >= 0; n-- {
				at := start + time.Duration(first-n)*time.Second
				s.At(at)
				g := s.Go(st, 1, at)
				s.replied(st, &g, n, start+30*time.Second-at)
			}
			s.Go(st, 1, start+30*time.Second)
		}
	}}
}

func againAndAgain(name string, keys []Key) Case {
	return Case{"stated/again/" + name, "nothing left until a reset holds each call that long, also if it was stated before, and though all was left in between", func(_ testing.TB, s *Session) {
		st := s.Stack(keys...)
		for i := range 10 {
			at := time.Duration(i) * 10 * time.Second
			s.At(at)
			g := s.Go(st, 1, at)
			if i%3 == 2 {
				s.replied(st, &g, 100, 10*time.Second)
				at += time.Second
				s.At(at)
				g = s.Go(st, 1, at)
			}
			s.replied(st, &g, 0, time.Duration(i+1)*10*time.Second-at)
			if g := s.Ask(st, store.Call{Cost: 1}); g.OK || Since(g.At) != time.Duration(i+1)*10*time.Second {
				s.t.Fatalf("at %v: the next call may go at %v", at, Since(g.At))
			}
		}
	}}
}

func ofADay(name string, keys []Key) Case {
	return Case{"stated/day/" + name, "a refusal for a day is kept to its end, and then one call goes first, if answers are reported", func(_ testing.TB, s *Session) {
		const ban = 81654 * time.Second
		st := s.Stack(keys...)
		g := s.Go(st, 1, 0)
		s.replied(st, &g, 50, time.Second)
		s.At(2 * time.Second)
		s.Pause(st, ban)
		for i := range 5 {
			s.Go(st, 1, 2*time.Second+ban+time.Duration(i)*100*ms)
		}
		s.At(2*time.Second + ban + 20*ms)
		s.Report(st, store.Note{Kind: store.NoteAnswer, Limit: len(st.Limits) - 1, At: Epoch + store.Instant((2*time.Second + ban).Microseconds()), Cost: 1, Remaining: -1, Refused: true, For: ban})
		s.Go(st, 1, 2*time.Second+20*ms+2*ban)
	}}
}

package storetest

import (
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

const ms = time.Millisecond

// step is one call of a known answer: its request time, cost, and the slot that it gets, in milliseconds after Epoch.
type step struct {
	at   time.Duration
	cost int64
	slot time.Duration
}

func steps(p policies.Policy, list []step) func(testing.TB, *Session) {
	return func(_ testing.TB, s *Session) {
		st := s.Stack(Key{Policy: p})
		for _, x := range list {
			s.At(x.at)
			s.Go(st, x.cost, x.slot)
		}
	}
}

func gcraCases() []Case {
	perSecond10 := policies.PerSecond(10)
	return []Case{
		{"gcra/spacing", "burst 1: calls are one emission interval apart (ITU-T I.371, virtual scheduling with τ = 0)", steps(perSecond10, []step{
			{0, 1, 0},
			{0, 1, 100 * ms},
			{0, 1, 200 * ms},
			{150 * ms, 1, 300 * ms},
		})},
		{"gcra/burst", "burst B: B calls go at once after idling, then one per interval", steps(perSecond10.Burst(3), []step{
			{0, 1, 0},
			{0, 1, 0},
			{0, 1, 0},
			{0, 1, 100 * ms},
			{0, 1, 200 * ms},
		})},
		{"gcra/tolerance", "a cell that arrives τ early conforms, one microsecond earlier does not (ATM Forum TM 4.0)", steps(perSecond10.Burst(2), []step{
			{0, 1, 0},
			{0, 1, 0}, // TAT is now 200 ms
			{99*ms + 999*time.Microsecond, 1, 100 * ms}, // a microsecond too early: TAT − τ = 100 ms
			{200 * ms, 1, 200 * ms},
		})},
		{"gcra/idle-credit-is-bounded", "idling earns at most the burst, however long it was", steps(perSecond10.Burst(3), []step{
			{0, 1, 0},
			{time.Hour, 1, time.Hour},
			{time.Hour, 1, time.Hour},
			{time.Hour, 1, time.Hour},
			{time.Hour, 1, time.Hour + 100*ms},
		})},
		{"gcra/partial-credit", "credit comes back one call per interval", steps(perSecond10.Burst(3), []step{
			{0, 3, 0},
			{100 * ms, 1, 100 * ms},
			{100 * ms, 1, 200 * ms},
			{400 * ms, 1, 400 * ms},
			{400 * ms, 1, 400 * ms},
			{400 * ms, 1, 500 * ms},
		})},
		{"gcra/cost", "a call of cost n takes n intervals, and goes when the last of its cells conforms", steps(perSecond10.Burst(5), []step{
			{0, 5, 0},
			{0, 1, 100 * ms},
			{0, 5, 600 * ms},
			{0, 2, 800 * ms},
			{2 * time.Second, 5, 2 * time.Second},
			{2 * time.Second, 2, 2*time.Second + 200*ms},
		})},
		{"gcra/rounds-up", "an interval that is no whole number of microseconds is rounded up: against the caller", steps(policies.PerSecond(3), []step{
			{0, 1, 0},
			{0, 1, 333_334 * time.Microsecond},
			{0, 1, 666_668 * time.Microsecond},
		})},
		{"gcra/at-most", "AtMost(5, 1s) with 100 ms of skew: T = 1.1 s / 5, so that a sixth call comes 1.1 s after the first", steps(
			policies.AtMost(5, time.Second).Skew(100*ms), []step{
				{0, 1, 0},
				{0, 1, 220 * ms},
				{0, 1, 440 * ms},
				{0, 1, 660 * ms},
				{0, 1, 880 * ms},
				{0, 1, 1100 * ms},
			})},
		{"gcra/at-most-by-arithmetic", "AtMost(500, 1s).Burst(251) is too large for a log: T = 1 s / 250, so that from any instant on no more than 500 go in a second", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.AtMost(500, time.Second).Burst(251).Skew(0)})
			s.Go(st, 251, 0)
			s.Go(st, 249, 996*ms)
			s.Go(st, 1, 1000*ms)
		}},
		{"gcra/extremes", "one call a year and a million a second are exact", func(t testing.TB, s *Session) {
			slow := s.Stack(Key{Policy: policies.Every(365 * 24 * time.Hour).Named("slow")})
			s.Go(slow, 1, 0)
			s.Go(slow, 1, 365*24*time.Hour)
			s.Go(slow, 1, 2*365*24*time.Hour)
			fast := s.Stack(Key{Policy: policies.PerSecond(1_000_000).Named("fast")})
			for i := range 20 {
				s.Go(fast, 1, time.Duration(i)*time.Microsecond)
			}
		}},
		{"gcra/burst-and-rate", "no window of length W ever holds more than B + W/T calls, and a greedy caller gets no less in the first", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: perSecond10.Burst(7)})
			var times []time.Duration
			for i := range 400 {
				s.At(time.Duration(i) * 13 * ms) // faster than the rate; it idles for a while in between
				if i == 200 {
					s.At(20 * time.Second)
				} else if i > 200 {
					s.At(20*time.Second + time.Duration(i-200)*13*ms)
				}
				if g := s.Ask(st, store.Call{Cost: 1}); g.OK {
					times = append(times, Since(g.At))
				}
			}
			for i := range times {
				for j := i; j < len(times); j++ {
					if n, most := j-i+1, 7+int((times[j]-times[i])/(100*ms)); n > most {
						t.Fatalf("%d calls from %v to %v, want at most %d", n, times[i], times[j], most)
					}
				}
			}
			if n := len(times); n < 2*(7+25)-2 {
				t.Fatalf("%d calls in two bursts of 2.6 s, want about 64", n)
			}
		}},
		{"gcra/slack", "a call may go at any time until its interval begins: that is its slack", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: perSecond10.Burst(3)})
			for i, want := range []time.Duration{0, 100 * ms, 200 * ms, 200 * ms, 200 * ms} {
				if g := s.Ask(st, store.Call{Cost: 1, MaxWait: time.Minute}); g.Slack != want {
					t.Fatalf("call %d: slack %v, want %v", i, g.Slack, want)
				}
			}
		}},
		{"gcra/limit-changes-at-once", "limits travel with the call: a changed one holds from the next call on", func(t testing.TB, s *Session) {
			slow, fast := s.Stack(Key{Policy: perSecond10.Named("x")}), s.Stack(Key{Policy: policies.PerSecond(100).Named("x")})
			s.Go(slow, 1, 0)
			s.Go(slow, 1, 100*ms)
			s.Go(fast, 1, 10*ms) // the others go at 0 and 100 ms
			s.Go(fast, 1, 20*ms)
			s.Go(slow, 1, 200*ms)
			s.Go(fast, 1, 30*ms)
			s.Go(fast, 1, 40*ms)
		}},
	}
}

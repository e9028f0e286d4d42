package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	_ "time/tzdata" // the cases need time zones, also where the system has none

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

func windowCases() []Case {
	return []Case{
		{"window/fixed", "a fixed window admits its limit at once, and the rest when the next one begins", steps(policies.Fixed(2, time.Second), []step{
			{300 * ms, 1, 300 * ms},
			{300 * ms, 1, 300 * ms},
			{300 * ms, 1, 1000 * ms},
			{300 * ms, 1, 1000 * ms},
			{300 * ms, 1, 2000 * ms},
			{2500 * ms, 1, 2500 * ms},
			{2500 * ms, 1, 3000 * ms},
		})},
		{"window/fixed-cost", "a costly call goes where all of it fits, and a cheap one may fill the room before it", steps(policies.Fixed(3, time.Second), []step{
			{0, 2, 0},
			{0, 3, 1000 * ms},
			{0, 1, 0},
			{0, 1, 2000 * ms},
			{0, 2, 2000 * ms},
		})},
		{"window/guard", "with a skew nothing goes in the last part of a window", steps(policies.Fixed(2, time.Second).Skew(100*ms), []step{
			{899_999 * time.Microsecond, 1, 899_999 * time.Microsecond},
			{900 * ms, 1, 1000 * ms},
			{950 * ms, 1, 1000 * ms},
			{950 * ms, 1, 2000 * ms},
		})},
		{"window/sliding", "any window of the period holds at most the limit: a full one comes back a period and a bucket after it began", steps(
			policies.Sliding(2, time.Second).Buckets(10), []step{
				{50 * ms, 1, 50 * ms},
				{150 * ms, 1, 150 * ms},
				{150 * ms, 1, 1100 * ms},
				{150 * ms, 1, 1200 * ms},
				{150 * ms, 2, 2300 * ms},
			})},
		{"window/sliding-backfill", "a call may go before reservations, if every window around it still holds at most the limit", func(_ testing.TB, s *Session) {
			slow := Key{Policy: policies.Every(10 * time.Second).Named("slow")}
			wide := Key{Policy: policies.Sliding(2, time.Second).Buckets(10).Named("wide")}
			both, alone := s.Stack(slow, wide), s.Stack(wide)
			s.Go(both, 1, 0)
			s.Go(both, 1, 10*time.Second) // wide has one call at 10 s
			s.At(9500 * ms)
			s.Go(alone, 1, 9500*ms)   // one more within a second of it
			s.Go(alone, 1, 10_600*ms) // a third has to wait until 9.5 s is over
			s.Go(alone, 1, 11_100*ms) // and this one until 10 s is
			s.Go(alone, 1, 11_700*ms)
		}},
		{"window/daily-utc", "a daily window begins at midnight", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.Daily(1, time.UTC)})
			s.At(5 * time.Hour)
			s.Go(st, 1, 5*time.Hour)
			s.Go(st, 1, 24*time.Hour)
			s.Go(st, 1, 48*time.Hour)
		}},
		{"window/daily-dst", "a day in a time zone is 23 or 25 hours long when the clocks change", func(t testing.TB, s *Session) {
			berlin, err := time.LoadLocation("Europe/Berlin")
			if err != nil {
				t.Fatal(err)
			}
			for _, day := range []struct {
				begin  time.Time
				length time.Duration
			}{
				{time.Date(2025, 3, 29, 0, 0, 0, 0, berlin), 24 * time.Hour},
				{time.Date(2025, 3, 30, 0, 0, 0, 0, berlin), 23 * time.Hour},
				{time.Date(2025, 10, 26, 0, 0, 0, 0, berlin), 25 * time.Hour},
				{time.Date(2025, 10, 27, 0, 0, 0, 0, berlin), 24 * time.Hour},
			} {
				st := s.Stack(Key{Policy: policies.Daily(1, berlin).Named(day.begin.Format("d20060102"))})
				begin := Since(store.Instant(day.begin.UnixMicro()))
				s.At(begin + time.Hour)
				s.Go(st, 1, begin+time.Hour)
				s.Go(st, 1, begin+day.length)
			}
		}},
		{"window/scattered-room", "of windows that turn at different times, a call gets the first ones that have room for it, however many before have too little", func(t testing.TB, s *Session) {
			for seed := range s.seeds(20) {
				rng := rand.New(rand.NewPCG(seed, 33))
				var keys []Key
				held := make([]map[int64]int64, 3)
				for i := range held {
					p := policies.Fixed(3+rng.Int64N(3), time.Duration(1000+rng.Int64N(4000))*997*time.Microsecond)
					keys, held[i] = append(keys, Key{Policy: p.Named(fmt.Sprintf("p%d", i)), Scope: fmt.Sprint(seed)}), make(map[int64]int64)
				}
				st, calls := s.Stack(keys...), make([]store.Call, 140)
				for i := range calls {
					calls[i] = store.Call{Cost: 1 + rng.Int64N(3), MaxWait: store.Forever}
				}
				for i, g := range s.AskAll(st, calls...) {
					at := int64(s.now)
					for moved := true; moved; {
						moved = false
						for j := range st.Limits {
							if l := &st.Limits[j].Spec; held[j][at/l.Interval]+calls[i].Cost > l.Limit {
								at, moved = (at/l.Interval+1)*l.Interval, true
							}
						}
					}
					for j := range st.Limits {
						held[j][at/st.Limits[j].Spec.Interval] += calls[i].Cost
					}
					if int64(g.At) != at {
						t.Fatalf("seed %d: on %v, call %d of cost %d goes at %v, and could at %v", seed, keys, i, calls[i].Cost, Since(g.At), Since(store.Instant(at)))
					}
				}
			}
		}},
		{"window/horizon", "a calendar that does not reach further refuses, and charges nothing", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.Hourly(1, time.UTC)})
			granted := 0
			for range 200 {
				if g := s.Ask(st, store.Call{Cost: 1, MaxWait: store.Forever}); !g.OK {
					break
				}
				granted++
			}
			if granted < 50 || granted > 70 {
				t.Fatalf("%d hours could be reserved ahead, want about 60", granted)
			}
		}},
		{"window/far-months", "windows that are reserved far ahead stay as they are, whatever asks after that, and the next one with room is found", func(t testing.TB, s *Session) {
			zone, err := time.LoadLocation("America/New_York")
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range []policies.Policy{policies.Monthly(1, zone), policies.Daily(1, zone)} {
				s.Set(store.Instant(time.Date(2025, 2, 28, 12, 0, 0, 0, zone).UnixMicro()))
				st, begin := s.Stack(Key{Policy: p}), func(i int) store.Instant {
					if p.Name() == "monthly" {
						return store.Instant(time.Date(2025, time.Month(2+i), 1, 0, 0, 0, 0, zone).UnixMicro())
					}
					return store.Instant(time.Date(2025, 2, 28+i, 0, 0, 0, 0, zone).UnixMicro())
				}
				var all []store.Grant
				for i := range 20 {
					all = append(all, s.Go(st, 1, Since(max(s.now, begin(i)))))
				}
				if g := s.Ask(st, store.Call{Cost: 1}); g.OK || g.At <= begin(1) || g.At > begin(20) {
					t.Fatalf("%s: %v is refused until %v", p, g.OK, Since(g.At))
				}
				s.Cancel(st, all[1])
				s.Report(st, store.Note{Kind: store.NoteSettle, Charge: all[0].Charges[0], Cost: 1, Actual: 2})
				s.Go(st, 1, Since(begin(1)))
				if seen := s.Status(st).Limits[0]; seen.Next != begin(20) || seen.Backlog != 19 || seen.Full != begin(20) {
					t.Fatalf("%s: the next one at %v, all at %v, %d ahead; want %v and 19", p, Since(seen.Next), Since(seen.Full), seen.Backlog, Since(begin(20)))
				}
				for i := range 20 {
					s.Set(begin(i+1) - 1)
					if g := s.Ask(st, store.Call{Cost: 1}); g.OK {
						t.Fatalf("%s: a second call of window %d", p, i)
					}
				}
			}
			utc, moved := s.Stack(Key{Policy: policies.Monthly(1, time.UTC).Named("z")}), s.Stack(Key{Policy: policies.Monthly(1, zone).Named("z")})
			s.Set(store.Instant(time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC).UnixMicro()))
			s.Go(utc, 1, Since(s.now))
			s.Set(store.Instant(time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC).UnixMicro()))
			if g := s.Ask(moved, store.Call{Cost: 1}); g.OK {
				t.Fatal("a second call in January, because the time zone changed on its 31st day")
			}
		}},
		{"window/slack", "a call may go until its window ends, less the guard", func(t testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.Fixed(1, time.Second).Skew(100 * ms)})
			s.At(200 * ms)
			if g := s.Go(st, 1, 200*ms); g.Slack != 700*ms-time.Microsecond {
				t.Fatalf("slack %v, want 699.999 ms", g.Slack)
			}
			if g := s.Go(st, 1, time.Second); g.Slack != 900*ms-time.Microsecond {
				t.Fatalf("slack %v, want 899.999 ms", g.Slack)
			}
		}},
		{"window/limit-changes-at-once", "a raised limit opens the windows that were full, a lowered one closes them", func(_ testing.TB, s *Session) {
			two, four := s.Stack(Key{Policy: policies.Fixed(2, time.Second).Named("x")}), s.Stack(Key{Policy: policies.Fixed(4, time.Second).Named("x")})
			s.Go(two, 1, 0)
			s.Go(two, 1, 0)
			s.Go(two, 1, time.Second)
			s.Go(two, 1, time.Second)
			s.Go(two, 1, 2*time.Second)
			s.Go(four, 2, 0)
			s.Go(four, 1, time.Second)
			s.Go(two, 1, 2*time.Second)
			s.Go(two, 1, 3*time.Second)
			s.Go(four, 1, time.Second)
			s.Go(four, 1, 2*time.Second)
		}},
		{"window/hundred-buckets", "a call counts until its bucket is a period old, and no longer, however calls come", func(t testing.TB, s *Session) {
			const limit, width = 60, 10 * ms
			st := s.Stack(Key{Policy: policies.Sliding(limit, time.Second).Buckets(100)})
			rng, now, held, granted := rand.New(rand.NewPCG(1, 2)), time.Duration(0), make(map[time.Duration]int64), 0
			for i := range 800 {
				now += time.Duration(rng.Int64N(int64(3 * width)))
				if i%100 == 99 {
					now += time.Duration(rng.Int64N(int64(2 * time.Second)))
				}
				s.At(now)
				n, bucket, sum := 1+rng.Int64N(3), now/width, int64(0)
				for b := bucket - 100; b <= bucket; b++ {
					sum += held[b]
				}
				g := s.Ask(st, store.Call{Cost: n})
				if g.OK != (sum+n <= limit) {
					t.Fatalf("at %v %d are held in the window, and a call of %d was answered %v", now, sum, n, g)
				}
				if !g.OK {
					continue
				}
				granted++
				held[bucket] += n
				if g.Charges[0].Seen != held[bucket] {
					t.Fatalf("at %v the bucket holds %d, not %d", now, held[bucket], g.Charges[0].Seen)
				}
			}
			if granted < 300 || granted > 700 {
				t.Fatalf("%d of 800 were granted: that proves little", granted)
			}
		}},
		{"window/in-one-request", "calls that are granted together count for each other, wherever they go", func(t testing.TB, s *Session) {
			slow := Key{Policy: policies.Every(time.Second).Named("slow")}
			wide := Key{Policy: policies.Sliding(4, time.Second).Buckets(10).Named("wide")}
			both, alone := s.Stack(wide, slow), s.Stack(wide)
			s.Go(both, 1, 0)
			s.At(100 * ms)
			ahead, dear := store.Call{Cost: 1, MaxWait: store.Forever}, store.Call{Cost: 1, Costs: []int64{2, 1}, MaxWait: store.Forever}
			batches := []store.Batch{
				{Stack: both, Calls: []store.Call{ahead, ahead, ahead, ahead, dear, ahead}},
				{Stack: alone, Calls: []store.Call{
					{Cost: 1, NotBefore: time.Microsecond, MaxWait: store.Forever},
					{Cost: 1, NotBefore: 5900 * ms, MaxWait: store.Forever},
				}},
			}
			s.AskEach(batches)
			var got []time.Duration
			for _, g := range append(batches[0].Grants, batches[1].Grants...) {
				got = append(got, Since(g.At))
			}
			// The last one goes beside the sixth, and counts with the fifth.
			want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second, 5 * time.Second, 6 * time.Second, 100*ms + time.Microsecond, 6 * time.Second}
			if !slices.Equal(got, want) {
				t.Fatalf("they go at %v, want %v", got, want)
			}
		}},
		{"window/long-line", "a long line in a window stays in order, and what is cancelled in it is found again", func(_ testing.TB, s *Session) {
			st := s.Stack(Key{Policy: policies.Sliding(5, time.Second).Buckets(4)})
			var line []store.Grant
			for i := range 200 {
				line = append(line, s.Go(st, 1, time.Duration(i/5)*1250*ms))
			}
			s.Cancel(st, line[100])
			s.Go(st, 1, Since(line[100].At))
			s.Go(st, 1, 40*1250*ms)
		}},
	}
}

package policies_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// same returns how two policies differ, as far as that can be seen from outside.
func same(p, q policies.Policy) error {
	views := []func(policies.Policy) any{
		func(p policies.Policy) any { return p.String() },
		func(p policies.Policy) any { return p.Name() },
		func(p policies.Policy) any { return p.Scopes() },
		func(p policies.Policy) any { return p.IsOptional() },
		func(p policies.Policy) any { return p.IsObserved() },
		func(p policies.Policy) any { return p.Lanes() },
		func(p policies.Policy) any { return []any{p.FairBy(), p.Weight("party")} },
		func(p policies.Policy) any { n, period := p.Limit(); return []any{n, period} },
		func(p policies.Policy) any { return plain(p.Spec()) },
		func(p policies.Policy) any { return windows(p.Spec().Calendar) },
		func(p policies.Policy) any { return plain(p.Lowered(3).Spec()) },
		func(p policies.Policy) any {
			return plain(policies.Stacked([]policies.Policy{p, policies.InFlight(1).Per("another")})[0].Spec())
		},
		func(p policies.Policy) any {
			var shares []specs.Spec
			for n := range 5 {
				shares = append(shares, plain(p.Share(n)))
			}
			return shares
		},
	}
	for i, view := range views {
		if a, b := view(p), view(q); !reflect.DeepEqual(a, b) {
			return fmt.Errorf("%v: view %d is %v and %v", p, i, a, b)
		}
	}
	for _, lane := range p.Lanes() {
		a, inA := p.InLane(lane)
		b, inB := q.InLane(lane)
		if inA != inB {
			return fmt.Errorf("%v: lane %s is there and not there", p, lane)
		}
		if err := same(a, b); err != nil {
			return err
		}
	}
	return nil
}

// plain returns a spec without its calendar, which is compared by its windows.
func plain(s specs.Spec) specs.Spec {
	s.Calendar = nil
	return s
}

// windows returns the bounds of a calendar around some days, on two of which clocks are moved.
func windows(c *specs.Calendar) (all []int64) {
	if c == nil {
		return nil
	}
	for _, day := range []time.Time{
		time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2025, 3, 9, 7, 0, 0, 0, time.UTC),
		time.Date(2025, 3, 30, 1, 0, 0, 0, time.UTC), time.Date(2031, 7, 5, 12, 0, 0, 0, time.UTC),
	} {
		all = append(all, c.Bounds(day.UnixMicro(), day.Add(9*time.Hour).UnixMicro())...)
	}
	return all
}

// roundTrip returns what a valid policy, or a lane's part of it, loses when it is written and read.
func roundTrip(p policies.Policy) error {
	q, err := policies.Parse(p.String())
	if err != nil {
		return fmt.Errorf("%v: %w", p, err)
	}
	errs := []error{same(p, q)}
	for _, lane := range p.Lanes() {
		if part, ok := p.InLane(lane); ok {
			errs = append(errs, roundTrip(part))
		}
	}
	return errors.Join(errs...)
}

// Every valid policy is read back as it was written.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	want := 1000
	if os.Getenv("HEADWAY_LONG") != "" {
		want = 5000
	}
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	valid, seen := 0, map[specs.Algorithm]int{}
	for tries := 0; valid < want; tries++ {
		require.Less(t, tries, 20*want, "too few of the policies are valid")
		p := anyPolicy(r)
		if p.Validate() != nil {
			continue
		}
		valid++
		seen[p.Spec().Algorithm]++
		require.NoError(t, roundTrip(p), "seed %d", seed)
		text, err := p.MarshalText()
		require.NoError(t, err)
		require.Equal(t, p.String(), string(text))
	}
	for _, a := range []specs.Algorithm{specs.GCRA, specs.Window, specs.Concurrency} {
		require.Greater(t, seen[a], want/20, "of %v", a)
	}
}

// zones are those of anyPolicy.
var zones = sync.OnceValue(func() (all []*time.Location) {
	for _, name := range []string{"UTC", "Europe/Berlin", "America/St_Johns", "Etc/GMT+5", "Australia/Lord_Howe"} {
		loc, err := time.LoadLocation(name)
		if err != nil {
			panic(err)
		}
		all = append(all, loc)
	}
	return all
})

// anyPolicy returns one of any constructor with any settings, not all of them valid.
func anyPolicy(r *rand.Rand) policies.Policy {
	all := zones()
	loc := all[r.IntN(len(all))]
	n, period := anyNumber(r), anyDuration(r)
	p := []func() policies.Policy{
		func() policies.Policy { return policies.PerSecond(n) },
		func() policies.Policy { return policies.PerMinute(n) },
		func() policies.Policy { return policies.Every(period) },
		func() policies.Policy { return policies.Rate(n, period) },
		func() policies.Policy { return policies.AtMost(n, period) },
		func() policies.Policy { return policies.Fixed(n, period) },
		func() policies.Policy { return policies.Sliding(n, period) },
		func() policies.Policy { return policies.Hourly(n, loc) },
		func() policies.Policy { return policies.Daily(n, loc) },
		func() policies.Policy { return policies.Monthly(n, loc) },
		func() policies.Policy { return policies.InFlight(n) },
		func() policies.Policy { return policies.InFlight(n).LongerThan(anyDuration(r) % time.Hour) },
	}[r.IntN(12)]()
	for range r.IntN(5) {
		p = anySetting(r, p)
	}
	return p
}

func anySetting(r *rand.Rand, p policies.Policy) policies.Policy {
	word := func() string { return []string{"tenant", "a", "B.2", "user_x", "x-9"}[r.IntN(5)] }
	fits := func(q policies.Policy) policies.Policy { // keep what is valid valid, most of the time
		if p.Validate() == nil && q.Validate() != nil && r.IntN(10) > 0 {
			return p
		}
		return q
	}
	switch r.IntN(12) {
	case 0:
		return fits(p.Burst(anyNumber(r)))
	case 1:
		return fits(p.Skew(anyDuration(r)))
	case 2:
		return fits(p.Buckets(1 + r.Int64N(100)))
	case 3:
		return fits(p.Lease(anyDuration(r)))
	case 4:
		return fits(p.Burst(2+r.Int64N(20)).Lane(word(), 1+r.Int64N(100)).Lane("other", 1+r.Int64N(100)))
	case 5:
		return fits(p.Lane(word(), 1+r.Int64N(100)))
	case 6:
		return fits(p.Fair(word()))
	case 7:
		return fits(p.Adaptive(policies.Adaptation{
			Floor: r.IntN(3) * r.IntN(50), Decrease: r.IntN(2) * r.IntN(100),
			Hold: time.Duration(r.IntN(2)) * anyDuration(r), Recovery: time.Duration(r.IntN(2)) * anyDuration(r),
		}))
	case 8:
		return fits(p.Per(word(), "z"))
	case 9:
		return fits(p.Per(word()).Optional())
	case 10:
		return fits(p.Observed())
	default:
		return fits(p.Named(word() + ".9"))
	}
}

// anyNumber returns small numbers and large ones.
func anyNumber(r *rand.Rand) int64 { return 1 + r.Int64N(1<<(1+r.IntN(42))) }

// anyDuration returns round durations and odd ones, of a nanosecond to ten years.
func anyDuration(r *rand.Rand) time.Duration {
	unit := []time.Duration{1, time.Microsecond, time.Millisecond, time.Second, time.Minute, time.Hour}[r.IntN(6)]
	return min(unit*time.Duration(1+r.Int64N(1<<(1+r.IntN(17)))), specs.MaxPeriod)
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"peak: 25 per 1s, burst 10, per tenant", "1 per 1.5s", "25/s", "at most 50 in any 1s, burst 1, skew 0s",
		"at most 120 in any 1m, in 7 buckets, skew 1ms", "300 per window of 10s, skew 50ms", "day: 100_000 daily (Europe/Berlin)",
		"5000 hourly (UTC), skew 1s", "9 monthly (Etc/GMT+5), 50 % for lane batch, 10% for lane low", "1 daily (localtime)",
		"25 in flight for longer than 20s, lease 1m, fair by user", "a.b: 9 per 1s, burst 2, 80 % of it, per a+b, optional",
		"60 per minute, adaptive (floor 10 %, decrease 7 %, hold 5s, recovery 1h)", "9/s, adaptive ()",
		"10/s, burst 5, per a + b, optional, observed", "9/s, 50% for lane fair, per lane", "9/day, in 3 buckets", "9 monthly (UTC)", "", ":", ",", "(((", "1 daily )(", "\xff",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := policies.Parse(text)
		if err != nil {
			require.ErrorAs(t, err, new(*policies.Error))
			require.NotEmpty(t, err.Error())
			return
		}
		require.NoError(t, p.Validate())
		require.NoError(t, roundTrip(p))
		require.LessOrEqual(t, len(p.String()), 4096)
	})
}

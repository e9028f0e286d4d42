package stacks

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The optimum of single limits, by hand, in µs from the epoch on.
func TestTheOptimumByExample(t *testing.T) {
	t.Parallel()
	second := time.Second
	deep := []demand{{deep: true}}
	for name, c := range map[string]struct {
		bounds  []bound
		demands []demand
		seconds int64
		want    int
	}{
		"a rate":                   {[]bound{{kind: evenly, n: 10, period: second}}, deep, 10, 100},
		"with a burst":             {[]bound{{kind: evenly, n: 10, period: second, burst: 5}}, deep, 10, 104},
		"shared":                   {[]bound{{kind: evenly, n: 10, period: second, shared: true}}, deep, 10, 101},
		"beside permits":           {[]bound{{kind: evenly, n: 10, period: second, beside: true}}, deep, 10, 101},
		"one, beside permits":      {[]bound{{kind: evenly, n: 1, period: second, beside: true}}, deep, 10, 10},
		"at most, beside permits":  {[]bound{{kind: atMost, n: 10, period: second, beside: true}}, deep, 10, 100},
		"at most":                  {[]bound{{kind: atMost, n: 10, period: second, skew: second}}, deep, 10, 50},
		"at most, burst":           {[]bound{{kind: atMost, n: 10, period: second, burst: 3}}, deep, 10, 100},
		"sliding":                  {[]bound{{kind: sliding, n: 10, period: second, buckets: 10}}, deep, 11, 100},
		"a window of the clock":    {[]bound{{kind: fixed, n: 7, period: second}}, deep, 10, 70},
		"permits":                  {[]bound{{kind: permits, n: 3, takes: 500 * time.Millisecond}}, deep, 10, 60},
		"permits that stay empty":  {[]bound{{kind: permits, n: 3, takes: 500 * time.Millisecond, skew: 500 * time.Millisecond}}, deep, 10, 30},
		"the lower of two":         {[]bound{{kind: fixed, n: 7, period: second}, {kind: evenly, n: 5, period: second}}, deep, 10, 50},
		"tenants bind":             {[]bound{{kind: evenly, n: 50, period: second}, {kind: evenly, n: 5, period: second, perTenant: true}}, []demand{{deep: true}, {deep: true}}, 10, 100},
		"the shared limit binds":   {[]bound{{kind: evenly, n: 7, period: second}, {kind: evenly, n: 5, period: second, perTenant: true}}, []demand{{deep: true}, {deep: true}}, 10, 70},
		"one calls now and then":   {[]bound{{kind: evenly, n: 50, period: second}, {kind: evenly, n: 5, period: second, perTenant: true}}, []demand{{deep: true}, {comes: []int64{1, 2, 3_000_000}}}, 10, 53},
		"nobody has a limit alone": {[]bound{{kind: evenly, n: 7, period: second}}, []demand{{deep: true}, {deep: true}}, 10, 70},
	} {
		require.Equal(t, c.want, optimum(c.bounds, c.demands, 0, c.seconds*1_000_000), name)
	}
}

// Calls that pass barriers obey their bounds, and not with one call more, and the barriers are no later than they must be.
func TestBarriersAreTight(t *testing.T) {
	t.Parallel()
	second := time.Second
	for _, b := range []bound{
		{kind: evenly, n: 7, period: second, burst: 3}, {kind: atMost, n: 7, period: second, skew: 10 * time.Millisecond},
		{kind: atMost, n: 7, period: second, burst: 4}, {kind: fixed, n: 7, period: second, skew: 20 * time.Millisecond},
		{kind: permits, n: 3, takes: 300 * time.Millisecond, skew: 7 * time.Millisecond}, {kind: sliding, n: 7, period: second, buckets: 100},
	} {
		one, at := barriers{&barrier{bound: b}}, int64(0)
		var calls []sent
		for i := range 200 {
			at = one.pass(max(at, int64(i*i%7)*90_000))
			calls = append(calls, sent{slot: at, at: at, until: at + b.takes.Microseconds()})
		}
		require.Empty(t, b.breach(calls), "%+v", b)
		sooner := 0
		for i := range calls {
			if b.kind == sliding {
				break // which is conservative
			}
			moved := slices.Clone(calls[:i+1])
			moved[i].at--
			moved[i].slot--
			moved[i].until--
			if i > 0 && moved[i].at >= moved[i-1].at && b.breach(moved) != "" {
				sooner++
			}
		}
		require.True(t, b.kind == sliding || sooner > 20, "%+v: only %d of 200 could not go sooner", b, sooner)
	}
}

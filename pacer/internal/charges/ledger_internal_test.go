package charges

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// remembering returns a ledger in which one call of each of some policies was granted at 1,000.
func remembering(policy ...string) *Ledger {
	r := &Ledger{}
	for _, p := range policy {
		r.Granted(stackOf(p), []store.Grant{grantAt(1_000)})
	}
	return r
}

func stackOf(policy string) *store.Stack {
	spec := policies.Fixed(10, specs.MaxPeriod/2).Spec()
	return &store.Stack{Limits: []store.Limit{{Policy: policy, Spec: spec}}}
}

// grantAt is a grant of one call of a window that is empty.
func grantAt(now store.Instant) store.Grant {
	return store.Grant{OK: true, Now: now, At: now, Binds: store.BindsNothing, Charges: []store.Charge{{To: 1, Seen: 1, Made: int64(now)}}}
}

// known returns the policies that the ledger would remind a store of.
func (r *Ledger) known() []string {
	var all []string
	for _, m := range r.Messages(2_000, true) {
		for _, l := range m.Limits {
			all = append(all, l.Policy)
		}
	}
	slices.Sort(all)
	return all
}

// A reset is forgotten, and nothing else is.
func TestAResetForgetsWhatItNames(t *testing.T) {
	t.Parallel()
	of := func(n int64, keys ...string) store.Reset {
		r := store.Reset{Epoch: store.Epoch{Began: 7, Resets: n}, Now: 1_500}
		for _, k := range keys {
			r.Keys = append(r.Keys, store.Key{Policy: k})
		}
		return r
	}
	everything, other := of(1), of(1, "a")
	everything.All, other.Epoch.Began = true, 6
	for name, c := range map[string]struct {
		resets []store.Reset
		met    int64
		now    int64
		knows  []string
	}{
		"one":                                {[]store.Reset{of(1, "a")}, 1, 1, []string{"b", "c"}},
		"one that named nothing":             {[]store.Reset{of(1)}, 1, 1, []string{"a", "b", "c"}},
		"one that named everything":          {[]store.Reset{everything}, 1, 1, nil},
		"two":                                {[]store.Reset{of(1, "a"), of(2, "c", "x")}, 2, 2, []string{"b"}},
		"one that was not met yet":           {[]store.Reset{of(1, "a"), of(2, "b")}, 1, 2, []string{"c"}},
		"nothing is listed":                  {nil, 1, 1, nil},
		"the first is not listed any more":   {[]store.Reset{of(2, "a")}, 2, 2, nil},
		"the last is not listed":             {[]store.Reset{of(1, "a")}, 2, 2, nil},
		"what is listed is of other data":    {[]store.Reset{other}, 1, 1, nil},
		"no reset, and none is listed":       {nil, 0, 0, []string{"a", "b", "c"}},
		"no reset that it does not know yet": {[]store.Reset{of(0, "a")}, 0, 0, []string{"a", "b", "c"}},
	} {
		r := remembering("a", "b", "c")
		e, _ := r.Heed(c.resets, store.Epoch{Began: 7}, store.Epoch{Began: 7, Resets: c.met}, 0)
		require.Equal(t, store.Epoch{Began: 7, Resets: c.now}, e, name)
		require.Equal(t, c.knows, r.known(), name)
	}
}

// Grants and charges from before a reset do not come back by an answer that the reset overtook, and later ones are kept.
func TestAnAnswerThatAResetOvertook(t *testing.T) {
	t.Parallel()
	r := remembering("a")
	from, to := store.Epoch{Began: 7}, store.Epoch{Began: 7, Resets: 1}
	r.Heed([]store.Reset{{Epoch: to, Now: 1_500, Keys: []store.Key{{Policy: "a"}}}}, from, to, 0)
	r.Granted(stackOf("a"), []store.Grant{grantAt(1_400)})
	r.Learned(stackOf("a").Limits, []store.Holding{{Buckets: []store.Charge{{To: 9}}}}, nil, 1_450)
	require.Empty(t, r.keys[store.Key{Policy: "a"}].counts)
	r.Granted(stackOf("a"), []store.Grant{grantAt(1_600)})
	r.GivenBack(stackOf("a"), []store.Grant{grantAt(1_400)}, false)
	require.Equal(t, buckets{{n: 1, own: 1}}, r.keys[store.Key{Policy: "a"}].counts)
}

// A process's memory is bounded in keys, intervals and buckets.
func TestTheLedgerIsBounded(t *testing.T) {
	t.Parallel()
	hour, window := store.Limit{Spec: policies.Every(time.Hour).Spec()}, store.Limit{Policy: "window", Spec: policies.Fixed(10, time.Second).Spec()}
	r := &Ledger{}
	grant := func(l store.Limit, from, to int64) {
		r.Granted(&store.Stack{Limits: []store.Limit{l}}, []store.Grant{{OK: true, Now: 1_000, At: store.Instant(from), Binds: store.BindsNothing, Charges: []store.Charge{{From: from, To: to}}}})
	}
	for i := range int64(maxRecords + 100) {
		l := hour
		l.Scope = strconv.FormatInt(i, 10)
		grant(l, 2_000, 3_000)
	}
	for i := range int64(2 * maxBuckets) {
		grant(hour, 2_000*(i+1), 2_000*(i+1)+1_000)
		grant(window, i, 1)
	}
	require.LessOrEqual(t, len(r.keys), maxRecords)
	require.Greater(t, len(r.keys), maxRecords/2)
	rate, counts := r.keys[hour.Key()], r.keys[window.Key()].counts
	require.Len(t, rate.spans, maxSpans)
	require.Len(t, rate.own, maxSpans)
	require.Len(t, counts, maxBuckets)
	require.Equal(t, int64(2*maxBuckets-1), counts[maxBuckets-1].bucket, "the latest")
}

package pacer_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/shares"
	"github.com/headway-go/headway/pacer/memstore"
)

// Parties of random mixes have what the oracle gives them of a rate: within 5 % of all, in 19 of 20 intervals within 3 %, and their floors
// within a second after they come back. With estimates of half to four times the cost, half of the intervals are within 4 %. Of permits, each
// has its part of their time: within 10 % of all in 19 of 20 intervals. Of windows, a party has its floor, whatever the others want; with
// estimates of up to four times the cost, it lacks of a sliding one what its own calls under way are estimated too high. With HEADWAY_LONG=1,
// it plays 187 mixes.
func TestSharesOfRandomMixes(t *testing.T) {
	t.Parallel()
	for _, kind := range shares.Kinds {
		for _, estimates := range []bool{false, true} {
			if kind == shares.Permits && estimates {
				continue
			}
			t.Run(fmt.Sprint(kind, estimates), func(t *testing.T) {
				t.Parallel()
				var all shares.Figure
				for _, seed := range seedsOf(kind, estimates) {
					synctest.Test(t, func(t *testing.T) {
						m, shared := shares.New(kind, seed, estimates), memstore.New()
						var fleet []*pacer.Pacer
						for range 2 {
							fleet = append(fleet, newPacer(t, pacer.Config{Store: shared, MaxWait: pacer.Forever, Policies: m.Policies()}))
						}
						all.Add(m.Play(t, fleet).Judge())
					})
				}
				t.Log(all.String())
				require.NotEmpty(t, all.Short, "the limit never binds")
				switch kind {
				case shares.Permits:
					require.LessOrEqual(t, shares.Quantile(all.Short, 0.5), 0.03)
					require.LessOrEqual(t, shares.Quantile(all.Short, 0.95), 0.10)
				case shares.Rate, shares.Exact:
					judgeRates(t, &all, estimates)
				case shares.Sliding, shares.Fixed, shares.Calendar:
					judgeWindows(t, &all, kind, estimates)
				}
			})
		}
	}
}

// seedsOf returns the seeds of the mixes that a test plays: few in which the limit binds throughout, or all.
func seedsOf(kind shares.Kind, estimates bool) (all []uint64) {
	if extent(true, false) {
		of := short[kind]
		if estimates {
			return of[1]
		}
		return of[0]
	}
	for seed := range uint64(17) {
		all = append(all, seed)
	}
	return all
}

// short has a mix with known costs and one with estimates of each kind. A mix of permits has few intervals.
var short = map[shares.Kind][2][]uint64{
	shares.Rate: {{8}, {7}}, shares.Exact: {{5}, {1}}, shares.Sliding: {{2}, {16}}, shares.Fixed: {{16}, {5}}, shares.Calendar: {{6}, {7}}, shares.Permits: {{0, 1, 2}},
}

func judgeRates(t *testing.T, all *shares.Figure, estimates bool) {
	t.Helper()
	if estimates {
		require.LessOrEqual(t, shares.Quantile(all.Short, 0.5), 0.04)
		return
	}
	if extent(false, true) {
		require.LessOrEqual(t, shares.Quantile(all.Short, 0.95), 0.03)
	}
	require.LessOrEqual(t, shares.Quantile(all.Short, 1), 0.05)
	if len(all.Late) > 0 {
		require.LessOrEqual(t, slices.Max(all.Late), time.Second)
	}
}

func judgeWindows(t *testing.T, all *shares.Figure, kind shares.Kind, estimates bool) {
	t.Helper()
	floor := 0.05
	switch {
	case estimates && kind == shares.Sliding:
		floor = 0.30
	case estimates:
		floor = 0.20
	}
	require.LessOrEqual(t, shares.Quantile(all.Floor, 1), floor)
	require.LessOrEqual(t, shares.Quantile(all.Short, 0.5), 0.20)
}

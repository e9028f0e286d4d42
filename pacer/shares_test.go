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
// has its part of their time: within 10 % of all in 19 of 20 intervals. With HEADWAY_LONG=1, it plays 187 mixes: then it also logs what parties
// have of windows, which promise no order between them.
func TestSharesOfRandomMixes(t *testing.T) {
	t.Parallel()
	for _, kind := range shares.Kinds {
		for _, estimates := range []bool{false, true} {
			judged := kind == shares.Rate || kind == shares.Exact || kind == shares.Permits
			if kind == shares.Permits && estimates || extent(!judged, false) {
				continue
			}
			t.Run(fmt.Sprint(kind, estimates), func(t *testing.T) {
				t.Parallel()
				var all shares.Figure
				for seed := range extent[uint64](3, 17) {
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
				switch {
				case kind == shares.Permits:
					require.LessOrEqual(t, shares.Quantile(all.Short, 0.5), 0.03)
					require.LessOrEqual(t, shares.Quantile(all.Short, 0.95), 0.10)
				case judged:
					judgeRates(t, &all, estimates)
				}
			})
		}
	}
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

package faulttest_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/redistest"
)

// The size of a history.
const (
	clients    = 6
	operations = 40 // of each client
)

// defaultHistories is how many histories are checked without HEADWAY_HISTORIES.
func defaultHistories() uint64 {
	if long() {
		return 1000
	}
	return 50
}

// TestRedisStoreIsLinearizable is described in the package's documentation.
func TestRedisStoreIsLinearizable(t *testing.T) {
	t.Parallel()
	histories, _ := number(t, "HEADWAY_HISTORIES", defaultHistories())
	require.NotZero(t, histories)
	seed, same := number(t, "HEADWAY_SEED", 1)

	all := connect(t, redistest.Start(t).Addr)
	var did, overlapping int
	var seen tally
	for i := range histories {
		if !same {
			seed = 1 + i
		}
		h, err := record(t.Context(), all, operations, seed)
		require.NoError(t, err)
		v := judge(h)
		if v.CheckResult != porcupine.Ok {
			fail(t, &v, seed)
		}
		did += len(h)
		overlapping += h.overlapping()
		seen.count(h)
	}
	t.Logf("%d operations in %d histories", did, histories)
	t.Logf("%d %% overlap another client's; %+v", 100*overlapping/did, seen)
	require.Positive(t, overlapping, "clients that wait for each other prove nothing")
}

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise uint64) (n uint64, set bool) {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	require.NoError(t, err, name)
	return n, true
}

func fail(t *testing.T, v *verdict, seed uint64) {
	t.Helper()
	dir, err := os.MkdirTemp("", "headway-history-") //nolint:usetesting // the picture is for afterwards
	require.NoError(t, err)
	why, err := v.explain(dir, fmt.Sprintf("seed-%d", seed))
	require.NoError(t, err)
	t.Fatalf("a history that should be linearizable is not, or was too much for the checker: %s. HEADWAY_SEED=%d repeats what the clients like to ask, not how they interleave.\n%s", v.CheckResult, seed, why)
}

// A tally counts what histories held, so that one sees what was checked.
type tally struct{ now, later, refused, cancelled, reported, changed, looked int }

func (s *tally) count(h history) {
	for _, op := range h {
		for _, g := range op.grants {
			switch {
			case !g.OK:
				s.refused++
			case g.At == g.Now:
				s.now++
			default:
				s.later++
			}
		}
		s.changed += op.changed
		switch {
		case op.cancel != nil:
			s.cancelled++
		case op.notes != nil:
			s.reported++
		case op.calls == nil:
			s.looked++
		}
	}
}

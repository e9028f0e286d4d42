package pacer_test

import (
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/faulty"
	"github.com/headway-go/headway/policies"
)

// Each operation has a text that reads as a sentence.
func TestStoreErrorTexts(t *testing.T) {
	t.Parallel()

	for op, want := range map[string]string{
		"reserve":  "the store failed to reserve a slot: lost",
		"cancel":   "the store failed to cancel a reservation: lost",
		"report":   "the store failed to record what was reported: lost",
		"status":   "the store failed to read the status: lost",
		"index":    "the store failed to list the processes: lost",
		"book":     "the store failed to book a slot: lost",
		"redeem":   "the store failed to redeem the token: lost",
		"set":      "the store failed to change the settings: lost",
		"settings": "the store failed to read the settings: lost",
		"ready":    "the store is not ready: lost",
	} {
		err := &pacer.StoreError{Upstream: "crm", Op: op, Err: errors.New("lost")}
		require.EqualError(t, err, `pacer: upstream "crm": `+want)
	}
}

// A call that may not wait has nothing left of its wait, however long the way to its store is.
func TestACallThatMayNotWait(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit    policies.Policy
		says, at string
	}{
		{policies.Every(time.Hour), `the next slot is \S+ away, further than`, "then"},
		{policies.InFlight(1), `its only permit is taken for longer than`, "later"},
	} {
		p, err := pacer.New(pacer.Config{Upstream: "api", Store: faulty.New(), Policies: []policies.Policy{c.limit}})
		require.NoError(t, err)
		_, err = p.Acquire(t.Context(), pacer.MaxWait(0))
		require.NoError(t, err)
		for range 20 {
			_, err = p.Acquire(t.Context(), pacer.MaxWait(0))
			require.Regexp(t, c.says+regexp.QuoteMeta(" the longest wait allowed (0s): try again "+c.at+", or let the call wait")+"$", err.Error())
		}
		require.NoError(t, p.Close())
	}
}

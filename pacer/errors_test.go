package pacer_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
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

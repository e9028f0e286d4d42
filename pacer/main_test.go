package pacer_test

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

// No goroutine outlives what started it. What the library logs by default is for those who run it: see TestWhoLogsALostStore.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

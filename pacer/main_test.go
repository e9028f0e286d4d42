package pacer_test

import (
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// No goroutine outlives its creator. The library's default log is for operators: see TestWhoLogsALostStore.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

// extent returns its first value, or the second if HEADWAY_LONG is set. Tests choose the number of their random histories, the size of their
// crowds and the length of their watches by it.
func extent[T any](short, long T) T {
	if os.Getenv("HEADWAY_LONG") != "" {
		return long
	}
	return short
}

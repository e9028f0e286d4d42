package warnings_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/failover"
	"github.com/headway-go/headway/pacer/internal/warnings"
)

// A line has how long the store has been lost only if that is known: the first line of a loss comes with it.
func TestHowLongAStoreIsLost(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		change failover.Change
		want   string // "" for none
	}{
		{failover.Change{Lost: true, For: 35 * time.Microsecond}, ""},
		{failover.Change{Lost: true, For: 61*time.Second + 35*time.Microsecond}, " for=1m1s "},
		{failover.Change{Lost: true, Never: true}, ""},
		{failover.Change{For: 300 * time.Millisecond}, " after=300ms"},
		{failover.Change{}, ""},
	} {
		var log strings.Builder
		one.change.Err = errors.New("down")
		warnings.LogChange(slog.New(slog.NewTextHandler(&log, nil)), "crm", "pace locally", one.change)
		if require.Contains(t, log.String(), one.want); one.want == "" {
			require.NotContains(t, log.String(), " for=")
			require.NotContains(t, log.String(), " after=")
		}
	}
}

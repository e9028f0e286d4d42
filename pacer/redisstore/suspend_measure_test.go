//go:build measure && unix

package redisstore_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/transport/upstreamtest"
)

// One process of four is suspended, with its calls asleep, and goes on: the slots that it missed are lost, and given back, but
// it does not use them late. Measured: for 3 s, without a refusal, and nine tenths of the limit are used.
func TestFleetWhileAProcessIsSuspended(t *testing.T) {
	const away = 3 * time.Second
	upstream := newStrict(upstreamtest.Sliding(50, time.Second))
	var from, to int64
	j := job{
		Fleet: "sliding", Variant: "-suspended", Duration: 12 * time.Second,
		meanwhile: func(s *scene) {
			time.Sleep(4 * time.Second)
			from = micros()
			require.NoError(t, s.processes[0].Process.Signal(syscall.SIGSTOP))
			time.Sleep(away)
			to = micros()
			require.NoError(t, s.processes[0].Process.Signal(syscall.SIGCONT))
		},
	}
	p := play(t, upstream, j, crewed(crew{Tenant: "x", Goroutines: 16}))
	requireTruth(t, p, fiftyASecond)
	// It wakes all of its calls within a moment. A call that goes later than MaxLate after its slot was on its way already: as many as can
	// be between two instructions.
	stale, after := 0, 0
	for _, o := range p.calls() {
		if o.process == 0 && o.At >= to {
			after++
			if o.Slot > from && o.Slot+o.Slack+(500*time.Millisecond+time.Second).Microseconds() < o.At && o.Slot < to {
				stale++
			}
		}
	}
	require.Positive(t, after, "it goes on")
	require.LessOrEqual(t, stale, 2, "stale slots are not used")
	n := upstream.Admitted()
	measure.Judge(t, p.late, time.Hour, fmt.Sprintf("%d calls, %d times 429, %d after it went on", n, upstream.Refused(), after), upstream.Refused() == 0 && n >= 12*50*9/10)
}

//go:build unix

package redisstore_test

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/internal/redistest"
)

// One process of four is suspended for 3 s, with its calls asleep, and goes on: the slots that it missed are lost, but it
// does not use them late.
func TestFleetWhileAProcessIsSuspended(t *testing.T) { //nolint:paralleltest // it measures
	atBest(t, func() (string, bool) {
		upstream := &strict{limits: []strictLimit{{n: 50, period: time.Second}}}
		j := job{Fleet: "sliding", Duration: 12 * time.Second, meanwhile: func(_ *redistest.Server, processes []*exec.Cmd) {
			time.Sleep(4 * time.Second)
			_ = processes[0].Process.Signal(syscall.SIGSTOP)
			time.Sleep(3 * time.Second)
			_ = processes[0].Process.Signal(syscall.SIGCONT)
		}}
		play(t, upstream, j, func(int) []crew { return []crew{{Tenant: "x", Goroutines: 16}} })
		n := len(upstream.went)
		return fmt.Sprintf("%d calls, %d times 429", n, upstream.no), upstream.no == 0 && n >= 12*50*9/10
	})
}

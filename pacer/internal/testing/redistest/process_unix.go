//go:build unix && !linux

package redistest

import (
	"os"
	"os/exec"
	"syscall"
)

// pauseSignals returns the signals that freeze a process and thaw it.
func pauseSignals() (pause, resume os.Signal) { return syscall.SIGSTOP, syscall.SIGCONT }

// dieWithParent does nothing: only Linux can tie a child's life to its parent's.
func dieWithParent(*exec.Cmd) {}

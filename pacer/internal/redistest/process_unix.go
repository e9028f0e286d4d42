//go:build unix && !linux

package redistest

import (
	"os"
	"os/exec"
	"syscall"
)

var (
	pauseSignal    os.Signal = syscall.SIGSTOP
	continueSignal os.Signal = syscall.SIGCONT
)

// dieWithParent does nothing: only Linux can tie a child's life to its parent's.
func dieWithParent(*exec.Cmd) {}

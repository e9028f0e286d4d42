//go:build !unix

package redistest

import (
	"os"
	"os/exec"
)

// A nil signal means that this system cannot pause a process.
var (
	pauseSignal    os.Signal
	continueSignal os.Signal
)

// dieWithParent does nothing: only Linux can tie a child's life to its parent's.
func dieWithParent(*exec.Cmd) {}

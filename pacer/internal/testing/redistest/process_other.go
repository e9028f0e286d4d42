//go:build !unix

package redistest

import (
	"os"
	"os/exec"
)

// pauseSignals returns nil: this system cannot freeze a process.
func pauseSignals() (pause, resume os.Signal) { return nil, nil }

// dieWithParent does nothing: only Linux can tie a child's life to its parent's.
func dieWithParent(*exec.Cmd) {}

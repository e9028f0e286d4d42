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

// dieWithParent has the kernel kill the server when the test binary dies without running its cleanups,
// as it does when a test times out.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

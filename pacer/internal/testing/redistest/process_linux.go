package redistest

import (
	"os"
	"os/exec"
	"syscall"
)

// pauseSignals returns the signals that freeze a process and thaw it.
func pauseSignals() (pause, resume os.Signal) { return syscall.SIGSTOP, syscall.SIGCONT }

// dieWithParent has the kernel kill the server when the test binary dies without running its cleanups,
// as it does when a test times out.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/cli"
	"github.com/headway-go/headway/pacer/cmd/headway/internal/screen"
)

// terminal is the command in a terminal of its own, as another process.
type terminal struct {
	*screen.Screen

	t    *testing.T
	pty  *os.File
	code chan int
	raw  *bytes.Buffer // what was written, once the command has ended
	done chan struct{} // it has, and all of that was read
}

func inTerminal(t *testing.T, columns, rows uint16, env []string, args ...string) *terminal {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), append([]string{asCommand + "=1", "TERM=xterm-256color", "NO_COLOR=", "CI="}, env...)...)
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: rows, Cols: columns})
	require.NoError(t, err)
	term := &terminal{screen.New(int(columns), int(rows), f), t, f, make(chan int, 1), &bytes.Buffer{}, make(chan struct{})}
	go func() {
		_, _ = io.Copy(io.MultiWriter(term, term.raw), f) // until the command has ended
		close(term.done)
	}()
	go func() {
		err := cmd.Wait()
		var failed *exec.ExitError
		switch {
		case errors.As(err, &failed):
			term.code <- failed.ExitCode()
		default:
			term.code <- 0
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-term.done
		_ = f.Close()
	})
	return term
}

// shows waits until the screen shows a text.
func (term *terminal) shows(text string) {
	term.t.Helper()
	if !assert.Eventually(term.t, func() bool { return strings.Contains(term.Text(), text) }, patience, 5*time.Millisecond) {
		require.FailNow(term.t, fmt.Sprintf("the screen does not show %q", text), term.Text())
	}
}

func (term *terminal) types(keys string) {
	term.t.Helper()
	_, err := io.WriteString(term.pty, keys)
	require.NoError(term.t, err)
}

func (term *terminal) ends(code int) {
	term.t.Helper()
	select {
	case got := <-term.code:
		<-term.done
		require.Equal(term.t, code, got, term.Text())
	case <-time.After(patience):
		require.FailNow(term.t, "the command does not end", term.Text())
	}
}

// The live view in a real terminal: it moves, heeds keys, shows others' actions, outlives the store, and quits.
func TestTopInATerminal(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	headway := on(t, server.Addr)
	workers(t, server.Addr, "zendesk")
	known(t, headway)

	term := inTerminal(t, 100, 30, nil, "top", "zendesk", "--redis", server.Addr, "--timeout", patience.String())
	term.shows("zendesk: 2 processes pace it")
	term.shows("binding: account")
	first := term.Text()
	require.Eventually(t, func() bool { return term.Text() != first }, patience, 20*time.Millisecond, "it does not move")

	headway("pause", "zendesk", "10m")
	term.shows("paused: the whole upstream, for")

	term.types("r")
	term.shows("Lift all pauses of zendesk?")
	term.types("y")
	term.shows("resumed zendesk")
	require.Zero(t, statusOf(t, headway, "zendesk").PausedSeconds)

	term.types("\x1b[B\tp") // down, and tab: the second policy
	term.shows("Pause day for how long?")
	term.types("5m\r")
	term.shows("paused day for 5m")
	left := statusOf(t, headway, "zendesk").Policies[1].PausedSeconds
	require.LessOrEqual(t, left, 300.0)
	require.Greater(t, left, 300-patience.Seconds())

	server.Stop()
	term.shows("still trying")
	server.Restart()
	require.Eventually(t, func() bool { return !strings.Contains(term.Text(), "still trying") }, patience, 20*time.Millisecond)
	term.types("q")
	term.ends(cli.ExitDone)
}

// In a terminal reset prints what it forgets, and forgets it only after a yes.
func TestResetAsksInATerminal(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	headway := on(t, server.Addr)
	workers(t, server.Addr, "zendesk")
	known(t, headway)
	headway("pause", "zendesk", "10m")

	term := inTerminal(t, 100, 30, nil, "reset", "zendesk", "--redis", server.Addr, "--timeout", patience.String())
	term.shows("Type yes to continue:")
	require.Contains(t, term.Text(), "the pause of zendesk (left: ")
	require.Contains(t, term.Text(), "what was charged to day (100000 daily (UTC)):")
	term.types("n\r")
	term.ends(cli.ExitFailed)
	require.Contains(t, term.Text(), "headway: nothing was reset: the answer was not yes")
	require.NotZero(t, statusOf(t, headway, "zendesk").PausedSeconds)

	term = inTerminal(t, 100, 30, nil, "reset", "zendesk", "--redis", server.Addr, "--timeout", patience.String())
	term.shows("Type yes to continue:")
	term.types("yes\r")
	term.ends(cli.ExitDone)
	require.Zero(t, statusOf(t, headway, "zendesk").PausedSeconds)
}

// NO_COLOR is heeded, and the view works on a small terminal.
func TestTopWithoutColours(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	workers(t, server.Addr, "zendesk")
	known(t, on(t, server.Addr))
	for noColour, want := range map[string]bool{"NO_COLOR=1": false, "NO_COLOR=": true} {
		term := inTerminal(t, 40, 12, []string{noColour}, "top", "zendesk", "--redis", server.Addr, "--timeout", patience.String())
		term.shows("▸ upstream")
		term.shows("account")
		term.types("q")
		term.ends(cli.ExitDone)
		require.Equal(t, want, regexp.MustCompile(`\x1b\[[1-9][0-9;]*m`).Match(term.raw.Bytes()), "%s: %q", noColour, term.raw)
	}
}

func TestTopWithoutATerminal(t *testing.T) {
	t.Parallel()
	require.Equal(t, outcome{cli.ExitUsage, "", "headway: top needs a terminal: use headway status zendesk\n"}, run(t, "top", "zendesk"))
}

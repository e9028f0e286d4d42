package bench_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The fleet benchmarks run this test binary again: as the upstream, and as the processes that call it. Such a process reads JSON from its
// standard input, in this order: its job; and, once it has reported that it is ready, when to begin. It writes its results to its standard
// output.

const roleEnv = "HEADWAY_BENCH_ROLE"

// roles are what a process can be.
var roles = map[string]func(in *json.Decoder, out *json.Encoder) error{
	"upstream": beUpstream,
	"worker":   beWorker,
}

func TestMain(m *testing.M) {
	role := os.Getenv(roleEnv)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := roles[role](json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A process is this test binary in a role.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	in     *json.Encoder
	out    *json.Decoder
	stderr bytes.Buffer
}

// startProcess starts a process and gives it its job.
func startProcess(t *testing.T, role string, job any) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.cmd.Env = append(os.Environ(), roleEnv+"="+role, "GORACE=atexit_sleep_ms=0") // the race detector sleeps a second
	p.cmd.Stderr = &p.stderr
	stdin, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	p.stdin, p.in, p.out = stdin, json.NewEncoder(stdin), json.NewDecoder(stdout)
	p.report(t, job)
	return p
}

// receive reads what the process sends next.
func (p *process) receive(t *testing.T, v any) {
	t.Helper()
	require.NoError(t, p.out.Decode(v))
}

// report sends the process the next thing that it has to know.
func (p *process) report(t *testing.T, v any) {
	t.Helper()
	require.NoError(t, p.in.Encode(v))
}

// end ends the process's input, and reads its results into result.
func (p *process) end(t *testing.T, result any) {
	t.Helper()
	require.NoError(t, p.stdin.Close())
	err := p.out.Decode(result)
	require.NoError(t, p.cmd.Wait(), "%s", &p.stderr)
	require.NoError(t, err)
}

// A clock returns the time since the Unix epoch. It reads the machine's clock once and is monotonic from then on, so that the processes of
// a machine agree on the time and none of them sees it jump.
type clock struct{ start time.Time }

func newClock() clock { return clock{time.Now()} }

func (c clock) now() time.Duration {
	return time.Duration(c.start.UnixNano()) + time.Since(c.start)
}

// until returns how long it is until a time of the clock.
func (c clock) until(at time.Duration) time.Duration { return at - c.now() }

func TestTheClockOfTheFleet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c := newClock()
		time.Sleep(time.Minute)
		assert.Equal(t, began.Add(time.Minute).UnixNano(), int64(c.now()))
		assert.Equal(t, time.Second, c.until(c.now()+time.Second))
	})
}

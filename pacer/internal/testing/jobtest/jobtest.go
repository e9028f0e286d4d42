package jobtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/transport"
)

// Env names the environment variable that makes a process of a test a worker, and configures it.
const Env = "HEADWAY_JOB_WORKER"

// A Turn is one time that a worker had a job.
type Turn struct {
	Job     string        `json:"job"`
	Blocked time.Duration `json:"blocked"` // until it was known whether the job may go
	At      int64         `json:"at"`      // when that was, in µs since the epoch
	Slot    int64         `json:"slot"`    // from when on the job might go; 0 if it may not go now
	Slack   time.Duration `json:"slack"`   // and for how long
	Error   string        `json:"error"`   // why it may not go; "" for later
}

// Went reports whether the job went.
func (w *Turn) Went() bool { return w.Slot != 0 }

var out = struct { //nolint:gochecknoglobals // it is the process's standard output
	sync.Mutex

	w *bufio.Writer
}{w: bufio.NewWriter(os.Stdout)}

// Report reports a turn to the test.
func Report(w *Turn) {
	line, err := json.Marshal(w)
	if err != nil {
		panic(err)
	}
	out.Lock()
	defer out.Unlock()
	_, _ = out.w.Write(append(line, '\n'))
	_ = out.w.Flush()
}

// Describe returns a process's turn of a job, which began at a time and may go, or not.
func Describe(job string, began time.Time, r *pacer.Reservation, err error) *Turn {
	now := time.Now()
	w := &Turn{Job: job, Blocked: now.Sub(began), At: now.UnixMicro()} //realtime: only measurements judge how long workers are blocked
	switch {
	case r != nil:
		at, slack := inside.Slot(r)
		w.Slot, w.Slack = int64(at), slack
	case err != nil:
		w.Error = err.Error()
	}
	return w
}

// Upstream returns a client paced by a Pacer, and the URL of an upstream that answers two of three requests with "busy".
func Upstream(tb testing.TB, p *pacer.Pacer) (client *http.Client, url string) {
	tb.Helper()
	var requests atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1)%3 != 0 {
			w.WriteHeader(http.StatusConflict)
		}
	}))
	tb.Cleanup(s.Close)
	client, err := transport.NewClient(p)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.CloseIdleConnections)
	return client, s.URL
}

// Call makes the call of a job by its reservation.
func Call(ctx context.Context, r *pacer.Reservation, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(pacer.WithReservation(ctx, r), http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New("busy")
	}
	return nil
}

// AwaitCharged waits until a Pacer has all permits of its second policy again, and requires that its third one was charged for n calls.
func AwaitCharged(tb testing.TB, p *pacer.Pacer, n int64) {
	tb.Helper()
	for {
		s, err := p.Status(tb.Context())
		if err != nil {
			tb.Fatal(err)
		}
		if free := &s.Policies[1]; free.Remaining == free.Policy.Spec().Limit {
			if charged := s.Policies[2].Policy.Spec().Limit - s.Policies[2].Remaining; charged != n {
				tb.Fatalf("%d calls were charged %d times", n, charged)
			}
			return
		}
		runtime.Gosched()
	}
}

// AwaitStop blocks until the test ends the worker.
func AwaitStop() { _, _ = io.Copy(io.Discard, os.Stdin) }

// Workers are processes of a test.
type Workers struct {
	tb    testing.TB
	stops []io.Closer
	done  sync.WaitGroup

	mu    sync.Mutex
	turns []Turn
	went  int
	more  chan struct{}
}

// Start starts n processes of the test binary, and configures them.
func Start(tb testing.TB, n int, know string) *Workers {
	tb.Helper()
	w := &Workers{tb: tb, more: make(chan struct{}, 1)}
	for range n {
		cmd := exec.CommandContext(tb.Context(), os.Args[0]) //nolint:gosec // it is this test
		cmd.Env = append(os.Environ(), Env+"="+know)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			tb.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			tb.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			tb.Fatal(err)
		}
		w.stops = append(w.stops, in)
		w.done.Go(func() {
			w.read(stdout)
			if err := cmd.Wait(); err != nil && tb.Context().Err() == nil {
				tb.Errorf("a worker: %v", err)
			}
		})
	}
	return w
}

func (w *Workers) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var turn Turn
		if err := json.Unmarshal(lines.Bytes(), &turn); err != nil {
			w.tb.Errorf("a worker wrote %q", lines.Text())
			continue
		}
		w.mu.Lock()
		w.turns = append(w.turns, turn)
		if turn.Went() {
			w.went++
		}
		w.mu.Unlock()
		select {
		case w.more <- struct{}{}:
		default:
		}
	}
}

// Await waits until n jobs went, for a minute longer than they should take.
func (w *Workers) Await(n int, should time.Duration) {
	w.tb.Helper()
	timeout := time.NewTimer(should + time.Minute)
	defer timeout.Stop()
	for {
		w.mu.Lock()
		went := w.went
		w.mu.Unlock()
		if went >= n {
			return
		}
		select {
		case <-w.more:
		case <-timeout.C:
			w.tb.Fatalf("%d of %d jobs went", went, n)
		}
	}
}

// Stop ends the workers, and returns all turns.
func (w *Workers) Stop() []Turn {
	for _, stop := range w.stops {
		_ = stop.Close()
	}
	w.done.Wait()
	return w.turns
}

// Figures are what jobs needed.
type Figures struct {
	Jobs    int
	Turns   int           // beyond one for each job: how often they were snoozed
	Blocked time.Duration // the longest
	P999    time.Duration // for how long of a thousand workers 999 were blocked, at most
	Rate    float64       // jobs a second, from the first to the last
	Late    time.Duration // how much later than its slack a job went, at most: the worker's own lateness
}

// String implements [fmt.Stringer].
func (f Figures) String() string {
	return fmt.Sprintf("%d jobs at %.2f/s, %.3f snoozes a job, workers blocked for %v (p99.9), %v (most), %v late at most",
		f.Jobs, f.Rate, float64(f.Turns)/float64(f.Jobs), f.P999.Round(10*time.Microsecond), f.Blocked.Round(10*time.Microsecond), f.Late.Round(10*time.Microsecond))
}

// Judge requires that n jobs went, each of them once, none before its slot, and in any time of length w at most burst + w·perSecond of
// them. A delay beyond a job's slack is the lateness of its worker, as for every call: see pacer.Config.MaxLate.
func Judge(tb testing.TB, turns []Turn, n int, perSecond, burst int64) Figures {
	tb.Helper()
	f := Figures{Jobs: n, Turns: len(turns) - n}
	seen := make(map[string]bool)
	var at []int64
	var blocked []time.Duration
	for i := range turns {
		w := &turns[i]
		blocked = append(blocked, w.Blocked)
		if w.Error != "" {
			tb.Errorf("job %s: %s", w.Job, w.Error)
		}
		if !w.Went() {
			continue
		}
		if seen[w.Job] {
			tb.Errorf("job %s went twice", w.Job)
		}
		if seen[w.Job] = true; w.At < w.Slot {
			tb.Errorf("job %s went %d µs before its slot", w.Job, w.Slot-w.At)
		}
		end := w.Slot + w.Slack.Microseconds()
		f.Late = max(f.Late, time.Duration(w.At-end)*time.Microsecond)
		at = append(at, min(w.At, end))
	}
	if len(seen) != n {
		tb.Fatalf("%d of %d jobs went", len(seen), n)
	}
	slices.Sort(blocked)
	f.P999, f.Blocked = blocked[len(blocked)*999/1000], blocked[len(blocked)-1]
	slices.Sort(at)
	for i := range at {
		for j := i; j < len(at); j++ {
			if passed := at[j] - at[i]; (int64(j-i+1)-burst)*1_000_000 > passed*perSecond {
				tb.Fatalf("%d jobs within %d µs: too many for %d/s with a burst of %d", j-i+1, passed, perSecond, burst)
			} else if passed > 5_000_000 {
				break // it is as good as the sum of shorter ones
			}
		}
	}
	if n > 1 {
		f.Rate = float64(n-1) / time.Duration((at[n-1]-at[0])*1000).Seconds()
	}
	return f
}

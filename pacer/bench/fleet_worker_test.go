package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// fleetSize is how many processes call the upstream.
const fleetSize = 4

// A job is what one process of the fleet has to do.
type job struct {
	Scenario string
	Keeper   string
	Process  int
	Redis    string
	URL      string
	Length   time.Duration
	Crews    []crew
}

// A crew are calls of a process for one tenant: of goroutines that call in a loop, or at random times.
type crew struct {
	Tenant     string
	Goroutines int
	Calls      int     // how many they make together; 0: until the run is over
	PerSecond  float64 // in place of goroutines: calls come as a Poisson process, each with a goroutine of its own
}

// A call is what became of one call. Times are since the start.
type call struct {
	Tenant    string
	Requested time.Duration
	Done      time.Duration // when the upstream had admitted it; or when the call was given up, or the run over
	OK        bool
}

// A tally is what a process saw.
type tally struct {
	Calls  []call
	Errors int             // what the keeper failed to decide
	Lost   int             // calls that were given up
	Late   []time.Duration // how late timers of the runtime fired
}

type worker struct {
	job

	clock  clock
	begin  time.Duration
	gate   gate
	client *http.Client

	mu    sync.Mutex
	tally tally
	left  []int // for each crew, how many calls remain to be made
	calls sync.WaitGroup
}

// beWorker is the role of a process of the fleet.
func beWorker(in *json.Decoder, out *json.Encoder) error {
	logging.Disable()
	log.SetOutput(io.Discard)
	w := &worker{clock: newClock()}
	if err := in.Decode(&w.job); err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: w.Redis, ContextTimeoutEnabled: true})
	defer rdb.Close()
	keeper := scenarioNamed(w.Scenario).keeperNamed(w.Keeper)
	if keeper == nil {
		return fmt.Errorf("no keeper %q in scenario %q", w.Keeper, w.Scenario)
	}
	var err error
	if w.gate, err = keeper.open(rdb); err != nil {
		return err
	}
	base := &network{base: &http.Transport{MaxIdleConnsPerHost: 1000}, delay: scenarioNamed(w.Scenario).delay}
	w.client = &http.Client{Transport: base}
	if w.gate.over != nil {
		if w.client, err = w.gate.over(base); err != nil {
			return err
		}
	}
	if err := out.Encode("ready"); err != nil {
		return err
	}
	if err := in.Decode(&w.begin); err != nil {
		return err
	}
	w.work()
	if w.gate.close != nil {
		w.gate.close()
	}
	return out.Encode(&w.tally)
}

func (w *worker) work() {
	ctx, cancel := context.WithTimeout(context.Background(), w.clock.until(w.begin)+w.Length)
	defer cancel()
	// A deadline would reveal to a keeper when the run is over, and a real fleet's work has no end.
	ctx = endless{ctx}
	time.Sleep(w.clock.until(w.begin))
	timers := make(chan struct{})
	go func() {
		defer close(timers)
		w.watchTimers(ctx)
	}()
	for _, c := range w.Crews {
		w.left = append(w.left, c.Calls)
	}
	for i, c := range w.Crews {
		if c.PerSecond > 0 {
			w.calls.Go(func() { w.atRandom(ctx, i) })
		}
		for range c.Goroutines {
			w.calls.Go(func() { w.loop(ctx, i) })
		}
	}
	w.calls.Wait()
	cancel() // there may be no more calls to make
	<-timers
}

// endless hides the deadline of a context.
type endless struct{ context.Context }

func (endless) Deadline() (time.Time, bool) { return time.Time{}, false }

// A network delays requests on their way.
type network struct {
	base  http.RoundTripper
	delay func() time.Duration // nil for none
}

// RoundTrip implements [http.RoundTripper].
func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	if n.delay != nil {
		time.Sleep(n.delay())
	}
	return n.base.RoundTrip(req)
}

// loop makes calls of a crew, one after the other.
func (w *worker) loop(ctx context.Context, i int) {
	c := &w.Crews[i]
	for ctx.Err() == nil {
		if c.Calls > 0 {
			w.mu.Lock()
			w.left[i]--
			none := w.left[i] < 0
			w.mu.Unlock()
			if none {
				return
			}
		}
		w.call(ctx, c.Tenant)
	}
}

// atRandom makes calls of a crew at random times, which are the same for every keeper.
func (w *worker) atRandom(ctx context.Context, i int) {
	c := &w.Crews[i]
	rng := rand.New(rand.NewPCG(uint64(w.Process), uint64(i)))
	for due := w.begin; ; {
		due += time.Duration(rng.ExpFloat64() / c.PerSecond * float64(time.Second))
		if !sleep(ctx, w.clock.until(due)) {
			return
		}
		w.calls.Go(func() { w.call(ctx, c.Tenant) })
	}
}

// call makes one call, and repeats it while it is refused.
func (w *worker) call(ctx context.Context, tenant string) {
	c := call{Tenant: tenant, Requested: w.clock.now() - w.begin}
	errs := 0
	for !c.OK && ctx.Err() == nil {
		if w.gate.wait != nil {
			if err := w.gate.wait(ctx, tenant); err != nil {
				if ctx.Err() == nil {
					errs++
					sleep(ctx, 100*time.Millisecond)
				}
				continue
			}
		}
		retryAfter, err := w.send(ctx, tenant)
		if err != nil {
			break
		}
		c.OK = retryAfter == 0
		if !c.OK {
			if w.gate.refused != nil {
				w.gate.refused(ctx, tenant, retryAfter)
			}
			sleep(ctx, retryAfter)
		}
	}
	c.Done = w.clock.now() - w.begin
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally.Calls = append(w.tally.Calls, c)
	w.tally.Errors += errs
	if !c.OK && ctx.Err() == nil {
		w.tally.Lost++
	}
}

// send sends one request, and returns its Retry-After; 0 if the upstream has admitted it.
func (w *worker) send(ctx context.Context, tenant string) (retryAfter time.Duration, err error) {
	query := url.Values{
		"tenant":  {tenant},
		"process": {strconv.Itoa(w.Process)},
		"sent":    {strconv.FormatInt(int64(w.clock.now()), 10)},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.URL+"?"+query.Encode(), nil)
	if err != nil {
		return 0, err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode == http.StatusOK {
		return 0, nil
	}
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	return time.Duration(seconds) * time.Second, err
}

// watchTimers measures how late a bare timer fires in this process meanwhile.
func (w *worker) watchTimers(ctx context.Context) {
	const pause = 10 * time.Millisecond
	var late []time.Duration
	for ctx.Err() == nil {
		began := time.Now()
		time.Sleep(pause)
		late = append(late, time.Since(began)-pause)
	}
	w.tally.Late = late
}

// sleep returns false if the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

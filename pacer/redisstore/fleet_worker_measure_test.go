//go:build measure

package redisstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/measure"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

// tally is what one crew of one process saw.
type tally struct {
	Offered, Went, Refused int
	Waits                  []time.Duration
	Calls                  []outing
}

// findings are what one process of a fleet reports at its end.
type findings struct {
	Tallies map[string]*tally // by tenant
	Late    measure.Lateness
}

// ledger is a tally that many goroutines write to.
type ledger struct {
	mu sync.Mutex
	tally
}

// offer counts a call that will be made.
func (l *ledger) offer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Offered++
}

// note counts a call that had waited.
func (l *ledger) note(waited time.Duration, status int, o *outing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Waits = append(l.Waits, waited)
	l.Calls = append(l.Calls, *o)
	if status == http.StatusOK {
		l.Went++
	} else {
		l.Refused++
	}
}

func init() { workers["fleet"] = work } //nolint:gochecknoinits // only a program that measures has it

// work is what a process of a fleet does.
func work(spec string) error {
	var j job
	if err := json.Unmarshal([]byte(spec), &j); err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{
		Addr: j.Redis, DisableIdentity: true,
		ContextTimeoutEnabled: j.Process%2 == 0, // every second process has a client that is punctual: see Store.Punctual
	})
	defer rdb.Close()
	plain, err := redisstore.New(rdb)
	if err != nil {
		return err
	}
	j.store = note(plain)
	p, err := pacer.New(pacer.Config{Upstream: j.upstream(), Store: j.store, Policies: j.policies(), Processes: fleetSize})
	if err != nil {
		return err
	}
	if err := j.muster(rdb); err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(context.Background(), j.Until)
	defer cancel()
	if j.Reported {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	timers := measure.Watch()
	do := tasks[j.Task]
	if do == nil {
		do = pace
	}
	tallies, err := do(ctx, p, &j)
	if err := errors.Join(err, p.Close()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(findings{tallies, timers.Stop()})
}

// muster waits until all processes of the fleet are there, or until the job's start.
func (j *job) muster(rdb *redis.Client) error {
	if j.Begin.IsZero() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err := rdb.Incr(ctx, musterKey).Err()
		for here := 0; err == nil && here < j.Processes; time.Sleep(5 * time.Millisecond) {
			here, err = rdb.Get(ctx, musterKey).Int()
		}
		if err != nil {
			return err
		}
		j.Begin = time.Now()
	}
	if j.Until.IsZero() {
		j.Until = time.Now().Add(j.Duration)
	}
	return nil
}

// musterKey is where the processes of a fleet count themselves.
const musterKey = "test:muster"

// pace has crews call as fast as they may, or at a given rate.
func pace(ctx context.Context, p *pacer.Pacer, j *job) (map[string]*tally, error) {
	call := waited
	if j.HTTP {
		var err error
		if call, err = transported(p); err != nil {
			return nil, err
		}
	}
	tallies := make(map[string]*tally)
	var g errgroup.Group
	for _, c := range j.Crews {
		sum, upstream := &ledger{}, newCaller(j).with("tenant", c.Tenant)
		tallies[c.Tenant] = &sum.tally
		for i := range c.Goroutines {
			g.Go(func() error {
				return c.work(ctx, i, sum, func() error { return call(ctx, p, j, c.Tenant, upstream, sum) })
			})
		}
	}
	return tallies, g.Wait()
}

// work makes calls until the run is over.
func (c *crew) work(ctx context.Context, goroutine int, sum *ledger, call func() error) error {
	if c.Every > 0 {
		time.Sleep(c.Every * time.Duration(goroutine) / time.Duration(c.Goroutines))
	}
	for due := time.Now(); ctx.Err() == nil; due = due.Add(c.Every) {
		if c.Every > 0 {
			time.Sleep(time.Until(due))
		}
		if left, _ := ctx.Deadline(); c.Every > 0 && time.Until(left) < time.Second {
			return nil // what is offered now has no time to wait
		}
		sum.offer()
		switch err := call(); {
		case ctx.Err() != nil || pacerRefused(err) || errors.Is(err, errOver):
			return nil //nolint:nilerr // the run is over
		case err != nil:
			return err
		}
	}
	return nil
}

// errOver means that nothing is left to call for.
var errOver = errors.New("nothing is left")

// waited makes one call that waits for its slot.
func waited(ctx context.Context, p *pacer.Pacer, j *job, tenant string, upstream *caller, sum *ledger) error {
	start := time.Now()
	_, o, err := j.store.acquire(ctx, p, pacer.Scope("tenant", tenant))
	if err != nil {
		return err
	}
	took := time.Since(start)
	status, err := upstream.call()
	if err != nil {
		return err
	}
	o.Tenant, o.Status = tenant, status
	sum.note(took, status, &o)
	return nil
}

// transported makes calls through the transport.
func transported(p *pacer.Pacer) (func(context.Context, *pacer.Pacer, *job, string, *caller, *ledger) error, error) {
	rt, err := transport.New(p, transport.WithBase(&http.Transport{MaxIdleConnsPerHost: 100}), transport.WithProfile(quotas))
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: rt}
	return func(ctx context.Context, _ *pacer.Pacer, _ *job, _ string, upstream *caller, sum *ledger) error {
		start := time.Now()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, upstream.url+"?"+upstream.values.Encode(), nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			if errors.Is(err, pacer.ErrNotYet) {
				return errOver // of a quota
			}
			return err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		sum.note(time.Since(start), resp.StatusCode, &outing{})
		return nil
	}, nil
}

// pacerRefused: at the end of a run no slot is left before the deadline.
func pacerRefused(err error) bool {
	le, ok := errors.AsType[*pacer.LimitError](err)
	return ok && errors.Is(le, context.DeadlineExceeded)
}

// upstream is the name of the upstream that a fleet calls.
func (j *job) upstream() string { return "fleet-" + j.Fleet + j.Variant }

// policies returns the stack of the fleet.
func (j *job) policies() []policies.Policy {
	books := booked
	if j.Tenants != nil {
		books = books.Per("tenant") // a pause is one of the widest scope
	}
	return append(append([]policies.Policy(nil), fleets[j.Fleet]...), books)
}

// newCaller returns one that calls the upstream of the job.
func newCaller(j *job) *caller {
	return &caller{
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}, url: j.URL,
		values: map[string][]string{"process": {strconv.Itoa(j.Process)}},
	}
}

// Command worker is a small program that paces calls by Redis: TestTwoReleasesSideBySide builds it with this release and with the previous
// one, so it uses only what both have. Its arguments are the server's address and how many calls each goroutine makes; it prints the calls
// that went, by upstream.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// callers is the number of goroutines for each upstream.
const callers = 8

// patience is how long a call waits for the store: no process paces locally.
const patience = time.Minute

// upstreams have policies of every kind. The test has their rules.
var upstreams = map[string][]policies.Policy{
	"stacked": {
		policies.AtMost(50, time.Second).Skew(0).Named("second"),
		policies.Sliding(120, 3*time.Second).Skew(0).Named("minute"),
		policies.Fixed(100_000, time.Hour).Named("fixed"),
		policies.Daily(1_000_000, time.UTC),
	},
	"exact":   {policies.AtMost(40, time.Second).Skew(0).Burst(8).Named("second"), policies.PerSecond(100).Burst(4).Per("tenant")},
	"permits": {policies.InFlight(3).Lease(10 * time.Second), policies.PerSecond(200).Burst(2).Named("rate")},
	"shares":  {policies.PerSecond(80).Burst(4).Fair("tenant")},
	"lanes":   {policies.PerSecond(60).Burst(4).Lane("batch", 80)},
	waits:     {policies.PerSecond(100).Burst(1)},
}

// waits is an upstream whose calls release nothing. While they go, the test has a policy count them in flight.
const waits = "waits"

// A call is one that went, in µs of store time.
type call struct{ Slot, Slack, At int64 }

func main() {
	if err := work(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func work(ctx context.Context, addr, calls string) error {
	n, err := strconv.Atoi(calls)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{
		Addr: addr, DisableIdentity: true, ContextTimeoutEnabled: true, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
	})
	defer rdb.Close()
	store, err := redisstore.New(rdb)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed error
	went := make(map[string][]call)
	for name, stack := range upstreams {
		p, err := pacer.New(pacer.Config{Upstream: name, Store: store, Policies: stack, MaxWait: pacer.Forever, StoreTimeout: patience})
		if err != nil {
			return err
		}
		for i := range callers {
			wg.Go(func() {
				calls, err := pace(ctx, p, n, fmt.Sprint(i%3), name == "lanes" && i%2 == 0, name == "stacked" || name == "exact")
				mu.Lock()
				defer mu.Unlock()
				went[name], failed = append(went[name], calls...), errors.Join(failed, err)
			})
		}
		defer func() { _ = p.Close() }()
	}
	wg.Wait()
	if failed != nil {
		return failed
	}
	return json.NewEncoder(os.Stdout).Encode(went)
}

// pace makes n calls. Every few calls it gives one back, reports feedback, or settles.
func pace(ctx context.Context, p *pacer.Pacer, n int, tenant string, batch, reserves bool) (went []call, err error) {
	opts := []pacer.Option{pacer.Scope("tenant", tenant)}
	if batch {
		opts = append(opts, pacer.Lane("batch"))
	}
	for i := range n {
		if p.Upstream() == waits {
			if err := p.Wait(ctx); err != nil {
				return went, err
			}
			went = append(went, call{At: time.Now().UnixMicro()})
			continue
		}
		r, err := p.Acquire(ctx, opts...)
		if err != nil {
			return went, err
		}
		slot, slack := r.Slot()
		went = append(went, call{int64(slot), slack.Microseconds(), time.Now().UnixMicro()})
		switch i % 10 {
		case 3:
			err = r.Settle(ctx, pacer.Cost(1))
		case 6:
			err = r.Report(ctx, policies.Feedback{Wait: time.Millisecond})
		}
		if err != nil {
			return went, err
		}
		time.Sleep(time.Millisecond)
		r.Release()
		if !reserves || i%10 != 8 {
			continue
		}
		if r, err = p.Reserve(ctx, opts...); err == nil {
			err = r.Cancel(ctx)
		}
		if err != nil {
			return went, err
		}
	}
	return went, nil
}

package faulttest_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/inside"
	"github.com/headway-go/headway/pacer/internal/testing/faulty"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// Every fault of the store meets every kind of stack and every way in which calls end, in virtual time: a cell of a matrix is one fleet.
// `make test` plays a sample, HEADWAY_LONG=1 all of them, and -run any that it names, such as
//
//	go test -run 'TestCrosswise/killed/a_rate/calls_end/1$'

// A weather is a fault of the store.
type weather struct {
	name  string
	kind  kind
	spoil func(ctx context.Context, s *faulty.Store, rng *rand.Rand, happens func()) // until the context ends
}

// A kind is what a fault leaves of the store.
type kind uint8

const (
	works kind = iota // it decides
	slow              // it decides, late
	lost              // each process has its share
	flaps             // it comes and goes
	loses             // it decides, and has lost what it knew
	steps             // it decides, by another clock
	back              // it decides, and its clock went back once
)

func steady(f faulty.Faults) func(context.Context, *faulty.Store, *rand.Rand, func()) {
	return func(ctx context.Context, s *faulty.Store, _ *rand.Rand, happens func()) {
		happens()
		s.Suffer(f)
		<-ctx.Done()
	}
}

// often does something repeatedly.
func often(least, most time.Duration, do func(*faulty.Store, *rand.Rand)) func(context.Context, *faulty.Store, *rand.Rand, func()) {
	return func(ctx context.Context, s *faulty.Store, rng *rand.Rand, happens func()) {
		for ctx.Err() == nil {
			happens()
			do(s, rng)
			select {
			case <-ctx.Done():
			case <-time.After(least + time.Duration(rng.Int64N(int64(most-least)))):
			}
		}
	}
}

// near is how far away a store is that has no fault.
const near = time.Millisecond

var weathers = []weather{
	{name: "none", kind: works, spoil: steady(faulty.Faults{Away: near})},
	{name: "killed", kind: lost, spoil: func(ctx context.Context, s *faulty.Store, rng *rand.Rand, happens func()) {
		steady(faulty.Faults{All: faulty.ErrDown})(ctx, s, rng, happens)
		s.Forget()
	}},
	{name: "hung", kind: lost, spoil: steady(faulty.Faults{Hangs: true})},
	{name: "read-only", kind: lost, spoil: steady(faulty.Faults{Write: faulty.ErrReadOnly, Away: near})},
	{name: "full", kind: lost, spoil: steady(faulty.Faults{Write: faulty.ErrFull, Free: true, Away: near})},
	{name: "flapping", kind: flaps, spoil: often(50*time.Millisecond, 1500*time.Millisecond, func(s *faulty.Store, rng *rand.Rand) {
		s.Suffer(faulty.Faults{All: faulty.ErrDown, Away: near})
		lasts(50*time.Millisecond + time.Duration(rng.Int64N(int64(1450*time.Millisecond))))
		s.Suffer(faulty.Faults{Away: near})
	})},
	{name: "100 ms away", kind: slow, spoil: steady(faulty.Faults{Away: 100 * time.Millisecond})},
	{name: "200 ms away", kind: slow, spoil: steady(faulty.Faults{Away: 200 * time.Millisecond})},
	{name: "forgetful", kind: loses, spoil: often(time.Second, 3*time.Second, func(s *faulty.Store, _ *rand.Rand) { s.Forget() })},
	{name: "failing over", kind: loses, spoil: often(time.Second, 3*time.Second, func(s *faulty.Store, rng *rand.Rand) {
		s.FailOver(time.Millisecond + time.Duration(rng.Int64N(int64(lagging/2))))
	})},
	{name: "garbage", kind: lost, spoil: steady(faulty.Faults{Reply: faulty.ErrGarbage, Away: near})},
	{name: "clock jumps", kind: steps, spoil: often(time.Second, 2*time.Second, func(s *faulty.Store, rng *rand.Rand) {
		s.Step([]time.Duration{time.Hour, -time.Hour, time.Second, -time.Minute}[rng.IntN(4)])
	})},
	{name: "clock steps back", kind: back, spoil: func(ctx context.Context, s *faulty.Store, rng *rand.Rand, happens func()) {
		happens()
		s.Step([]time.Duration{-time.Hour, -time.Minute, -time.Second}[rng.IntN(3)])
		<-ctx.Done()
	}},
}

// A setup is a kind of stack.
type setup struct {
	name   string
	list   []policies.Policy
	bounds []bound                    // the same, as the referee knows them
	opts   func(i int) []pacer.Option // of the calls of a scope
	pool   int                        // how many credentials
	book   bool
	rate   float64       // of the fleet in a second; 0 if only permits bind calls
	bursts bool          // all of it goes at once
	rests  time.Duration // between the calls of a caller, at most
}

// A bound is a policy by its definition: of calls in flight if it has no period.
type bound struct {
	n      int64
	period time.Duration
	burst  int64 // of a rate: n in a period on average. 0: n in any period, or in each of the clock
	clock  bool
	scoped bool
}

func perTenant(i int) []pacer.Option { return []pacer.Option{pacer.Scope("tenant", fmt.Sprint(i))} }

func inLanes(i int) []pacer.Option {
	if i < 2 {
		return nil
	}
	return []pacer.Option{pacer.Lane("batch")}
}

// lease is how long permits are lost whose return is lost.
const lease = 2 * time.Second

var (
	rate40 = policies.PerSecond(40).Burst(4)
	is40   = bound{n: 40, period: time.Second, burst: 4}

	strict40 = policies.PerSecond(40)
	isStrict = bound{n: 40, period: time.Second, burst: 1}

	setups = []setup{
		{name: "a rate", list: []policies.Policy{rate40}, bounds: []bound{is40}, rate: 40},
		{name: "a strict rate", list: []policies.Policy{strict40}, bounds: []bound{isStrict}, rate: 40},
		{name: "a strict rate at rest", list: []policies.Policy{strict40}, bounds: []bound{isStrict}, rate: 40, rests: 2 * time.Second},
		{name: "AtMost", list: []policies.Policy{policies.AtMost(43, time.Second).Burst(4)}, bounds: []bound{{n: 43, period: time.Second}}, rate: 39.6},
		{name: "a sliding window", list: []policies.Policy{policies.Sliding(40, time.Second)}, bounds: []bound{{n: 40, period: time.Second}}, rate: 39.6, bursts: true},
		{
			name: "a calendar", list: []policies.Policy{policies.Hourly(620, time.UTC), rate40},
			bounds: []bound{{n: 620, period: time.Hour, clock: true}, is40}, rate: 40,
		},
		{name: "permits", list: []policies.Policy{policies.InFlight(8).Lease(lease)}, bounds: []bound{{n: 8}}},
		{name: "a rate and permits", list: []policies.Policy{rate40, policies.InFlight(8).Lease(lease)}, bounds: []bound{is40, {n: 8}}, rate: 40},
		{
			name: "AtMost and permits", list: []policies.Policy{policies.AtMost(43, time.Second).Burst(4), policies.InFlight(8).Lease(lease)},
			bounds: []bound{{n: 43, period: time.Second}, {n: 8}}, rate: 39.6,
		},
		{
			name: "a window and permits", list: []policies.Policy{policies.Fixed(40, time.Second), policies.InFlight(8).Lease(lease)},
			bounds: []bound{{n: 40, period: time.Second, clock: true}, {n: 8}}, rate: 39, bursts: true,
		},
		{
			name: "permits in shares", list: []policies.Policy{rate40, policies.InFlight(8).Lease(lease).Fair("tenant")},
			bounds: []bound{is40, {n: 8}}, opts: perTenant, rate: 40,
		},
		{
			name:   "the stack of the doc",
			list:   []policies.Policy{policies.Daily(100_000, time.UTC), policies.PerSecond(10).Burst(10).Per("tenant"), policies.InFlight(20).Lease(lease)},
			bounds: []bound{{n: 10, period: time.Second, burst: 10, scoped: true}, {n: 20}}, opts: perTenant, rate: 40,
		},
		{
			name: "tenants", list: []policies.Policy{policies.PerSecond(60).Burst(4), policies.PerSecond(30).Burst(4).Per("tenant")}, opts: perTenant, rate: 60,
			bounds: []bound{{n: 60, period: time.Second, burst: 4}, {n: 30, period: time.Second, burst: 4, scoped: true}},
		},
		{
			name: "a pool", list: []policies.Policy{policies.PerSecond(15).Burst(4).Per("account")}, pool: 3, rate: 45,
			bounds: []bound{{n: 15, period: time.Second, burst: 4, scoped: true}},
		},
		{name: "a lane", list: []policies.Policy{rate40.Lane("batch", 50)}, bounds: []bound{is40}, opts: inLanes, rate: 40},
		{
			name: "a part", list: []policies.Policy{policies.Fixed(40, time.Second).Reserve("batch", 30)},
			bounds: []bound{{n: 40, period: time.Second, clock: true}}, opts: inLanes, rate: 39, bursts: true,
		},
		{name: "fair shares", list: []policies.Policy{rate40.Fair("tenant")}, bounds: []bound{is40}, opts: perTenant, rate: 40},
		{name: "bookings", list: []policies.Policy{rate40}, bounds: []bound{is40}, book: true, rate: 40},
	}
)

// Ways in which every other call ends.
const (
	callsEnd    = "calls end"
	callsCancel = "calls are cancelled"
	callsExpire = "calls time out"
	callsSettle = "calls are settled"
)

// A cell is a fleet of the matrix.
type cell struct {
	weather weather
	setup   setup
	end     string
	seed    uint64
}

func (c *cell) name() string {
	return fmt.Sprintf("%s/%s/%s/%d", c.weather.name, c.setup.name, c.end, c.seed)
}

func (c *cell) hash() uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(c.name()))
	return h.Sum32()
}

// named reports whether -run names subtests.
func named() bool { return strings.Contains(flag.Lookup("test.run").Value.String(), "/") }

func TestCrosswise(t *testing.T) {
	t.Parallel()
	seeds := uint64(1)
	if long() {
		seeds = 3
	}
	seeds, _ = number(t, "HEADWAY_SEEDS", seeds)
	for _, w := range weathers {
		for _, s := range setups {
			for _, end := range []string{callsEnd, callsCancel, callsExpire, callsSettle} {
				for seed := range seeds {
					c := cell{w, s, end, 1 + seed}
					if !named() && !long() && c.hash()%1000 >= sampleShare {
						continue
					}
					t.Run(c.name(), func(t *testing.T) {
						t.Parallel()
						synctest.Test(t, c.play)
					})
				}
			}
		}
	}
}

// sampleShare is of how many cells in a thousand a sample consists.
const sampleShare = 70

// A world is the fleet of a cell, and what became of its calls.
type world struct {
	cell   cell
	store  *faulty.Store
	fleet  []*pacer.Pacer
	pools  []*pacer.Pool
	began  time.Time
	fault  time.Time   // when it began
	events []time.Time // when it, or one of many, began: see often
	healed time.Time   // when it ended
	ended  time.Time   // when the calls ended

	mu   sync.Mutex
	went []deed
	errs map[string]int
}

// A deed is a call that went.
type deed struct {
	by       int
	scope    string // tenant or account
	slot     store.Instant
	from, to time.Time
	cost     int64
	reserved int64 // before it was settled
}

// When the fault begins, and how long it and what comes after it last.
const (
	prelude   = 5 * time.Second
	during    = 5 * time.Second
	coda      = 9 * time.Second
	members   = 8                      // callers of each process
	mostLasts = 120 * time.Millisecond // that a call lasts
	lagging   = 100 * time.Millisecond // of slots that were granted in writes that are lost: half of it before the failover, half ahead
	costly    = 2                      // what a call costs before it is settled for 1
)

// A sample over a real Redis: never more than the limit, whatever happens, and nothing is left.
func TestCrosswiseOverRedis(t *testing.T) {
	t.Parallel()
	if !long() {
		t.Skip("it takes minutes: HEADWAY_LONG=1")
	}
	for i, w := range weathers {
		happens := map[string]func(*redistest.Server){
			"killed": (*redistest.Server).Stop, "hung": (*redistest.Server).Pause,
			"forgetful": func(s *redistest.Server) { require.NoError(t, s.Client().FlushAll(t.Context()).Err()) },
		}[w.name]
		for j, s := range setups {
			if happens == nil || (i+j)%4 > 0 {
				continue
			}
			c := cell{w, s, []string{callsEnd, callsCancel, callsExpire, callsSettle}[j%4], 1}
			t.Run(c.name(), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				here := &world{cell: c, errs: make(map[string]int)}
				here.run(t, rand.New(rand.NewPCG(1, uint64(j))), func() store.Store {
					rdb := redis.NewClient(&redis.Options{Addr: server.Addr, DisableIdentity: true, MaintNotificationsConfig: noMaintNotifications()})
					t.Cleanup(func() { require.NoError(t, rdb.Close()) })
					is, err := redisstore.New(rdb)
					require.NoError(t, err)
					return is
				}, func(ctx context.Context) {
					here.events = []time.Time{time.Now()}
					happens(server)
					<-ctx.Done()
					switch w.name {
					case "killed":
						server.Restart() //nolint:contextcheck // it is up again after the fault
					case "hung":
						server.Continue()
					}
				})
				here.judgeMost(t)
			})
		}
	}
}

func (c *cell) play(t *testing.T) {
	rng := rand.New(rand.NewPCG(c.seed, uint64(c.hash())))
	w := &world{cell: *c, errs: make(map[string]int)}
	lasts(50*time.Minute + time.Duration(rng.IntN(1000))*time.Millisecond)
	if c.setup.name == "a calendar" {
		lasts(10*time.Minute - prelude - during + time.Second)
	}
	w.store = faulty.New()
	w.store.Suffer(faulty.Faults{Away: near})
	w.run(t, rng, func() store.Store { return w.store }, func(ctx context.Context) {
		c.weather.spoil(ctx, w.store, rng, func() { w.events = append(w.events, time.Now()) })
		w.store.Suffer(faulty.Faults{Away: near})
	})
	w.judge(t)
}

// run lets a fleet make calls, and has something happen to its store.
func (w *world) run(t *testing.T, rng *rand.Rand, connect func() store.Store, happens func(context.Context)) {
	t.Helper()
	c := &w.cell
	processes := 2 + rng.IntN(3)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var callers sync.WaitGroup
	w.began = time.Now()
	for range processes {
		p, err := pacer.New(pacer.Config{Upstream: "api", Store: connect(), Policies: c.setup.list, Jitter: pacer.NoJitter})
		require.NoError(t, err)
		w.fleet = append(w.fleet, p)
		if c.setup.pool > 0 {
			var all []pacer.Credential
			for j := range c.setup.pool {
				all = append(all, pacer.Credential{ID: fmt.Sprint("c", j)})
			}
			pool, err := p.Pool(all, "account")
			require.NoError(t, err)
			w.pools = append(w.pools, pool)
		}
	}
	for i := range processes {
		for j := range members {
			rng := rand.New(rand.NewPCG(c.seed, uint64(100*i+j)))
			callers.Go(func() {
				for n := j / 4; ctx.Err() == nil; n++ {
					if err := w.call(ctx, i, j%4, n, rng); err != nil {
						w.failed(err)
						lasts(time.Duration(10+rng.IntN(20)) * time.Millisecond)
					}
					if rests := c.setup.rests; rests > 0 {
						lasts(time.Duration(rng.Int64N(int64(rests))))
					}
				}
			})
		}
	}
	lasts(prelude + time.Duration(rng.IntN(3000))*time.Millisecond)
	w.fault = time.Now()
	faults, heal := context.WithTimeout(ctx, during)
	happens(faults)
	heal()
	w.healed = time.Now()
	lasts(coda)
	w.ended = time.Now()
	stop()
	w.finish(t, &callers)
}

// finish waits until nothing is left.
func (w *world) finish(t *testing.T, callers *sync.WaitGroup) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		callers.Wait()
		for _, p := range w.fleet {
			if err := p.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		all := make([]byte, 1<<20)
		panic(fmt.Sprintf("%s: calls do not end:\n%s", w.cell.name(), all[:runtime.Stack(all, true)]))
	}
}

func (w *world) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errs[err.Error()]++
}

// call makes a call.
func (w *world) call(ctx context.Context, by, scope, n int, rng *rand.Rand) error {
	var opts []pacer.Option
	d := deed{by: by, cost: 1, reserved: 1}
	if w.cell.setup.opts != nil {
		opts, d.scope = w.cell.setup.opts(scope), fmt.Sprint(scope)
	}
	end := callsEnd
	if n%2 > 0 {
		end = w.cell.end
	}
	switch end {
	case callsCancel:
		return w.cancel(ctx, by, rng, opts)
	case callsExpire:
		some, cancel := context.WithTimeout(ctx, time.Duration(20+rng.IntN(200))*time.Millisecond)
		defer cancel()
		ctx = some
	case callsSettle:
		d.reserved = costly
		opts = append(opts, pacer.Cost(costly))
	}
	r, err := w.acquire(ctx, by, opts)
	if err != nil {
		return err
	}
	d.slot, _ = inside.Slot(r)
	if d.from = time.Now(); w.cell.weather.kind == back { // judged by a clock that does not step
		d.slot = store.Instant(d.from.UnixMicro())
	}
	if w.pools != nil {
		d.scope = r.Credential()
	}
	lasts(20*time.Millisecond + time.Duration(rng.Int64N(int64(mostLasts-20*time.Millisecond))))
	if end == callsSettle {
		if err := r.Settle(context.WithoutCancel(ctx), policies.Cost{N: 1}); err != nil {
			d.cost = costly
			w.failed(err)
		}
	}
	d.to = time.Now()
	r.Release()
	w.note(d)
	return nil
}

func (w *world) acquire(ctx context.Context, by int, opts []pacer.Option) (*pacer.Reservation, error) {
	switch {
	case w.pools != nil:
		return w.pools[by].Acquire(ctx, opts...)
	case !w.cell.setup.book:
		return w.fleet[by].Acquire(ctx, opts...)
	}
	booked := make([]pacer.BookOption, len(opts))
	for i := range opts {
		booked[i] = opts[i]
	}
	tok, wait, err := w.fleet[by].Book(ctx, booked...)
	for err == nil {
		timer := time.NewTimer(max(0, wait-pacer.RedeemEarly/2))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, cmp.Or(w.fleet[by].CancelBooking(context.WithoutCancel(ctx), tok), ctx.Err())
		}
		var r *pacer.Reservation
		if r, err = w.fleet[by].Redeem(ctx, tok); err == nil {
			return r, nil
		}
		if later, ok := errors.AsType[*pacer.LimitError](err); ok {
			wait, err = later.Wait, nil
		}
	}
	return nil, err
}

// cancel makes a call that is given back, or that gives up.
func (w *world) cancel(ctx context.Context, by int, rng *rand.Rand, opts []pacer.Option) error {
	held := time.Duration(rng.IntN(60)) * time.Millisecond
	if rng.IntN(2) == 0 || w.cell.setup.book {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		time.AfterFunc(held, cancel)
		r, err := w.acquire(ctx, by, opts)
		if err == nil {
			err = r.NotUsed(context.WithoutCancel(ctx))
			r.Release()
		}
		return err
	}
	reserve := w.fleet[by].Reserve
	if w.pools != nil {
		reserve = w.pools[by].Reserve
	}
	r, err := reserve(ctx, opts...)
	if err != nil {
		return err
	}
	lasts(held)
	if d := (deed{by: by, from: time.Now(), reserved: 1}); !r.Queued() && r.Delay() == 0 { // nobody can use what is past
		d.to = d.from
		w.note(d)
	}
	err = r.NotUsed(context.WithoutCancel(ctx))
	r.Release()
	return err
}

func (w *world) note(d deed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.went = append(w.went, d)
}

// Bookings use a busy rate though the store is far away: a slot is booked, and redeemed, early enough.
func TestBookingsFarAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{cell: cell{setup: setups[len(setups)-1]}, store: faulty.New(), errs: make(map[string]int)}
		w.store.Suffer(faulty.Faults{Away: 100 * time.Millisecond})
		var callers sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		for range 2 {
			p, err := pacer.New(pacer.Config{Upstream: "api", Store: w.store, Policies: w.cell.setup.list, Jitter: pacer.NoJitter})
			require.NoError(t, err)
			w.fleet = append(w.fleet, p)
		}
		for i := range 60 {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			callers.Go(func() {
				for ctx.Err() == nil {
					if err := w.call(ctx, i%2, 0, 0, rng); err != nil {
						w.failed(err)
					}
				}
			})
		}
		began := time.Now()
		lasts(12 * time.Second)
		stop()
		w.finish(t, &callers)
		least, _ := w.least(began.Add(2*time.Second), began.Add(12*time.Second), 2*time.Second, w.cell.setup.rate)
		require.GreaterOrEqual(t, least, 0.9, "%v", w.errs)
		w.judgeMost(t)
	})
}

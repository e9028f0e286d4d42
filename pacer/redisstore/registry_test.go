package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

func named(t *testing.T, rdb redisstore.Client, name string, p ...policies.Policy) *pacer.Pacer {
	t.Helper()
	store, err := redisstore.New(rdb)
	require.NoError(t, err)
	pc, err := pacer.New(pacer.Config{Upstream: "test", Store: store, Policies: p, Name: name, Jitter: pacer.NoJitter, MaxWait: pacer.Forever, StoreTimeout: patience})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pc.Close()) })
	return pc
}

func operator(t *testing.T, rdb redisstore.Client) *fleet.Operator {
	t.Helper()
	store, err := redisstore.New(rdb)
	require.NoError(t, err)
	op, err := fleet.Open(t.Context(), store, "test")
	require.NoError(t, err)
	return op
}

// The real cost of a call reaches operators, although its estimate was reported before. In a lane, an estimate is what its part admits.
func TestAnOperatorSeesWhatACallReallyCost(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	p := named(t, rdb, "a", policies.PerMinute(6000).Burst(6000).Named("tokens").Lane("batch", 50))
	call, err := p.Acquire(t.Context(), pacer.Lane("batch"), pacer.EstimateOf("tokens", 1_000_000, policies.Learned{}))
	require.NoError(t, err)
	cost := func() (sums []int64) {
		f, err := fleet.Of(p).Snapshot(t.Context())
		require.NoError(t, err)
		for i := range f.Policies {
			sum := int64(0)
			for _, s := range f.Policies[i].History {
				sum += s.Cost
			}
			sums = append(sums, sum)
		}
		return sums
	}
	known := func(want ...int64) func() bool { return func() bool { return slices.Equal(want, cost()) } }
	require.Eventually(t, known(6000, 3000), patience, 100*time.Millisecond, "the whole, and the lane's part")
	require.NoError(t, call.Settle(t.Context(), policies.Cost{Policy: "tokens", N: 100}))
	require.Eventually(t, known(100, 100), patience, 100*time.Millisecond)
	s, err := p.Status(t.Context(), pacer.Lane("batch"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, s.Policies[0].Remaining, int64(5900))
	require.GreaterOrEqual(t, s.Policies[1].Remaining, int64(2900))
}

// An operator with only the store sees what the fleet's processes do, and can intervene.
func TestAnOperatorSeesTheFleet(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	stack := []policies.Policy{
		policies.PerSecond(50).Named("peak"),
		policies.PerSecond(2).Per("tenant").Named("tenant").Optional(),
		policies.Daily(1000, time.UTC),
		policies.InFlight(5).Named("permits").Optional().Per("kind"),
	}
	a, b := named(t, rdb, "a", stack...), named(t, rdb, "b", stack...)
	var wg sync.WaitGroup
	for _, p := range []*pacer.Pacer{a, b} {
		for range 20 {
			wg.Go(func() {
				for range 2 {
					if err := p.Wait(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 12 { // of tenant acme there are 24 calls, which take twelve seconds
			wg.Go(func() {
				if err := p.Wait(pacer.With(t.Context(), pacer.Scope("tenant", "acme"))); err != nil {
					t.Error(err)
				}
			})
		}
	}
	var op *fleet.Operator
	require.Eventually(t, func() bool {
		store, err := redisstore.New(rdb)
		require.NoError(t, err)
		op, err = fleet.Open(t.Context(), store, "test")
		return err == nil
	}, patience, 50*time.Millisecond)
	require.Len(t, op.Policies(), 4)
	var f *fleet.Snapshot
	look := func() *fleet.Snapshot {
		var err error
		f, err = op.Snapshot(t.Context())
		require.NoError(t, err)
		return f
	}
	history := func(policy string) (sum store.Second) {
		for i := range f.Policies {
			if f.Policies[i].Policy.Name() == policy {
				for _, s := range f.Policies[i].History {
					sum.Cost += s.Cost
					sum.Waits += s.Waits
					sum.Waited += s.Waited
				}
			}
		}
		return sum
	}
	require.Eventually(t, func() bool {
		look()
		described := len(f.Processes) == 2 && f.Processes[0].Waiting > 0 && f.Processes[0].Name != "" && f.Processes[1].Name != ""
		return described && len(f.TopKeys) > 0 && f.TopKeys[0].Waiting > 10 && f.Binding().Policy.Name() == "tenant"
	}, patience, 100*time.Millisecond)
	require.True(t, f.Shared)
	require.Equal(t, 2, f.Alive)
	require.Equal(t, "tenant=acme", f.TopKeys[0].Scope)
	require.Positive(t, f.TopKeys[0].Next)
	require.Equal(t, "tenant", f.Binding().Policy.Name())
	require.ElementsMatch(t, []string{"a", "b"}, []string{f.Processes[0].Name, f.Processes[1].Name})
	require.Positive(t, f.Processes[0].Waiting)

	// A pause by the operator reaches those that sleep.
	require.NoError(t, op.Pause(t.Context(), 3*time.Hour, nil))
	require.Greater(t, look().PausedFor, 2*time.Hour, "an operator's pause is not capped")
	require.NoError(t, op.Resume(t.Context()))
	require.Zero(t, look().PausedFor)
	wg.Wait() // nobody sleeps for three hours

	// Everything that went is known some seconds later, or when its process leaves, once.
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	require.Eventually(t, func() bool { look(); return history("peak").Cost == 2*20*2+24 }, patience, 100*time.Millisecond)
	require.Equal(t, int64(24), history("tenant").Cost)
	require.Positive(t, history("tenant").Waits)
	require.Positive(t, history("tenant").Waited)
	require.Equal(t, int64(2*20*2+24), history("daily").Cost)
	require.Nil(t, f.Unknown)

	require.NoError(t, op.Reset(t.Context()))
	s, err := op.Status(t.Context())
	require.NoError(t, err)
	for i := range s.Policies {
		if s.Policies[i].Policy.Name() == "daily" {
			require.Equal(t, int64(1000), s.Policies[i].Remaining)
		}
	}
	require.NoError(t, op.Close())
}

// An operator who only looks writes nothing, and is no process.
func TestLookingWritesNothing(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	p := named(t, rdb, "a", three()...)
	require.NoError(t, p.Wait(pacer.With(t.Context(), pacer.Scope("tenant", "x"))))
	require.NoError(t, p.Close()) // tells the rest
	op := operator(t, rdb)
	reported, err := must(redisstore.New(rdb)).Index(t.Context(), "test")
	require.NoError(t, err)
	require.Len(t, reported.Went, 3, "what went in the second in which it left: one of each policy")
	dump := func() map[string]string {
		all := make(map[string]string)
		keys, err := rdb.Keys(t.Context(), "*").Result()
		require.NoError(t, err)
		for _, k := range keys {
			if rdb.PTTL(t.Context(), k).Val() < time.Minute {
				continue // it is about to expire
			}
			v, err := rdb.Dump(t.Context(), k).Result()
			require.NoError(t, err)
			all[k] = v
		}
		return all
	}
	writes := func() (n string) {
		for line := range strings.Lines(rdb.Info(t.Context(), "persistence").Val()) {
			if strings.HasPrefix(line, "rdb_changes_since_last_save:") {
				n = line
			}
		}
		return n
	}
	before, changes := dump(), writes()
	for range 3 {
		f, err := op.Snapshot(t.Context(), pacer.Scope("tenant", "x"))
		require.NoError(t, err)
		require.Zero(t, f.Alive)
		require.Len(t, f.Policies, 3, "they are remembered when no process is there")
		_, err = op.Status(t.Context(), pacer.Scope("tenant", "x"))
		require.NoError(t, err)
	}
	store, err := redisstore.New(rdb)
	require.NoError(t, err)
	names, err := store.Upstreams(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"test"}, names)
	require.Equal(t, changes, writes())
	require.Equal(t, before, dump())
}

func TestAnOperatorOfAnUnknownUpstream(t *testing.T) {
	t.Parallel()
	store, err := redisstore.New(redistest.Start(t).Client())
	require.NoError(t, err)
	_, err = fleet.Open(t.Context(), store, "zendes")
	require.ErrorIs(t, err, fleet.ErrUnknownUpstream)
	require.ErrorContains(t, err, `pacer: Upstream is "zendes": no process paces this upstream`)
	_, err = fleet.Open(t.Context(), store, "{x}")
	require.ErrorContains(t, err, "must start with a letter or digit")
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer rdb.Close()
	gone, err := redisstore.New(rdb)
	require.NoError(t, err)
	_, err = fleet.Open(t.Context(), gone, "x")
	var se *pacer.StoreError
	require.ErrorAs(t, err, &se)
}

// A Pacer shows its operator the fleet, and its own process while the store is out of reach.
func TestFleetOfAPacer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := named(t, server.Client(), "a", three()...)
	op := fleet.Of(p)
	require.NoError(t, p.Wait(pacer.With(t.Context(), pacer.Scope("tenant", "x"))))
	require.Eventually(t, func() bool {
		s, err := op.Snapshot(t.Context())
		require.NoError(t, err)
		return s.Shared && s.Alive == 1 && s.Processes[0].Name == "a" && s.Processes[0].ID != ""
	}, patience, 50*time.Millisecond)

	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer rdb.Close()
	away, err := redisstore.New(rdb)
	require.NoError(t, err)
	p, err = pacer.New(pacer.Config{Upstream: "test", Store: away, Policies: three(), Name: "b", Processes: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	require.NoError(t, p.Wait(pacer.With(t.Context(), pacer.Scope("tenant", "x"))))
	s, err := fleet.Of(p).Snapshot(t.Context())
	require.NoError(t, err)
	require.False(t, s.Shared)
	require.Equal(t, 1, s.Alive)
	require.Equal(t, "b", s.Processes[0].Name)
	require.Empty(t, s.Processes[0].ID)
	require.Len(t, s.Policies, 3)
	require.Empty(t, s.Unknown)
}

// Anybody who can write there can write anything: values of another form are left out.
func TestAnIndexOfNonsense(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	p := named(t, rdb, "a", policies.PerSecond(50).Named("peak"), policies.PerSecond(1).Per("tenant").Named("tenant").Optional())
	require.NoError(t, p.Wait(t.Context()))
	require.NoError(t, p.Close())
	key := "pacer:10:{test}/index"
	now := time.Now()
	for field, value := range map[string]string{
		"policy/a": "", "policy/b": "x y z", "policy/c": "-5 5 c: 1 per 1s", "policy/d": "99999999999999999999 1 d: 1 per 1s, burst 1",
		"policy/e":    fmt.Sprintf("%d %d nonsense \x00\xff", now.UnixMicro(), now.Add(time.Hour).UnixMicro()),
		"policy/f":    fmt.Sprintf("%d %d peak: 1 per 1s, burst 1", now.UnixMicro(), now.Add(time.Hour).UnixMicro()),
		"went/1/peak": "1 2", "went/2": "1 2 3 4", "went/3/peak": "1 -2 3 4", "went/4/peak": "9007199254740993 1 1 1",
		fmt.Sprintf("went/%d/peak", now.Unix()%64): "x", "process/z": `{"n":"\u001b[2Jevil\u0000","k":[{"p":"tenant","s":"}x{","c":1},{"p":"tenant","s":"x","c":-1},{"p":"tenant","c":1},{"p":"tenant","s":"y","c":9223372036854775807},{"p":"peak","s":"x","c":1}]}`, "process/y": strings.Repeat("[", 100_000), "": "", "swept": "tomorrow",
	} {
		require.NoError(t, rdb.HSet(t.Context(), key, field, value).Err())
	}
	for _, id := range []string{"z", "y", "unknown"} {
		require.NoError(t, rdb.ZAdd(t.Context(), "pacer:10:{test}/alive", redis.Z{Score: float64(now.Add(time.Minute).UnixMicro()), Member: id}).Err())
		require.NoError(t, rdb.ZAdd(t.Context(), "pacer:10:{test}/came", redis.Z{Score: float64(now.UnixMicro()), Member: id}).Err())
	}
	require.NoError(t, rdb.ZAdd(t.Context(), "pacer:10:upstreams", redis.Z{Score: float64(now.Add(time.Minute).UnixMicro()), Member: "evil\x1b[2J"}).Err())
	names, err := must(redisstore.New(rdb)).Upstreams(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"test"}, names)
	op := operator(t, rdb)
	f, err := op.Snapshot(t.Context())
	require.NoError(t, err)
	require.Len(t, f.Policies, 2)
	require.Len(t, f.Processes, 3)
	require.Equal(t, []string{"", "", "?[2Jevil?"}, []string{f.Processes[0].Name, f.Processes[1].Name, f.Processes[2].Name})
	require.Empty(t, f.TopKeys)
	require.Len(t, f.Unknown, 2, "nonsense, and the second of a name: %q", f.Unknown)

	// A process that comes works all the same, and removes what has expired.
	p = named(t, rdb, "b", policies.PerSecond(50).Named("peak"))
	require.NoError(t, p.Wait(t.Context()))
	require.Eventually(t, func() bool {
		f, err = op.Snapshot(t.Context())
		return err == nil && f.Processes[len(f.Processes)-1].Name == "b"
	}, patience, 50*time.Millisecond)
	left, err := rdb.HKeys(t.Context(), key).Result()
	require.NoError(t, err)
	require.NotContains(t, left, "policy/a")
	require.NotContains(t, left, "went/4/peak2")
	// One that holds something else altogether harms nobody's calls.
	require.NoError(t, rdb.Set(t.Context(), key, "mine", 0).Err())
	require.NoError(t, p.Wait(t.Context()))
	_, err = op.Snapshot(t.Context())
	require.ErrorIs(t, err, redisstore.ErrForeign)
}

// A Cluster keeps the names of upstreams on another server than their data.
func TestUpstreamsOfACluster(t *testing.T) {
	t.Parallel()
	store, err := redisstore.New(redistest.StartCluster(t).Client())
	require.NoError(t, err)
	for _, name := range []string{"b", "a", "c"} {
		p, err := pacer.New(pacer.Config{Upstream: name, Store: store, Policies: []policies.Policy{policies.PerSecond(10)}, StoreTimeout: patience})
		require.NoError(t, err)
		require.NoError(t, p.Wait(t.Context()))
		defer p.Close()
	}
	require.Eventually(t, func() bool {
		names, err := store.Upstreams(t.Context())
		require.NoError(t, err)
		return strings.Join(names, " ") == "a b c"
	}, patience, 50*time.Millisecond)
	op, err := fleet.Open(t.Context(), store, "b")
	require.NoError(t, err)
	f, err := op.Snapshot(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, f.Alive)
}

// An upstream whose name did not reach the store is named again with the next description.
func TestAnUpstreamIsNamedAgain(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	broken := errors.New("broken")
	rdb.AddHook(refuses{"pacer:10:upstreams", broken, new(atomic.Bool)})
	backing := must(redisstore.New(rdb))
	about := store.About{ID: "a", Name: "x", Keep: time.Hour}
	require.ErrorIs(t, errorOf(backing.Describe(t.Context(), "test", about)), broken)
	require.NoError(t, errorOf(backing.Describe(t.Context(), "test", about)))
	names, err := backing.Upstreams(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"test"}, names)
}

// refuses is a hook that makes the first command fail that names a key.
type refuses struct {
	key string
	err error
	did *atomic.Bool
}

func (h refuses) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h refuses) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h refuses) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		named := slices.ContainsFunc(cmd.Args(), func(arg any) bool {
			s, ok := arg.(*string) // as a Store passes keys
			return ok && *s == h.key
		})
		if named && h.did.CompareAndSwap(false, true) {
			cmd.SetErr(h.err)
			return h.err
		}
		return next(ctx, cmd)
	}
}

// Descriptions are removed when their processes leave, or by others if they were killed; and so are upstreams that are no longer paced.
func TestTheRegistryForgets(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	backing := must(redisstore.New(rdb))
	report := func(id string, lives time.Duration) {
		_, err := backing.Heartbeat(t.Context(), "test", store.Heartbeat{ID: id, TTL: lives, Keep: time.Hour})
		require.NoError(t, err)
		require.NoError(t, errorOf(backing.Describe(t.Context(), "test", store.About{ID: id, Name: "x", Keep: time.Hour, Left: lives == 0})))
	}
	listed := func() (all []string) {
		fields, err := rdb.HKeys(t.Context(), "pacer:10:{test}/index").Result()
		require.NoError(t, err)
		for _, f := range fields {
			if strings.HasPrefix(f, "process/") {
				all = append(all, f)
			}
		}
		return all
	}
	require.NoError(t, rdb.ZAdd(t.Context(), "pacer:10:upstreams", redis.Z{Score: 1, Member: "old"}).Err())
	report("killed", time.Minute)
	require.Equal(t, []string{"test"}, rdb.ZRange(t.Context(), "pacer:10:upstreams", 0, -1).Val())
	until := rdb.ZScore(t.Context(), "pacer:10:upstreams", "test").Val()
	brief := store.About{ID: "brief", Keep: time.Second}
	// Another minute may begin at any time, and with it a process that is not there is taken out.
	heartbeats := func(id string, lives time.Duration) {
		_, err := backing.Heartbeat(t.Context(), "test", store.Heartbeat{ID: id, TTL: lives, Keep: time.Second})
		require.NoError(t, err)
	}
	heartbeats("brief", time.Minute)
	require.NoError(t, errorOf(must(redisstore.New(rdb)).Describe(t.Context(), "test", brief)))
	require.InDelta(t, until, rdb.ZScore(t.Context(), "pacer:10:upstreams", "test").Val(), 0, "nobody makes it be forgotten sooner")
	report("leaves", time.Minute)
	report("stays", time.Minute)
	require.ElementsMatch(t, []string{"process/brief", "process/killed", "process/leaves", "process/stays"}, listed())
	report("leaves", 0)
	require.ElementsMatch(t, []string{"process/brief", "process/killed", "process/stays"}, listed())
	heartbeats("killed", 20*time.Millisecond)
	heartbeats("brief", 20*time.Millisecond)
	require.Eventually(t, func() bool { // the server's clock decides
		require.NoError(t, rdb.HDel(t.Context(), "pacer:10:{test}/index", "swept").Err(), "as if a minute had passed")
		report("stays", time.Minute)
		return slices.Equal(listed(), []string{"process/stays"})
	}, patience, 10*time.Millisecond)
}

// errorOf returns the error of Describe.
func errorOf(_ int, err error) error { return err }

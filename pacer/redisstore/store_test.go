package redisstore_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/internal/scripts"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// newPacer returns a Pacer that waits for its store without a bound: a busy machine does not make it pace locally.
func newPacer(t *testing.T, rdb redisstore.Client, p ...policies.Policy) *pacer.Pacer {
	t.Helper()
	store, err := redisstore.New(rdb)
	require.NoError(t, err)
	pc, err := pacer.New(pacer.Config{Upstream: "test", Store: store, Policies: p, StoreTimeout: patience, MaxLate: patience})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pc.Close()) })
	return pc
}

// refuser is a Pacer that does not pace locally.
func refuser(t *testing.T, rdb redisstore.Client, p ...policies.Policy) *pacer.Pacer {
	t.Helper()
	store, err := redisstore.New(rdb)
	require.NoError(t, err)
	pc, err := pacer.New(pacer.Config{Upstream: "test", Store: store, Policies: p, Outage: pacer.RefuseCalls, StoreTimeout: patience})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pc.Close()) })
	return pc
}

// accounts returns the keys of policies: all but those of the upstream itself.
func accounts(t *testing.T, rdb *redis.Client) []string {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	return slices.DeleteFunc(keys, ofTheUpstream)
}

// ofTheUpstream reports whether a key is about the upstream and not one of its policies.
func ofTheUpstream(key string) bool {
	return strings.HasSuffix(key, "}") || strings.Contains(key, "}/") || key == "pacer:10:upstreams"
}

// three is a stack of both algorithms.
func three() []policies.Policy {
	return []policies.Policy{
		policies.Daily(1_000_000, time.UTC),
		policies.PerSecond(100_000).Burst(1000).Named("peak"),
		policies.PerSecond(50_000).Burst(1000).Per("tenant").Named("tenant"),
	}
}

// One Wait on any stack is one EVALSHA and nothing else; a script that the server does not know costs one EVAL more.
func TestOneWaitIsOneEvalsha(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	p := newPacer(t, rdb, three()...)
	ctx := pacer.With(t.Context(), pacer.Scope("tenant", "acme"))
	require.NoError(t, p.Wait(ctx))
	require.Eventually(t, func() bool { // the server knows every script
		return rdb.Exists(t.Context(), "pacer:10:{test}/alive", "pacer:10:{test}/index", "pacer:10:upstreams").Val() == 3
	}, patience, 5*time.Millisecond)
	source := scripts.New()[scripts.Reserve]
	hash := redis.NewScript(source).Hash()
	const waits = 25
	stop := watch(t, rdb)
	for range waits {
		require.NoError(t, p.Wait(ctx))
	}
	// A rate whose key has expired is read once more: it could be a key of another type.
	inside := map[string]int{"time": 1, "mget": 1, "type": 3, "set": 3}
	requested := 0
	for _, c := range stop() {
		if c.name != "evalsha" || c.args[0] != hash {
			continue // the process's own description, in the background
		}
		requested++
		ran := make(map[string]int)
		for _, did := range c.inside {
			ran[did.name]++
			require.LessOrEqual(t, ran[did.name], inside[did.name], "the script runs %s", did.name)
		}
		require.Equal(t, 1, ran["mget"], "it reads all accounts at once")
	}
	require.Equal(t, waits, requested)
	require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
	stop = watch(t, rdb)
	require.NoError(t, p.Wait(ctx))
	require.NoError(t, p.Wait(ctx))
	var commands []string // how the script was sent: by its hash, and with its source
	for _, c := range stop() {
		if c.name == "evalsha" && c.args[0] == hash || c.name == "eval" && c.args[0] == source {
			commands = append(commands, c.name)
		}
	}
	require.Equal(t, []string{"evalsha", "eval", "evalsha"}, commands, "after NOSCRIPT, once")
}

// Every key has a TTL, set with its value, that ends after its last effect.
func TestNoKeyWithoutTTL(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	p := newPacer(t, rdb, append(three(),
		policies.PerSecond(2).Per("slow").Optional(),
		policies.Sliding(5, time.Second).Per("slow").Optional(),
	)...)
	var held []*pacer.Reservation
	for i := range 300 {
		ctx := pacer.With(t.Context(), pacer.Scope("tenant", fmt.Sprint(i%5)))
		if i%3 == 0 {
			ctx = pacer.With(ctx, pacer.Scope("slow", "x"))
		}
		r, err := p.Reserve(ctx, pacer.MaxWait(pacer.Forever), pacer.NotBefore(time.Duration(i%7)*10*time.Minute)) // far away on any machine
		require.NoError(t, err)
		held = append(held, r)
		switch i % 11 {
		case 0:
			require.NoError(t, held[len(held)/2].NotUsed(t.Context()))
		case 1:
			require.NoError(t, p.Report(ctx, policies.Feedback{Wait: time.Millisecond, Policies: []string{"tenant", "daily"}}))
		case 2:
			require.NoError(t, p.Report(ctx, policies.Feedback{Wait: time.Millisecond}))
		}
	}
	keys, err := rdb.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Greater(t, len(keys), 8)
	for _, key := range keys {
		ttl, err := rdb.PTTL(t.Context(), key).Result()
		require.NoError(t, err)
		require.NotEqual(t, time.Duration(-1), ttl, "key %s has no TTL", key)
		require.True(t, strings.HasPrefix(key, "pacer:10:{test}") || key == "pacer:10:upstreams", key)
	}
	for _, r := range held {
		require.NoError(t, r.NotUsed(t.Context()))
	}
	gaps, err := rdb.Keys(t.Context(), "*gaps*").Result()
	require.NoError(t, err)
	for _, key := range gaps {
		n, err := rdb.ZCard(t.Context(), key).Result()
		require.NoError(t, err)
		require.LessOrEqual(t, n, int64(1), "all gaps of %s merged", key)
	}
}

// A key is gone soon after its last effect, and not before.
func TestKeysExpire(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	p := newPacer(t, rdb, policies.PerSecond(1), policies.Fixed(10, 200*time.Millisecond))
	require.NoError(t, p.Wait(t.Context()))
	require.NotEmpty(t, accounts(t, rdb))
	require.Eventually(t, func() bool { return len(accounts(t, rdb)) == 0 }, patience, 20*time.Millisecond)
}

// Scope values come from outside: none of them may reach another key or another slot.
func TestHostileScopeValues(t *testing.T) {
	t.Parallel()
	rdb := redistest.StartCluster(t).Client()
	p := newPacer(t, rdb, policies.Every(time.Hour).Per("tenant"))
	values := []string{
		"}", "{", "{}", "}{other}", "{other}", "\x00", "\r\nFLUSHALL\r\n", "a:b", "a%3Ab", "/gaps", "gaps:", "*", "?", "[a]",
		strings.Repeat("{", 10_000), strings.Repeat("x", 1<<20), "\xff\xfe", "日本", " ", "#", "pacer:10:{test}:all",
	}
	for _, v := range values {
		require.NoError(t, p.Wait(t.Context(), pacer.Scope("tenant", v), pacer.MaxWait(0)), "%.20q is a key of its own", v)
		require.ErrorIs(t, p.Wait(t.Context(), pacer.Scope("tenant", v), pacer.MaxWait(0)), pacer.ErrNotYet, "%.20q is remembered", v)
	}
	var total atomic.Int64
	require.NoError(t, rdb.ForEachMaster(t.Context(), func(ctx context.Context, c *redis.Client) error {
		keys, err := c.Keys(ctx, "*").Result()
		keys = slices.DeleteFunc(keys, ofTheUpstream)
		for _, key := range keys {
			if !strings.HasPrefix(key, "pacer:10:{test}:") || len(key) > 200 {
				return fmt.Errorf("key %.100q", key)
			}
		}
		total.Add(int64(len(keys)))
		return err
	}))
	require.Equal(t, int64(len(values)), total.Load(), "one key for each value")
}

// A value that Headway did not write is not overwritten: a typed error names the key, and nothing is changed.
func TestForeignValues(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	plants := map[string]func(key string) error{
		"a list": func(k string) error { return rdb.LPush(t.Context(), k, "x").Err() },
		"a hash": func(k string) error { return rdb.HSet(t.Context(), k, "l", "x").Err() },
	}
	for name, value := range foreignValues() {
		plants[name] = func(k string) error { return rdb.Set(t.Context(), k, value, 0).Err() }
	}
	for name, plant := range plants {
		for _, victim := range []policies.Policy{policies.PerSecond(1).Named("victim"), policies.Fixed(1, time.Second).Named("victim")} {
			require.NoError(t, rdb.FlushAll(t.Context()).Err())
			p := newPacer(t, rdb, policies.Every(time.Hour).Named("first"), victim)
			require.NoError(t, plant("pacer:10:{test}:victim"))
			before, err := rdb.Dump(t.Context(), "pacer:10:{test}:victim").Result()
			require.NoError(t, err)
			err = p.Wait(t.Context())
			require.ErrorIs(t, err, redisstore.ErrForeign, "%s, %v", name, victim)
			var se *pacer.StoreError
			require.ErrorAs(t, err, &se)
			require.ErrorIs(t, p.Report(t.Context(), policies.Feedback{Wait: 1, Policies: []string{"victim"}}), redisstore.ErrForeign, name)
			_, err = p.Status(t.Context())
			require.ErrorIs(t, err, redisstore.ErrForeign, name)
			after, err := rdb.Dump(t.Context(), "pacer:10:{test}:victim").Result()
			require.NoError(t, err)
			require.Equal(t, before, after, name)
			require.Len(t, accounts(t, rdb), 1, "%s: no other policy was charged", name)
			require.NoError(t, p.Close()) // it would remember what the next one is to find forgotten
		}
	}
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
	require.NoError(t, rdb.SAdd(t.Context(), "pacer:10:{test}", "x").Err())
	require.ErrorIs(t, newPacer(t, rdb, policies.PerSecond(1)).Wait(t.Context()), redisstore.ErrForeign)
}

// foreignValues are values that no script writes: at first sight, in the state of a rate or of a window.
func foreignValues() map[string]string {
	const mebibyte = 1 << 20
	values := map[string]string{
		"a word": "hello", "nothing": "", "a negative number": "-5", "infinite": "inf", "two numbers": "1 2", "a huge number": "99999999999999999999",
		"a mark alone": "*", "no state": "r1000000", "no shape": " 5", "an unknown kind": "x1000000 5", "a rate of an earlier release": "r1000000.1 5",
		"no interval": "r 5", "an interval of 0": "r0 5", "a width of 0": "w0.0 9007199254740991 5",
		"a huge interval": "r9007199254740992 5", "a huge width": "w99999999999999999999.0 5 5",
		"concurrency with a number": "p1 0 0 0", "a long shape": "r" + strings.Repeat("1", mebibyte) + " 5", "1 MB": strings.Repeat("5", mebibyte),
		"1 MB of lines": strings.Repeat("\n", mebibyte),
	}
	for name, state := range map[string]string{
		"a word": "hello", "nothing": "", "a negative number": "-5", "infinite": "inf", "a huge number": "99999999999999999999", "a fraction": "5 0.5",
		"too many numbers": strings.Repeat("5 ", 15) + "5", "no list": "5 5|", "half a pair": "5 5|6", "a word for numbers": "5 x|" + strings.Repeat("5", 14),
		"1 MB": strings.Repeat("5", mebibyte), "1 MB of numbers": strings.Repeat("5 ", mebibyte/2), "1 MB of spaces": strings.Repeat(" ", mebibyte),
		"1 MB of halves": "5 5|" + strings.Repeat("5", mebibyte),
	} {
		for what, shape := range map[string]string{
			"a rate": "r1000000 ", "an old rate": "r7 ", "a window": "w1000000.0 ", "an old window": "w7.0 ", "a calendar": "c1000000.0 ",
		} {
			values[what+": "+name] = shape + state
		}
	}
	return values
}

func TestNilClient(t *testing.T) {
	t.Parallel()
	for _, rdb := range []redisstore.Client{nil, (*redis.Client)(nil), (*redis.ClusterClient)(nil)} {
		_, err := redisstore.New(rdb)
		var ce *pacer.ConfigError
		require.ErrorAs(t, err, &ce)
	}
}

// A server that answers nonsense, an error, or nothing: a typed error, never a panic.
func TestServersThatAnswerNonsense(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"error":    "-ERR out of sorts\r\n",
		"string":   "$5\r\nhello\r\n",
		"short":    "*2\r\n:1\r\n:2\r\n",
		"long":     "*20\r\n" + strings.Repeat(":1\r\n", 20),
		"strings":  "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n",
		"nil":      "$-1\r\n",
		"empty":    "*0\r\n",
		"now only": "*1\r\n:5\r\n",
		"closed":   "",
		"endless":  "*9223372036854775807\r\n",
		"huge":     "$9223372036854775807\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := redis.NewClient(&redis.Options{Addr: parrot(t, answer), Protocol: 2, DisableIdentity: true, MaxRetries: -1, ReadTimeout: patience})
			defer rdb.Close()
			for _, list := range [][]policies.Policy{{policies.PerSecond(1)}, {policies.Daily(1, time.UTC)}} {
				p, err := pacer.New(pacer.Config{Upstream: "test", Store: must(redisstore.New(rdb)), Policies: list, Processes: 1, StoreTimeout: 50 * time.Millisecond})
				require.NoError(t, err)
				defer p.Close()
				var se *pacer.StoreError
				require.NoError(t, p.Wait(t.Context()), "paced locally")
				require.ErrorIs(t, newPacer(t, rdb, list...).Wait(t.Context(), pacer.MaxWait(0)), store.ErrNoContact)
				p = refuser(t, rdb, list...)
				require.ErrorAs(t, p.Wait(t.Context()), &se)
				require.ErrorIs(t, se, store.ErrUnreachable)
				_, err = p.Status(t.Context())
				require.ErrorAs(t, err, &se)
				require.ErrorAs(t, p.Report(t.Context(), policies.Feedback{Wait: 1}), &se)
			}
			s := must(redisstore.New(rdb))
			defer s.Listen("test", func(store.News) {})()
			_, err := fleet.Open(t.Context(), s, "test")
			var se *pacer.StoreError
			require.ErrorAs(t, err, &se)
			_, err = s.Upstreams(t.Context())
			require.True(t, err != nil || name == "strings" || name == "empty")
			_, err = s.Redeem(t.Context(), "test", []store.Booking{{ID: "b"}})
			require.True(t, err != nil || name == "short")
			require.Error(t, s.Ready(t.Context(), "test"))
		})
	}
}

// parrot listens on loopback and answers each command but the first of a connection with the same bytes.
func parrot(t *testing.T, answer string) string {
	t.Helper()
	return answering(t, func(command string) string {
		if strings.Contains(command, "hello") {
			return "-ERR unknown command\r\n"
		}
		return answer
	})
}

// answering listens on loopback and answers each command. It hangs up instead of answering nothing.
func answering(t *testing.T, answer func(command string) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				for commands := bufio.NewReader(c); ; {
					command, err := readCommand(commands)
					if err != nil {
						return
					}
					reply := answer(command)
					if _, err := c.Write([]byte(reply)); err != nil || reply == "" {
						return
					}
				}
			})
		}
	})
	return l.Addr().String()
}

// readCommand reads an array of strings.
func readCommand(r *bufio.Reader) (string, error) {
	command, err := r.ReadString('\n')
	words, _ := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(command, "*")))
	for ; words > 0 && err == nil; words-- {
		var size string
		size, err = r.ReadString('\n')
		n, _ := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(size, "$")))
		word := make([]byte, n+len("\r\n"))
		if err == nil {
			_, err = io.ReadFull(r, word)
		}
		command += size + string(word)
	}
	return command, err
}

// A client whose clock is days off finds the right page of the calendar: the server's clock decides.
func TestAClientWhoseClockIsOff(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	for _, off := range []time.Duration{-400 * 24 * time.Hour, -3 * 24 * time.Hour, 0, 25 * time.Hour, 5000 * 24 * time.Hour} {
		store, err := redisstore.New(rdb)
		require.NoError(t, err)
		redisstore.ShiftClock(store, off)
		p, err := pacer.New(pacer.Config{Upstream: "clock" + fmt.Sprint(int(off.Hours())), Store: store, Policies: []policies.Policy{policies.Daily(2, time.UTC)}, StoreTimeout: patience})
		require.NoError(t, err)
		defer p.Close()
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
		s, err := p.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(1), s.Policies[0].Remaining, "off by %v", off)
		require.NoError(t, p.Wait(t.Context(), pacer.MaxWait(0)))
		require.ErrorIs(t, p.Wait(t.Context(), pacer.MaxWait(0)), pacer.ErrNotYet)
	}
}

// docs/redis.md names the commands and the key pattern: a user who may do just that can do everything.
func TestTheACLThatTheDocsName(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rule := []any{"ACL", "SETUSER", "headway", "on", ">secret", "resetkeys", "~pacer:*", "resetchannels", "&pacer:*", "nocommands"}
	for c := range strings.FieldsSeq(aclCommands) {
		rule = append(rule, "+"+c)
	}
	require.NoError(t, server.Client().Do(t.Context(), rule...).Err())
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "headway", Password: "secret"})
	t.Cleanup(func() { _ = rdb.Close() })
	p := newPacer(t, rdb, append(three(), policies.PerSecond(1).Named("slow"))...)
	storeExercise(t, p)
	asleep(t, p, pacer.Scope("tenant", "acme"))
	listening(t, server.Client(), 1)
	queueExercise(t, rdb)
	registryExercise(t, rdb)
	everythingExpires(t, server.Client())
}

// queueExercise makes a store run every command that queues need.
func queueExercise(t *testing.T, rdb *redis.Client) {
	t.Helper()
	p, err := pacer.New(pacer.Config{Upstream: "lines", Store: must(redisstore.New(rdb)), StoreTimeout: patience, Policies: []policies.Policy{
		policies.InFlight(1).Fair("tenant"), policies.InFlight(5).LongerThan(time.Minute).Named("long"),
		policies.PerSecond(50).Burst(2).Lane("batch", 50), policies.PerSecond(50).Burst(2).Fair("tenant").Named("fair"),
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	ctx := pacer.With(t.Context(), pacer.Lane("batch"))
	var calls sync.WaitGroup
	for i := range 12 {
		calls.Go(func() {
			r, err := p.Acquire(ctx, pacer.Scope("tenant", strconv.Itoa(i%3)))
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(10 * time.Millisecond) //realtime: it is how long the upstream takes
			r.Release()
		})
	}
	calls.Wait()
	require.NoError(t, fleet.Of(p).Reset(ctx, pacer.Scope("tenant", "0")))
}

// registryExercise makes a store run every command that a registry needs.
func registryExercise(t *testing.T, rdb *redis.Client) {
	t.Helper()
	backing := must(redisstore.New(rdb))
	heartbeat := store.Heartbeat{ID: "a", TTL: time.Second, Keep: time.Second}
	_, err := backing.Heartbeat(t.Context(), "registry", heartbeat)
	require.NoError(t, err)
	about := store.About{
		ID: "a", Name: "x", Keep: time.Second, Policies: []string{policies.PerSecond(1).String()},
		Went: []store.Went{{Policy: "per-second", Second: time.Now().Unix(), What: store.Second{Cost: 1}}},
	}
	for range 2 {
		require.NoError(t, errorOf(backing.Describe(t.Context(), "registry", about)))
	}
	index, err := backing.Index(t.Context(), "registry")
	require.NoError(t, err)
	require.Len(t, index.Processes, 1)
	require.Equal(t, int64(2), index.Went[0].What.Cost)
	names, err := backing.Upstreams(t.Context())
	require.NoError(t, err)
	require.Contains(t, names, "registry")
	for _, text := range []string{"per-second: 2 per 1s", ""} {
		_, err = backing.Set(t.Context(), "registry", []store.Setting{{Text: text, For: time.Second}})
		require.NoError(t, err)
	}
	about.Left = true
	require.NoError(t, errorOf(backing.Describe(t.Context(), "registry", about)))
}

// The remains of a queue expire, even of calls that come and go in one request.
func TestLinesExpire(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client()
	backing := must(redisstore.New(rdb))
	fair := policies.Every(time.Second).Fair("tenant").Named("fair")
	stack := store.Stack{Upstream: "test", Limits: []store.Limit{{Policy: fair.Name(), Spec: fair.Spec()}}}
	call := func(id int64) store.Call {
		return store.Call{Cost: 1, ID: 1e14 + id, Flow: 1, Weight: 1, MaxWait: time.Hour}
	}
	ask := func(calls ...store.Call) []store.Grant {
		grants := make([]store.Grant, len(calls))
		require.NoError(t, backing.Reserve(t.Context(), stack, calls, grants))
		return grants
	}
	grants := ask(call(1), call(2))
	require.True(t, grants[0].OK && grants[1].Queued)
	time.Sleep(grants[1].Wait())   //realtime: the server's clock decides
	grants = ask(call(2), call(3)) // the queue is empty in between
	require.True(t, grants[0].OK && grants[1].Queued)
	everythingExpires(t, rdb)
}

// While policies change back and forth, with reservations far ahead and logs of starts, no key is without a TTL at any time. Soon after
// the last effect nothing is left of the policy.
func TestChangedPoliciesLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	shapes := []policies.Policy{
		policies.PerSecond(20), policies.PerSecond(50).Burst(3), policies.PerSecond(100).Burst(10), policies.AtMost(10, time.Second).Burst(4),
		policies.AtMost(20, time.Second).Burst(4), policies.Sliding(20, time.Second), policies.Fixed(20, 200*time.Millisecond),
		policies.PerSecond(40).Adaptive(policies.Adaptation{}), policies.InFlight(1000),
	}
	for _, far := range []time.Duration{0, time.Second, time.Hour} {
		t.Run(far.String(), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t).Client()
			backing, rng := must(redisstore.New(rdb)), rand.New(rand.NewPCG(uint64(far), 5))
			var given []func() error
			for range 400 {
				policy := shapes[rng.IntN(len(shapes))]
				stack := store.Stack{Upstream: "test", Limits: []store.Limit{{Policy: "p", Scope: "tenant", Spec: policy.Spec()}}}
				switch kind := rng.IntN(10); {
				case kind == 1 && rng.IntN(3) == 0:
					_, _, err := backing.Report(t.Context(), stack, []store.Note{{Kind: store.NoteReset, Limit: 0}})
					require.NoError(t, err)
				case kind == 2:
					_, err := backing.Status(t.Context(), stack)
					require.NoError(t, err)
				case kind == 3 && len(given) > 0:
					require.NoError(t, given[rng.IntN(len(given))]())
				default:
					call := store.Call{Cost: 1, MaxWait: time.Hour, NotBefore: time.Duration(rng.Int64N(int64(far) + 1))}
					if policy.Spec().HasQueue() {
						call.ID = 1e14 + rng.Int64N(1e6)
					}
					grants := make([]store.Grant, 1)
					require.NoError(t, backing.Reserve(t.Context(), stack, []store.Call{call}, grants))
					if grants[0].OK {
						given = append(given, func() error { return backing.Cancel(t.Context(), stack, grants) })
					}
				}
				for _, key := range rdb.Keys(t.Context(), "*").Val() {
					require.NotEqual(t, -1*time.Nanosecond, rdb.PTTL(t.Context(), key).Val(), "%s has no TTL", key)
				}
			}
			require.NotEmpty(t, accounts(t, rdb))
			if far < time.Hour {
				rdb.Del(t.Context(), rdb.Keys(t.Context(), "*/leases*").Val()...)
				require.Eventually(t, func() bool { return len(accounts(t, rdb)) == 0 }, patience, 50*time.Millisecond)
			}
		})
	}
}

// everythingExpires checks that no key is kept for ever.
func everythingExpires(t *testing.T, rdb *redis.Client) {
	t.Helper()
	keys := rdb.Keys(t.Context(), "pacer:*").Val()
	require.NotEmpty(t, keys)
	for _, key := range keys {
		require.NotEqual(t, -1*time.Nanosecond, rdb.PTTL(t.Context(), key).Val(), "%s has no TTL", key)
	}
}

// aclCommands is what docs/redis.md lists.
const aclCommands = "evalsha eval time get mget type set del unlink exists pttl zcard zcount zscore zadd zrem zrange zrangebyscore zrevrangebyscore zremrangebyscore zremrangebyrank zrank hget hset hdel hgetall hexists hlen pexpire publish subscribe unsubscribe ping hello"

// storeExercise makes a store run every command that it has.
func storeExercise(t *testing.T, p *pacer.Pacer) {
	t.Helper()
	ctx := pacer.With(t.Context(), pacer.Scope("tenant", "acme"))
	var held []*pacer.Reservation
	for range 6 {
		r, err := p.Reserve(ctx, pacer.NotBefore(time.Second))
		require.NoError(t, err)
		held = append(held, r)
	}
	require.NoError(t, held[2].NotUsed(ctx))
	require.NoError(t, held[4].NotUsed(ctx))
	require.NoError(t, held[3].NotUsed(ctx))
	_, err := p.Reserve(ctx, pacer.NotBefore(time.Second))
	require.NoError(t, err)
	require.NoError(t, p.Report(ctx, policies.Feedback{Wait: time.Millisecond}))
	require.NoError(t, p.Report(ctx, policies.Feedback{Wait: time.Millisecond, Policies: []string{"tenant", "daily"}}))
	r, err := p.Reserve(ctx, pacer.Tracked(), pacer.MaxWait(pacer.Forever))
	require.NoError(t, err)
	require.NoError(t, r.Report(ctx, policies.Feedback{Policies: []string{"daily"}, Remaining: policies.Reported(3)}))
	require.NoError(t, r.Settle(ctx, policies.Cost{N: 2}))
	require.NoError(t, fleet.Of(p).Resume(ctx))
	_, err = p.Status(ctx)
	require.NoError(t, err)
}

// The two keys of a rate can be lost apart, by eviction: gaps without their rate mean nothing, and must not
// be found again when the rate has new ones.
func TestGapsWithoutTheirRateMeanNothing(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	backing := must(redisstore.New(rdb)) // a Pacer would find out that its charges are lost
	policy := policies.Every(time.Minute).Named("slow")
	stack := store.Stack{Upstream: "gaps", Limits: []store.Limit{{Policy: policy.Name(), Spec: policy.Spec()}}}
	reserve := func(after time.Duration) time.Duration {
		grants := make([]store.Grant, 1)
		require.NoError(t, backing.Reserve(t.Context(), stack, []store.Call{{Cost: 1, NotBefore: after, MaxWait: pacer.Forever}}, grants))
		return grants[0].Wait().Round(time.Minute)
	}
	require.Equal(t, 100*time.Minute, reserve(100*time.Minute)) // a gap of 100 minutes before it
	require.Equal(t, int64(1), rdb.Del(t.Context(), "pacer:10:{gaps}:slow").Val())
	for i := range 100 {
		require.Equal(t, time.Duration(i)*time.Minute, reserve(0))
	}
	require.Equal(t, 103*time.Minute, reserve(103*time.Minute)) // a new gap, from 100 to 103
	for _, want := range []int{100, 101, 102, 104} {
		require.Equal(t, time.Duration(want)*time.Minute, reserve(0))
	}
}

// A client that may have to look for its server first cannot promise when it ends.
func TestPunctual(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rdb  redis.UniversalClient
		want bool
	}{
		"configured":        {redis.NewClient(&redis.Options{ContextTimeoutEnabled: true}), true},
		"by default":        {redis.NewClient(&redis.Options{}), false},
		"behind a Sentinel": {redis.NewFailoverClient(&redis.FailoverOptions{ContextTimeoutEnabled: true}), false},
		"of a Cluster":      {redis.NewClusterClient(&redis.ClusterOptions{ContextTimeoutEnabled: true}), false},
	} {
		require.Equal(t, c.want, must(redisstore.New(c.rdb)).Punctual(), name)
		require.NoError(t, c.rdb.Close())
	}
}

// A server that does not know a script receives its source, however it reports that: Kvrocks replies "ERR NOSCRIPT".
func TestAScriptThatIsNotKnown(t *testing.T) {
	t.Parallel()
	for _, reports := range []string{"-NOSCRIPT No matching script. Please use EVAL.\r\n", "-ERR NOSCRIPT No matching script. Please use EVAL\r\n"} {
		var mu sync.Mutex
		var requested []string
		addr := answering(t, func(command string) string {
			word, _, _ := strings.Cut(strings.SplitN(command, "\r\n", 4)[2], "\r\n")
			mu.Lock()
			defer mu.Unlock()
			switch requested = append(requested, word); word {
			case "hello":
				return "-ERR unknown command\r\n"
			case "evalsha":
				return reports
			case "eval":
				return "*1\r\n:5\r\n"
			}
			return "+OK\r\n"
		})
		rdb := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1, ReadTimeout: patience})
		_, _ = must(redisstore.New(rdb)).Status(t.Context(), store.Stack{Upstream: "test"})
		require.NoError(t, rdb.Close())
		mu.Lock()
		require.Contains(t, requested, "eval", reports)
		mu.Unlock()
	}
}

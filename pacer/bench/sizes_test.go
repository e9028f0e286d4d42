package bench_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// TestRedisSizes measures how much of a server's memory accounts take: the growth of used_memory of INFO for each of thousands. The table
// of docs/redis.md has the same, give or take the differences between servers.
func TestRedisSizes(t *testing.T) {
	t.Parallel()
	reported := statedSizes(t)
	b := sparing(t)
	const tenants, calls, inBuckets = 4000, 2000, 50
	names := make([]string, tenants)
	for i := range names {
		names[i] = fmt.Sprint("tenant-", i)
	}
	each := func(p *pacer.Pacer) { load(t, p, names, 0, time.Now().Add(time.Hour)) }
	for _, one := range []struct {
		what   string
		policy policies.Policy
		n      int
		spend  func(*pacer.Pacer)
	}{
		{"a scope value of a rate", policies.Every(time.Hour).Per("tenant"), tenants, each},
		{"a scope value of `Fixed`", policies.Fixed(10, time.Hour).Per("tenant"), tenants, each},
		{"a scope value of `Sliding`, one bucket in use", policies.Sliding(10, time.Hour).Per("tenant"), tenants, each},
		{"a scope value of `Sliding`, a hundred buckets in use", policies.Sliding(100_000, time.Hour).Per("tenant"), inBuckets, func(p *pacer.Pacer) {
			var wg sync.WaitGroup
			for _, name := range names[:inBuckets] {
				wg.Go(func() {
					for i := range 100 {
						later := time.Duration(i) * time.Hour / 100
						if _, err := p.Reserve(t.Context(), pacer.Scope("tenant", name), pacer.Cost(100), pacer.NotBefore(later)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
		}},
		{"a scope value of `Daily`", policies.Daily(10, time.UTC).Per("tenant"), tenants, each},
		{"a call asleep for its slot", policies.PerSecond(1), calls, func(p *pacer.Pacer) {
			for range calls {
				_, err := p.Reserve(t.Context())
				require.NoError(t, err)
			}
		}},
		{"a gap", policies.PerSecond(1), 1000, func(p *pacer.Pacer) {
			for i := range 1000 {
				_, err := p.Reserve(t.Context(), pacer.NotBefore(time.Duration(i+1)*10*time.Second))
				require.NoError(t, err)
			}
		}},
		{"a call in flight", policies.InFlight(calls).Lease(time.Hour), calls, func(p *pacer.Pacer) {
			for range calls {
				_, err := p.Acquire(t.Context())
				require.NoError(t, err)
			}
		}},
		{"a queued call", policies.InFlight(1).Lease(time.Hour), calls, func(p *pacer.Pacer) {
			var wg sync.WaitGroup
			for range 50 { // side by side: a process that is silent for some seconds loses its position
				wg.Go(func() {
					for range calls / 50 {
						if _, err := p.Reserve(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
		}},
	} {
		p := newPacer(t, "sizes", newRedisStore(t, b), []policies.Policy{one.policy})
		require.NoError(t, b.rdb.FlushAll(t.Context()).Err())
		_, err := p.Status(t.Context(), pacer.Scope("tenant", "none"))
		require.NoError(t, err)
		before := usedMemory(t, b.rdb)
		one.spend(p)
		grew := float64(usedMemory(t, b.rdb) - before)
		if one.n == inBuckets { // so few that the server's own buffers would count
			grew = sizeOfKeys(t, b.rdb, "*tenant-*")
		}
		s, err := p.Status(t.Context(), pacer.Scope("tenant", "none"))
		require.NoError(t, err)
		if line := s.Policies[0].Queued; line > 0 { // those who came first may have lost theirs by now
			one.n = int(line)
		}
		bytes := grew / float64(one.n)
		t.Logf("%s: %.0f bytes of %d", one.what, bytes, one.n)
		require.Contains(t, reported, one.what, "docs/redis.md does not say it")
		require.InDelta(t, reported[one.what], bytes, 25+reported[one.what]*0.35, "%s: docs/redis.md is off", one.what)
		require.NoError(t, p.Close())
	}
}

// TestRedisSizesOfTheRegistry does the same for the processes' descriptions, by their keys: a server's total depends on its buffers, too.
func TestRedisSizesOfTheRegistry(t *testing.T) {
	t.Parallel()
	reported := statedSizes(t)
	b := sparing(t)
	backing := newRedisStore(t, b)
	const processes, described = 300, 100
	for _, one := range []struct {
		what   string
		n      int
		report func()
	}{
		{"what a process reports about itself", processes, func() {
			keys := []store.KeyUse{{Policy: "tenant", Scope: "acme", Cost: 120}, {Policy: "tenant", Scope: "globex", Cost: 80, Waiting: 3}}
			for i := range processes {
				about := store.About{ID: strconv.Itoa(1e12 + i), Name: fmt.Sprint("worker-7f9c/", i), Keep: time.Hour, Keys: keys}
				require.NoError(t, errorOf(backing.Describe(t.Context(), "sizes", about)))
			}
		}},
		{"a policy's text and its last two minutes by second", described, func() {
			for i := range described {
				p := policies.PerSecond(50).Burst(10).Per("tenant").Named(fmt.Sprint("policy-", i))
				about := store.About{ID: "a", Keep: time.Hour, Policies: []string{p.String()}}
				for second := range 128 { // as many as the store keeps
					about.Went = append(about.Went, store.Went{
						Policy: p.Name(), Second: time.Now().Unix() - int64(second), What: store.Second{Cost: 50, Waits: 40, Waited: 40 * time.Second},
					})
				}
				require.NoError(t, errorOf(backing.Describe(t.Context(), "sizes", about)))
			}
		}},
	} {
		require.NoError(t, b.rdb.FlushAll(t.Context()).Err())
		require.NoError(t, errorOf(backing.Describe(t.Context(), "sizes", store.About{ID: "first", Keep: time.Hour}))) // which loads the scripts
		// they are there: once a minute, descriptions of others are taken out
		for i := range processes {
			_, err := backing.Heartbeat(t.Context(), "sizes", store.Heartbeat{ID: strconv.Itoa(1e12 + i), TTL: time.Hour, Keep: time.Hour})
			require.NoError(t, err)
		}
		before := sizeOfKeys(t, b.rdb, "*")
		one.report()
		bytes := (sizeOfKeys(t, b.rdb, "*") - before) / float64(one.n)
		t.Logf("%s: %.0f bytes", one.what, bytes)
		require.Contains(t, reported, one.what, "docs/redis.md does not say it")
		require.InDelta(t, reported[one.what], bytes, 25+reported[one.what]*0.35, "%s: docs/redis.md is off", one.what)
	}
}

// sparing returns a backend with few connections, since a server's buffers for each are in its used memory.
func sparing(t *testing.T) *backend {
	t.Helper()
	b := newBackend(t)
	b.rdb = redis.NewClient(&redis.Options{Addr: b.rdb.Options().Addr, PoolSize: 2, ReadTimeout: patient, PoolTimeout: patient})
	t.Cleanup(func() { _ = b.rdb.Close() })
	return b
}

// statedSizes reads the table of docs/redis.md: "| what | 123 bytes | …".
func statedSizes(t *testing.T) map[string]float64 {
	t.Helper()
	page, err := os.ReadFile("../../docs/redis.md")
	require.NoError(t, err)
	reported := make(map[string]float64)
	for _, m := range regexp.MustCompile(`(?m)^\| (.+?) \| (?:about )?(\d+) bytes`).FindAllStringSubmatch(string(page), -1) {
		reported[m[1]], err = strconv.ParseFloat(m[2], 64)
		require.NoError(t, err)
	}
	return reported
}

// sizeOfKeys returns how much memory some keys take.
func sizeOfKeys(t *testing.T, rdb *redis.Client, pattern string) (sum float64) {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), pattern).Result()
	require.NoError(t, err)
	for _, key := range keys {
		n, err := rdb.MemoryUsage(t.Context(), key, 0).Result()
		require.NoError(t, err)
		sum += float64(n)
	}
	return sum
}

func usedMemory(t *testing.T, rdb *redis.Client) int64 {
	t.Helper()
	info, err := rdb.Info(t.Context(), "memory").Result()
	require.NoError(t, err)
	_, rest, found := strings.Cut(info, "used_memory:")
	require.True(t, found)
	n, err := strconv.ParseInt(strings.TrimSpace(rest[:strings.IndexByte(rest, '\n')]), 10, 64)
	require.NoError(t, err)
	return n
}

// errorOf returns the error of Describe.
func errorOf(_ int, err error) error { return err }

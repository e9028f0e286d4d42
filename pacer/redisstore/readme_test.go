package redisstore_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/scripts"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/zendesk"
	"github.com/headway-go/headway/transport"
)

// The functions below hold the snippets of the README and of the tutorial, letter for letter: TestTheREADME checks that, and runs them. The
// first program is run by package bench.

// readmeRedis is compiled, and not run: there need not be a server at that address.
func readmeRedis(limits []policies.Policy) (*pacer.Pacer, error) {
	opts, err := redis.ParseURL(os.Getenv("REDIS_URL")) // rediss://user:password@host:6379/0
	if err != nil {
		log.Fatal(err)
	}
	opts.ContextTimeoutEnabled = true // the client gives up when Headway does
	store, err := redisstore.New(redis.NewClient(opts))
	if err != nil {
		log.Fatal(err)
	}
	p, err := pacer.New(pacer.Config{Upstream: "vendor", Policies: limits, Store: store})
	return p, err
}

// pageRedis is what docs/redis.md has: a client whose address is in the environment.
func pageRedis(use func(*redis.Client) error) error {
	opts, err := redis.ParseURL(os.Getenv("REDIS_URL")) // rediss://user:password@host:6379/0, where rediss is TLS
	if err != nil {
		return err
	}
	opts.ContextTimeoutEnabled = true
	rdb := redis.NewClient(opts) // for redisstore.New; close it when the program ends
	defer rdb.Close()
	return use(rdb)
}

// pageSecrets is the same with a variable for each.
func pageSecrets(roots *x509.CertPool) *redis.Options {
	opts := &redis.Options{
		Addr: os.Getenv("REDIS_ADDR"), Username: os.Getenv("REDIS_USER"), Password: os.Getenv("REDIS_PASSWORD"),
		TLSConfig:             &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, // nil roots: those of the machine
		ContextTimeoutEnabled: true,
	}
	return opts
}

func readmeVendor(store *redisstore.Store) error {
	p, err := pacer.New(pacer.Config{Upstream: "zendesk", Store: store, Policies: append(
		zendesk.Limits(zendesk.SuiteEnterprise), // what Zendesk documents: the account, its endpoints, its tickets
		policies.PerSecond(2).Per("tenant"),     // your own limit: two calls a second for each of your tenants
	)})
	if err != nil {
		return err
	}
	client, err := transport.NewClient(p, transport.WithProfile(zendesk.Profile))
	if err != nil {
		return err
	}
	defer p.Close()
	ctx := pacer.With(context.Background(), pacer.Scope("tenant", "acme"))
	return errors.Join(readmeUse(ctx, client), readmeAcquire(ctx, p))
}

func readmeUse(ctx context.Context, client *http.Client) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, upstreamURL, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// A BusyError is how a client of another protocol reports a refusal.
type BusyError struct{ RetryAfter time.Duration }

// Error implements error.
func (*BusyError) Error() string { return "busy" }

// mailer is such a client.
type mailer struct{ err error }

func (m mailer) Send(context.Context, string) error { return m.err }

func readmeDo(ctx context.Context, p *pacer.Pacer, client mailer, message string) error {
	var err error
	ctx = pacer.With(ctx, pacer.Scope("tenant", "acme"))
	err = p.Do(ctx, func(ctx context.Context) (policies.Reading, error) {
		err := client.Send(ctx, message)
		if busy, ok := errors.AsType[*BusyError](err); ok { // however your client reports a refusal
			return policies.Reading{Feedback: []policies.Feedback{{Refused: true, Wait: busy.RetryAfter}}}, err
		}
		return policies.Reading{}, err
	})
	return err
}

func readmeAcquire(ctx context.Context, p *pacer.Pacer) error {
	call, err := p.Acquire(ctx)
	if err != nil {
		return err
	}
	defer call.Release() // safe to call twice
	return nil
}

func readmeLines(ctx context.Context, loc *time.Location) error {
	batch := []policies.Policy{
		policies.PerSecond(100).Burst(10).Lane("batch", 80), // batch work gets 80 calls a second, and what the others leave
		policies.Daily(100_000, loc).Lane("batch", 80),      // and never more than 80,000 calls a day
	}
	fair := policies.PerSecond(100).Burst(10).Fair("tenant").Named("fair") // equal parts for tenants that compete
	p, err := pacer.New(pacer.Config{Upstream: "zendesk", Policies: append(batch, fair)})
	if err != nil {
		return err
	}
	defer p.Close()
	ctx = pacer.With(ctx, pacer.Scope("tenant", "acme"))

	ctx = pacer.With(ctx, pacer.Lane("batch")) // or the option pacer.Lane("batch"), or transport.WithLane
	err = p.Wait(ctx, pacer.Weight(3))         // one weight for all calls of a tenant: three times as much as one of weight 1
	return err
}

// upstreamURL is where an upstream listens.
var upstreamURL string

func TestTheREADME(t *testing.T) { //nolint:paralleltest // it sets the environment
	pages := make(map[string]string)
	for _, page := range []string{"README.md", "docs/tutorial.md", "docs/redis.md"} {
		text, err := os.ReadFile("../../" + page)
		require.NoError(t, err)
		pages[page] = string(text)
	}
	here, err := os.ReadFile("readme_test.go")
	require.NoError(t, err)
	code := flat(string(here))
	blocks := strings.Split(pages["README.md"], "```go\n")[2:]
	blocks = append(blocks, strings.Split(pages["docs/tutorial.md"], "```go\n")[1:]...)
	blocks = append(blocks, strings.Split(pages["docs/redis.md"], "```go\n")[1:]...)
	require.Len(t, blocks, 8)
	for _, b := range blocks {
		block, _, found := strings.Cut(b, "```")
		require.True(t, found)
		require.Contains(t, code, flat(block), "a snippet is not what is tested")
	}
	for command := range strings.FieldsSeq(aclCommands) {
		require.Contains(t, pages["docs/redis.md"], " +"+command)
	}
	require.Equal(t, len(strings.Fields(aclCommands)), strings.Count(pages["docs/redis.md"], " +")-strings.Count(pages["docs/redis.md"], " + "), "the page's ACL lists what is tested")

	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	upstreamURL = upstream.URL
	_ = readmeRedis
	t.Setenv("REDIS_ADDR", "localhost:6380")
	require.Equal(t, "localhost:6380", pageSecrets(nil).Addr)
	t.Setenv("REDIS_URL", "redis://"+redistest.Start(t).Addr)
	require.NoError(t, pageRedis(func(rdb *redis.Client) error { return useTheSnippets(t, rdb) }))
}

// useTheSnippets runs what needs a store.
func useTheSnippets(t *testing.T, rdb *redis.Client) error {
	t.Helper()
	store, err := redisstore.New(rdb)
	require.NoError(t, err)
	require.NoError(t, readmeVendor(store))
	p, err := pacer.New(pacer.Config{Upstream: "mail", Store: store, Policies: []policies.Policy{policies.PerSecond(10)}})
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, readmeDo(t.Context(), p, mailer{}, "hello"))
	busy := &BusyError{RetryAfter: time.Second}
	require.ErrorIs(t, readmeDo(t.Context(), p, mailer{busy}, "hello"), busy)
	return readmeLines(t.Context(), time.UTC)
}

// The list of commands in docs/redis.md is what the scripts run, and what the client needs besides: no more and no less.
func TestTheACLIsWhatTheScriptsRun(t *testing.T) {
	t.Parallel()
	s, all := scripts.New(), strings.Fields("evalsha eval subscribe unsubscribe ping hello")
	runs := regexp.MustCompile(`redis\.p?call\('(\w+)'`)
	for _, source := range s[:scripts.Ready] {
		for _, m := range runs.FindAllStringSubmatch(source, -1) {
			if command := strings.ToLower(m[1]); !slices.Contains(all, command) {
				all = append(all, command)
			}
		}
	}
	require.ElementsMatch(t, all, strings.Fields(aclCommands))
}

// flat drops indentation.
func flat(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}

// The table in docs/evidence.md names tests: they exist.
func TestTheTablesTestsExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/evidence.md")
	require.NoError(t, err)
	all := testNames(t, "../..")
	names := regexp.MustCompile("`((?:Test|Fuzz)\\w+)(…?)`").FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(names), 20)
	for _, name := range names {
		require.True(t, slices.ContainsFunc(all, func(test string) bool {
			return test == name[1] || name[2] != "" && strings.HasPrefix(test, name[1])
		}), "%s is named in docs/evidence.md", name[0])
	}
}

// testNames returns the names of all tests and fuzz tests below a folder.
func testNames(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	head := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range head.FindAllStringSubmatch(string(source), -1) {
			all = append(all, m[1])
		}
		return err
	}))
	return all
}

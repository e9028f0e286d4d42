package recipes_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// Every recipe, and the programs of docs/errors.md, docs/inbound.md and docs/jobs.md, run as they are pasted, and print what the page shows.
func TestTheRecipes(t *testing.T) {
	t.Parallel()
	_, sections := readPage(t, "recipes.md")
	require.Len(t, sections, 4)
	var all []*pasted
	for i, section := range sections {
		title, _, _ := strings.Cut(section, "\n")
		blocks := goBlock.FindAllStringSubmatch(section, -1)
		require.Len(t, blocks, 1, title)
		p := newPasted(t, fmt.Sprintf("recipe%d", i+1), title, blocks[0][1])
		if text := textBlock.FindStringSubmatch(section); text != nil {
			p.prints = text[1]
		}
		if strings.Contains(section, "maxSurge") {
			var n [3]int
			for i, name := range []string{"Processes", "replicas", "maxSurge"} {
				_, after, _ := strings.Cut(section, name+": ")
				_, err := fmt.Sscan(after, &n[i])
				require.NoError(t, err, name)
			}
			require.Equal(t, n[1]+n[2], n[0], "the pods of a rollout are processes, too")
		}
		require.Equal(t, 1, strings.Count(section, "**What to watch.**"), title)
		all = append(all, p)
	}
	for _, name := range []string{"errors", "inbound", "jobs"} {
		page, _ := readPage(t, name+".md")
		p := newPasted(t, name, "docs/"+name+".md", goBlock.FindStringSubmatch(page)[1])
		if text := textBlock.FindStringSubmatch(page); text != nil {
			p.prints = text[1]
		}
		all = append(all, p)
	}
	bin := build(t, all...)
	vendors := serve(t)
	for _, p := range all {
		t.Run(p.title, func(t *testing.T) {
			t.Parallel()
			switch {
			case strings.Contains(p.code, "signal.NotifyContext"):
				rollout(t, filepath.Join(bin, "programs"), p.name)
				return
			case p.callsVendors() && (runtime.GOOS == "darwin" || runtime.GOOS == "windows"):
				t.Skip("programs take certificates from SSL_CERT_FILE on other systems only")
			case p.pkg != "main":
				require.Contains(t, run(t, vendors, filepath.Join(bin, p.name+".test"), "-test.v"), "--- PASS: ")
				return
			}
			require.NotEmpty(t, p.prints, "the page does not say what the program prints")
			require.Equal(t, p.prints, run(t, vendors, filepath.Join(bin, "programs"), p.name))
		})
	}
}

// rollout runs the program of a pod: it serves, and ends in good order.
func rollout(t *testing.T, command ...string) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr, ContextTimeoutEnabled: true})
	defer rdb.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := listener.Addr().String()
	require.NoError(t, listener.Close())

	var out strings.Builder
	pod := exec.CommandContext(t.Context(), command[0], command[1:]...)
	pod.Env = append(os.Environ(), "REDIS_URL=redis://"+rdb.Options().Addr, "LISTEN="+addr, "HOSTNAME=sync-1")
	pod.Stdout, pod.Stderr = &out, &out
	require.NoError(t, pod.Start())
	ask := func(method, path string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, http.NoBody)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	require.Eventually(t, func() bool { return ask(http.MethodGet, "/livez") == http.StatusOK }, time.Minute, 10*time.Millisecond)
	require.Equal(t, http.StatusOK, ask(http.MethodPost, "/sync"))
	require.NoError(t, pod.Process.Signal(syscall.SIGTERM))
	require.NoError(t, pod.Wait(), "%s", &out)
	require.Empty(t, out.String())

	store, err := redisstore.New(rdb)
	require.NoError(t, err)
	next, err := pacer.New(pacer.Config{Upstream: "crm", Store: store, Policies: []policies.Policy{policies.Daily(100_000, time.UTC)}, StoreTimeout: 30 * time.Second})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, next.Wait(ctx))
	s, err := next.Status(ctx)
	require.NoError(t, err)
	require.Equal(t, int64(100_000-2), s.Policies[0].Remaining, "the next pod goes on where this one stopped")
	require.NoError(t, next.Close())
}

// The code of docs/testing.md is one file, whose tests pass.
func TestThePageAboutTesting(t *testing.T) {
	t.Parallel()
	page, sections := readPage(t, "testing.md")
	var blocks []string
	for _, b := range goBlock.FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, b[1])
	}
	require.Len(t, blocks, len(sections), "the first is above the first heading, and the last section has none")
	p := newPasted(t, "page", "docs/testing.md", strings.Join(blocks, "\n"))
	require.True(t, p.isTest)
	out := run(t, nil, filepath.Join(build(t, p), "page.test"), "-test.v", "-test.count=1")
	require.Equal(t, strings.Count(p.code, "\nfunc Test"), strings.Count(out, "--- PASS: "), out)
}

//go:build compat

package redisstore_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
)

// workerDir is the program that both releases are built with.
const workerDir = "testdata/worker"

// While a fleet is deployed, processes of the release before and of this one share their limits: neither sees an error, no policy is
// exceeded in store time, and all calls of both go, also when an operator adds a policy of calls in flight that neither has and the calls
// release nothing. `make compat` runs this, because it builds both.
func TestTwoReleasesSideBySide(t *testing.T) { //nolint:paralleltest // it is alone
	server := redistest.Start(t)
	before, now := buildPrevious(t), filepath.Join(t.TempDir(), "now")
	build(t, ".", "./"+workerDir, now)
	const calls = 20 // of each goroutine
	workers := []string{before, now, before, now}
	parts := make([]map[string][]outing, len(workers))
	var g errgroup.Group
	for i, worker := range workers {
		g.Go(func() error {
			cmd := exec.CommandContext(t.Context(), worker, server.Addr, strconv.Itoa(calls))
			var reports bytes.Buffer
			cmd.Stderr = &reports
			out, err := cmd.Output()
			if err != nil {
				return fmt.Errorf("%s: %w: %s", filepath.Base(worker), err, reports.Bytes())
			}
			return json.Unmarshal(out, &parts[i])
		})
	}
	finished := make(chan error, 1)
	go func() { finished <- g.Wait() }()
	const permits, lease = 40, time.Second
	rdb := server.Client()
	require.Eventually(t, func() bool {
		return len(finished) > 0 || rdb.ZCard(t.Context(), "pacer:10:{waits}/alive").Val() == int64(len(workers))
	}, time.Minute, time.Millisecond)
	rate := policies.PerSecond(100).Burst(1)
	operator, err := pacer.New(pacer.Config{Upstream: "waits", Store: must(redisstore.New(rdb)), Policies: []policies.Policy{rate}})
	require.NoError(t, err)
	defer operator.Close()
	require.NoError(t, fleet.Of(operator).SetPolicies(t.Context(), rate, policies.InFlight(permits).Lease(lease)))
	limited := time.Now().Add(time.Second).UnixMicro() // all have sent a request by then
	require.NoError(t, <-finished)
	for upstream, rules := range map[string][]rule{
		"stacked": {fiftyASecond, {name: "120 in any 3 s", kind: anyWindow, n: 120, period: 3 * time.Second}},
		"exact":   {{name: "40 in any second", kind: anyWindow, n: 40, period: time.Second}},
		"permits": {{name: "200 a second", kind: evenly, n: 200, period: time.Second, burst: 2}},
		"shares":  {{name: "80 a second", kind: evenly, n: 80, period: time.Second, burst: 4}},
		"lanes":   {{name: "60 a second", kind: evenly, n: 60, period: time.Second, burst: 4}},
	} {
		var all []outing
		for i, part := range parts {
			for _, o := range part[upstream] {
				o.Granted, o.process = 1, i // they wait for the store for as long as it takes
				all = append(all, o)
			}
		}
		require.Empty(t, referee(all, rules...), upstream)
		require.Len(t, all, len(workers)*8*calls, upstream)
	}
	var went []int64
	for _, part := range parts {
		require.Len(t, part["waits"], 8*calls)
		for _, o := range part["waits"] {
			if o.At > limited {
				went = append(went, o.At)
			}
		}
	}
	require.NotEmpty(t, went)
	leases := time.Duration(slices.Max(went)-limited)*time.Microsecond/lease + 2
	most := permits*int(leases) + 8*len(workers) // each caller may have been late with a call
	t.Logf("%d calls after the operator's policy, of %d", len(went), most)
	require.LessOrEqual(t, len(went), most)
}

// buildPrevious builds the worker with the release before this one, and returns its path. Without the history of the repository it skips
// the test.
func buildPrevious(t *testing.T) string {
	t.Helper()
	name, err := os.ReadFile(previousFile)
	require.NoError(t, err)
	commit := strings.TrimSpace(string(name))
	if _, err := git("cat-file", "-e", commit+"^{commit}"); err != nil {
		shallow, gone := git("rev-parse", "--is-shallow-repository")
		if gone == nil && strings.TrimSpace(string(shallow)) == "false" && os.Getenv("CI") == "true" {
			t.Fatalf("%s names %s, which is not in the history: %v", previousFile, commit, err)
		}
		t.Skipf("the release before, %s, is not in this clone: fetch the history of the repository", commit)
	}
	dir := t.TempDir()
	files, err := git("-C", "../..", "archive", "--format=tar", commit)
	require.NoError(t, err)
	require.NoError(t, unpack(files, dir))
	home := filepath.Join(dir, "pacer", "redisstore", workerDir)
	require.NoError(t, os.MkdirAll(home, 0o755))
	source, err := os.ReadFile(filepath.Join(workerDir, "main.go"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(home, "main.go"), source, 0o600))
	binary := filepath.Join(t.TempDir(), "before")
	build(t, dir, "./pacer/redisstore/"+workerDir, binary)
	return binary
}

// build builds a program of a tree. Under the race detector so is the program, as most of it is built already.
func build(t *testing.T, dir, pkg, binary string) {
	t.Helper()
	args := []string{"build", "-ldflags=-s -w", "-o", binary}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" && s.Value == "true" {
				args = append(args, "-race")
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", append(args, pkg)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// git runs git, and returns what it prints.
func git(args ...string) ([]byte, error) {
	out, err := exec.Command("git", args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, exit.Stderr)
	}
	return out, err
}

// unpack unpacks the files of an archive.
func unpack(archive []byte, dir string) error {
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case h.Typeflag != tar.TypeReg || !filepath.IsLocal(h.Name):
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
}

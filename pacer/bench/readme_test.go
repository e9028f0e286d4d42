package bench_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The first program of the README runs as it is pasted. What it calls is a stand-in, which it reaches as a proxy.
func TestTheFirstProgramRunsAsPasted(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	program := goBlocks(string(page))[0]
	require.True(t, strings.HasPrefix(program, "package main\n"))
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir, err := os.MkdirTemp(root, ".pasted") //nolint:usetesting // it is to be in the module
	require.NoError(t, err)
	defer func() { _ = os.RemoveAll(dir) }()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600))

	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Host != "example.com" {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer site.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, "go", "run", "./"+filepath.Base(dir))
	run.Dir = root
	run.Env = append(os.Environ(), "HTTP_PROXY="+site.URL, "NO_PROXY=")
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, 20, "%s", out)
	for _, line := range lines {
		require.True(t, strings.HasSuffix(line, " 200 OK"), line)
	}
}

package bench_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The first program of the README runs as it is pasted, without a network, and prints what the page shows: how many calls are refused, and how
// long they take, depends on the machine.
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

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, "go", "run", "./"+filepath.Base(dir))
	run.Dir = root
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	_, shown, found := strings.Cut(string(page), "```text\n")
	require.True(t, found)
	shown, _, _ = strings.Cut(shown, "```")
	figures := regexp.MustCompile(`\d+ refused, in [\d.]+s`)
	require.Equal(t, figures.ReplaceAllString(shown, ""), figures.ReplaceAllString(string(out), ""))
	require.NotContains(t, string(out), " 15 refused", "not even the plain client has all of its calls refused")
}

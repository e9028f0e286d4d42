package bench_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The first program of the README runs as it is pasted: it prints one line for each of its calls.
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
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, lines, 20, "%s", out)
	for i, line := range lines {
		require.Regexp(t, fmt.Sprintf(`^%d \d\d\.\d{3}$`, i), line)
	}
}

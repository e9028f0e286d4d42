package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The first program of the README runs as pasted, without a network, and prints what the page shows: the number of refused calls, and the
// times, depend on the machine.
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
	figures := regexp.MustCompile(`\d+ refused, in [\d.]+m?s`)
	require.Equal(t, figures.ReplaceAllString(shown, ""), figures.ReplaceAllString(string(out), ""))
	require.NotContains(t, string(out), " 15 refused", "not even the plain client has all of its calls refused")
}

// Each package links the modules that the README names: none more, and none less.
func TestTheREADMENamesWhatIsLinked(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "## What it links")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\nThe command")
	out, err := exec.CommandContext(t.Context(), "go", "-C", "../..", "list", "-deps", "-json=ImportPath,Module,Deps", "./policies/...", "./pacer", "./pacer/redisstore", "./transport").Output()
	require.NoError(t, err)
	type listed struct {
		ImportPath string
		Module     *struct{ Path string }
		Deps       []string
	}
	packages, vendors := make(map[string]listed), make(map[string][]string) // of vendors, who links a module
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var one listed
		require.NoError(t, d.Decode(&one))
		packages[one.ImportPath] = one
	}
	const ours = "github.com/headway-go/headway"
	links := func(pkg string) []string {
		modules := make(map[string]bool)
		for _, dep := range packages[ours+"/"+pkg].Deps {
			if m := packages[dep].Module; m != nil && m.Path != ours {
				modules[regexp.MustCompile(`^github\.com/[^/]+/|/v\d+$`).ReplaceAllString(m.Path, "")] = true
			}
		}
		return slices.Sorted(maps.Keys(modules))
	}
	for path := range packages {
		if name, ok := strings.CutPrefix(path, ours+"/"); ok && strings.HasPrefix(name, "policies") {
			for _, module := range links(name) {
				vendors[module] = append(vendors[module], name)
			}
		}
	}
	require.Len(t, vendors, 1)
	require.ElementsMatch(t, []string{"policies/ietf", "policies/atlassian"}, vendors["httpsfv"])
	require.Contains(t, table, "| none, but for `policies/ietf` and `policies/atlassian`: httpsfv |")
	module := regexp.MustCompile(`go[\w.]*\.org/[\w/]+|[a-z][a-z.-]*[a-z]`)
	for _, pkg := range []string{"pacer", "pacer/redisstore", "transport"} {
		_, row, found := strings.Cut(table, "| `"+pkg+"` | ")
		require.True(t, found, pkg)
		row, _, _ = strings.Cut(row, " |")
		named := module.FindAllString(regexp.MustCompile(`\([^)]*\)|\bwith\b|\band\b`).ReplaceAllString(row, ""), -1)
		require.ElementsMatch(t, links(pkg), named, pkg)
	}
}

package scripts_test

import (
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/luascripts"
	"github.com/headway-go/headway/pacer/internal/numbers"
	"github.com/headway-go/headway/pacer/internal/scripts"
)

// Every file begins with its contract, and no script changes the clients' numbers on the wire.
func TestContracts(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(luascripts.Files, "*.lua")
	require.NoError(t, err)
	require.Len(t, files, 29)
	for _, name := range files {
		source, err := luascripts.Files.ReadFile(name)
		require.NoError(t, err)
		text := string(source)
		require.True(t, strings.HasPrefix(text, "-- "+name+": "), name)
		require.NotContains(t, strings.ReplaceAll(text, "tostring, which", ""), "tostring", "%s: it keeps 14 digits", name)
		var want []string
		switch name {
		case "reserve.lua", "cancel.lua", "report.lua", "status.lua", "heartbeat.lua", "describe.lua", "index.lua",
			"enlist.lua", "upstreams.lua", "ready.lua", "settings.lua", "redeem.lua":
			want = []string{"-- KEYS ", "-- ARGV ", "-- Reply ", "-- TTL "}
		case "gcra.lua", "window.lua", "concurrency.lua":
			want = []string{"-- KEYS ", "-- ARGV ", "-- TTL "}
		}
		for _, head := range want {
			require.Contains(t, text, head, name)
		}
	}
}

// literals are the numbers above nine that a file has to itself. All others are those of package numbers.
var literals = map[string][]string{
	"account.lua":      {"1024", "14", "160", "32", "64", "64"}, // how long numbers may be; the length of a pair; what a run may work; the shift of store time
	"heartbeat.lua":    {"1000"},                                // how many who have gone are dropped at once
	"clock.lua":        {"1000000", "999", "1000", "1000"},      // µs in a second, and in a millisecond
	"describe.lua":     {"32768", "60000000", "128", "16", "16384", "1000000"},
	"gcra.lua":         {"16", "16", "32"},                                                                                                        // parts of a question
	"list.lua":         slices.Concat([]string{"14", "14"}, slices.Repeat([]string{"256"}, 24), slices.Repeat([]string{"14"}, 5), []string{"13"}), // bytes
	"index.lua":        {"1024"},
	"queue.lua":        {"6000000"},
	"quick_window.lua": {"10", "14", "14", "14", "14", "14"}, // how many arguments any rate has; the length of a pair
}

// A number that Go and Lua have in common is written once, in package numbers, and so is one that two scripts have in common.
func TestNumbersAreNamed(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(luascripts.Files, "*.lua")
	require.NoError(t, err)
	comment, quoted := regexp.MustCompile(`--.*`), regexp.MustCompile(`'[^']*'`)
	literal, name := regexp.MustCompile(`\b\d{2,}\b`), regexp.MustCompile(`\bC\.(\w+)`)
	used := make(map[string]bool)
	for _, file := range files {
		source, err := luascripts.Files.ReadFile(file)
		require.NoError(t, err)
		text := comment.ReplaceAllString(string(source), "")
		for _, m := range name.FindAllStringSubmatch(text, -1) {
			used[m[1]] = true
		}
		require.Equal(t, literals[file], literal.FindAllString(quoted.ReplaceAllString(text, ""), -1), file)
	}
	for _, m := range name.FindAllStringSubmatch(string(must(os.ReadFile("scripts.go"))), -1) {
		used[m[1]] = true
	}
	for n := range numbers.Named() {
		require.True(t, used[n], "no script uses %s", n)
	}
	s := scripts.New()
	for _, source := range s {
		require.NotRegexp(t, name, source)
	}
	require.Equal(t, s, scripts.New(), "every process has the same scripts")
	require.Panics(t, func() { scripts.WithClock("local function clock() return C.Nothing end") })
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func TestScriptsAreJoinedWithoutComments(t *testing.T) {
	t.Parallel()
	negation := regexp.MustCompile(`(\w+) = not (.*)`)
	s := scripts.New()
	for _, source := range s[:scripts.Describe] {
		require.True(t, strings.HasPrefix(source, "local function clock()"))
		require.Contains(t, source, "redis.call('TIME')")
		for line := range strings.Lines(source) {
			require.NotEmpty(t, strings.TrimSpace(line))
			require.False(t, strings.HasPrefix(line, "--"), line)
			if m := negation.FindStringSubmatch(line); m != nil {
				require.NotRegexp(t, `\b`+m[1]+`\b`, m[2], "miniredis's Lua leaves the variable as it is")
			}
		}
	}
	fake := scripts.WithClock("local function clock() return 5 end")
	require.NotContains(t, fake[scripts.Reserve], "TIME")
}

// The scripts also compile in Lua 5.4, and use no function that it lacks.
func TestScriptsCompileInLua54(t *testing.T) {
	t.Parallel()
	compiler, err := exec.LookPath("luac5.4")
	if err != nil {
		const missing = "luac5.4 is not in PATH: run .ci/install-lua"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	known := []string{"ARGV", "KEYS", "redis", "error", "ipairs", "math", "pairs", "string", "table", "tonumber", "type"}
	global, function := regexp.MustCompile(`_ENV "(\w+)"`), regexp.MustCompile(`\b(?:math|string|table)\.\w+`)
	functions := []string{
		"math.abs", "math.floor", "math.huge", "math.max", "math.min", "string.byte", "string.char", "string.find", "string.format", "string.gmatch", "string.match", "string.sub",
		"table.concat", "table.insert", "table.remove", "table.sort", "table.unpack",
	}
	for name, source := range scripts.New() {
		list := exec.CommandContext(t.Context(), compiler, "-l", "-l", "-p", "-")
		list.Stdin = strings.NewReader(source)
		out, err := list.CombinedOutput()
		require.NoErrorf(t, err, "%d: %s", name, out)
		for _, m := range global.FindAllStringSubmatch(string(out), -1) {
			if m[1] != "unpack" || strings.Count(source, "table.unpack or unpack") != 1 {
				require.Contains(t, known, m[1], name)
			}
		}
		for _, f := range function.FindAllString(source, -1) {
			require.Contains(t, functions, f, name)
		}
	}
}

// A process that is ready may run every command that any script runs.
func TestReadyTriesEveryCommand(t *testing.T) {
	t.Parallel()
	runs := regexp.MustCompile(`redis\.p?call\('(\w+)'`)
	s, ran, tries := scripts.New(), make(map[string]bool), make(map[string]bool)
	for _, name := range regexp.MustCompile(`\b[A-Z]{3,}\b`).FindAllString(s[scripts.Ready], -1) {
		if name != "KEYS" && name != "ARGV" {
			tries[name] = true
		}
	}
	for _, source := range s[:scripts.Ready] {
		for _, m := range runs.FindAllStringSubmatch(source, -1) {
			ran[m[1]] = true
		}
		require.Len(t, runs.FindAllString(source, -1), strings.Count(source, "redis.call(")+strings.Count(source, "redis.pcall("), "every command is named where it is run")
	}
	require.Equal(t, ran, tries)
}

// Every process reads the scripts when it starts, so that is quick: it reads each part once, and allocates little more than the scripts.
func TestEachPartIsReadOnce(t *testing.T) { //nolint:paralleltest // it counts allocations
	require.Less(t, testing.AllocsPerRun(1, func() { scripts.WithClock("") }), 200.0)
}

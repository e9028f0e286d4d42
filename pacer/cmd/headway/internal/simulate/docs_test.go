package simulate_test

import (
	"encoding/csv"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const docs = "../../../../../docs/simulate.md"

var consoles = regexp.MustCompile("(?s)```console\n\\$ headway simulate ([^\n]+)\n(.*?)```\n")

// docs/simulate.md shows the command's real output. HEADWAY_UPDATE=1 writes it there. Under the race detector, which makes days of virtual
// time too long, each command simulates a second, and what it prints is not compared.
func TestDocs(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile(docs)
	require.NoError(t, err)
	shown := 0
	current := consoles.ReplaceAllStringFunc(string(text), func(block string) string {
		shown++
		line := consoles.FindStringSubmatch(block)[1]
		words := csv.NewReader(strings.NewReader(line))
		words.Comma = ' '
		args, err := words.Read()
		require.NoError(t, err)
		if underRace {
			args = append(args, "--for", "1s")
		}
		out, err := command(t, "", args...)
		require.NoError(t, err, line)
		return "```console\n$ headway simulate " + line + "\n" + strings.TrimRight(out, "\n") + "\n```\n"
	})
	require.Equal(t, 1, shown)
	if underRace {
		return
	}
	if os.Getenv("HEADWAY_UPDATE") != "" {
		require.NoError(t, os.WriteFile(docs, []byte(current), 0o600))
		return
	}
	require.Equal(t, string(text), current, "run HEADWAY_UPDATE=1 go test -run TestDocs")
}

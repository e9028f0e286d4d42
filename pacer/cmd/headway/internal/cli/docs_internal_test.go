package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each command line of README.md and of docs/, in a block or in a sentence, of a shell, systemd or Docker, has a command and flags that exist.
// It is read, not run.
func TestTheCommandsOfThePagesAreUnderstood(t *testing.T) {
	t.Parallel()
	const root = "../../../../../"
	pages, err := filepath.Glob(root + "docs/*.md")
	require.NoError(t, err)
	shell := strings.NewReplacer("\\\n", " ", "ExecStart=/usr/local/bin/", "", `ENTRYPOINT ["/`, "", `", "`, " ", `"]`, "")
	block, quoted, lines := regexp.MustCompile("(?s)```(?:sh|console|ini|dockerfile)\n(.*?)```|`(headway [^`\n]+)`"), regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`), 0
	for _, page := range append(pages, root+"README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(shell.Replace(m[1] + m[2])) {
				line, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "$ "), " #")
				line, _, _ = strings.Cut(line, " | ")
				line, _, _ = strings.Cut(line, " > ")
				if !strings.HasPrefix(line, "headway ") {
					continue
				}
				var args []string
				for _, word := range quoted.FindAllString(line, -1)[1:] {
					args = append(args, strings.Trim(word, `"'[]`))
				}
				if args[0] == "wait" || args[0] == "completion" || slices.Contains(args, "--help") { // a span of traces; cobra's own
					continue
				}
				command, rest, err := (&app{}).root().Find(args)
				require.NoError(t, err, "%s: %s", page, line)
				require.NoError(t, command.ParseFlags(rest), "%s: %s", page, line)
				if m[1] != "" {
					require.NoError(t, command.ValidateArgs(command.Flags().Args()), "%s: %s", page, line)
				}
				lines++
			}
		}
	}
	require.Greater(t, lines, 20)
}

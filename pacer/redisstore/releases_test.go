package redisstore_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// previousFile names the previous release: a tag, or until there is one with this schema, the commit that introduced it. If history was
// rewritten, git log -S with the prefix of keys.go finds that commit.
const previousFile = "testdata/previous"

// Each release may meet the one before it: both have the number in their keys that docs/operating.md promises, unless the changelog
// says that it was counted up. TestTwoReleasesSideBySide runs both, and TestNoKeyWithoutTTL sees old keys expire.
func TestTheReleaseBeforeHasTheSameKeys(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("keys.go")
	require.NoError(t, err)
	prefix := regexp.MustCompile(`const prefix = "(pacer:\d+:)"`)
	now := string(prefix.FindSubmatch(source)[1])
	for _, page := range []string{"operating.md", "redis.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		require.NoError(t, err)
		require.Contains(t, string(text), "`"+now, page)
	}
	commit, err := os.ReadFile(previousFile)
	require.NoError(t, err)
	before, err := exec.CommandContext(t.Context(), "git", "show", strings.TrimSpace(string(commit))+":./keys.go").Output()
	if err != nil {
		t.Skipf("the release before, %s, is not in this clone: fetch the history of the repository", commit)
	}
	if string(prefix.FindSubmatch(before)[1]) == now {
		return
	}
	changes, err := os.ReadFile("../../CHANGELOG.md")
	require.NoError(t, err)
	_, unreleased, _ := strings.Cut(string(changes), "## [Unreleased]")
	unreleased, _, _ = strings.Cut(unreleased, "\n## [")
	_, breaking, _ := strings.Cut(unreleased, "### Breaking")
	require.Contains(t, breaking, now, "the keys of the release before have another number, which the changelog has to say")
}

package notion_test

import (
	"testing"

	"github.com/headway-go/headway/policies/notion"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, notion.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, notion.Profile, "testdata") }

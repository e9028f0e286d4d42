package atlassian_test

import (
	"testing"

	"github.com/headway-go/headway/policies/atlassian"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, atlassian.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, atlassian.Profile, "testdata") }

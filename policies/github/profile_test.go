package github_test

import (
	"testing"

	"github.com/headway-go/headway/policies/github"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, github.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, github.Profile, "testdata") }

package anthropic_test

import (
	"testing"

	"github.com/headway-go/headway/policies/anthropic"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, anthropic.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, anthropic.Profile, "testdata") }

package openai_test

import (
	"testing"

	"github.com/headway-go/headway/policies/openai"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, openai.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, openai.Profile, "testdata") }

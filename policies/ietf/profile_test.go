package ietf_test

import (
	"testing"

	"github.com/headway-go/headway/policies/ietf"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, ietf.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, ietf.Profile, "testdata") }

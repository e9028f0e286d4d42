package okta_test

import (
	"testing"

	"github.com/headway-go/headway/policies/okta"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, okta.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, okta.Profile, "testdata") }

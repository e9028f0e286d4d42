package hubspot_test

import (
	"testing"

	"github.com/headway-go/headway/policies/hubspot"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, hubspot.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, hubspot.Profile, "testdata") }

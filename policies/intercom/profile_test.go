package intercom_test

import (
	"testing"

	"github.com/headway-go/headway/policies/intercom"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, intercom.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, intercom.Profile, "testdata") }

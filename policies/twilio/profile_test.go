package twilio_test

import (
	"testing"

	"github.com/headway-go/headway/policies/profiletest"
	"github.com/headway-go/headway/policies/twilio"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, twilio.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, twilio.Profile, "testdata") }

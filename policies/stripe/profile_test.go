package stripe_test

import (
	"testing"

	"github.com/headway-go/headway/policies/profiletest"
	"github.com/headway-go/headway/policies/stripe"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, stripe.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, stripe.Profile, "testdata") }

package shopify_test

import (
	"testing"

	"github.com/headway-go/headway/policies/profiletest"
	"github.com/headway-go/headway/policies/shopify"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, shopify.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, shopify.Profile, "testdata") }

package zendesk_test

import (
	"testing"

	"github.com/headway-go/headway/policies/profiletest"
	"github.com/headway-go/headway/policies/zendesk"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, zendesk.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, zendesk.Profile, "testdata") }

package salesforce_test

import (
	"testing"

	"github.com/headway-go/headway/policies/profiletest"
	"github.com/headway-go/headway/policies/salesforce"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, salesforce.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, salesforce.Profile, "testdata") }

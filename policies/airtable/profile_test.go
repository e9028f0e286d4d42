package airtable_test

import (
	"testing"

	"github.com/headway-go/headway/policies/airtable"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, airtable.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, airtable.Profile, "testdata") }

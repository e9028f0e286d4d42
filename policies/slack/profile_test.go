package slack_test

import (
	"testing"

	"github.com/headway-go/headway/policies/profiletest"
	"github.com/headway-go/headway/policies/slack"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	profiletest.Replay(t, slack.Profile, "testdata")
}

func FuzzRead(f *testing.F) { profiletest.Fuzz(f, slack.Profile, "testdata") }

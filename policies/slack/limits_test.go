package slack_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/profiletest"
	"github.com/headway-go/headway/policies/slack"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	profiletest.Limits(t, slack.Profile, append(slack.Limits(), slack.NonMarketplace()))
}

func TestTierOf(t *testing.T) {
	t.Parallel()
	require.Equal(t, 2, slack.TierOf("users.list"))
	require.Equal(t, 3, slack.TierOf("conversations.history"))
	require.Zero(t, slack.TierOf("chat.postMessage"), "it has a limit of its own")
	require.Zero(t, slack.TierOf(""))
}

//go:build pasted

package recipes

// Imports of the pages only, so that go.mod requires them.
import (
	_ "github.com/anthropics/anthropic-sdk-go"
	_ "github.com/google/go-github/v84/github"
	_ "github.com/k-capehart/go-salesforce/v3"
	_ "github.com/nukosuke/go-zendesk/zendesk"
	_ "github.com/openai/openai-go/v3"
	_ "github.com/quasilyte/go-ruleguard/dsl"
	_ "github.com/redis/go-redis/v9"
	_ "github.com/sashabaranov/go-openai"
	_ "github.com/slack-go/slack"
	_ "github.com/stripe/stripe-go/v85"
	_ "golang.org/x/time/rate"

	_ "github.com/headway-go/headway/transport"
)

package sdks

import (
	"net/http"
	"testing"

	anthropicsdk "github.com/anthropics/anthropic-sdk-go"
	openaisdk "github.com/openai/openai-go/v3"
	goopenaisdk "github.com/sashabaranov/go-openai"
	slacksdk "github.com/slack-go/slack"
	stripesdk "github.com/stripe/stripe-go/v85"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/anthropic"
	"github.com/headway-go/headway/policies/github"
	"github.com/headway-go/headway/policies/openai"
	"github.com/headway-go/headway/policies/salesforce"
	"github.com/headway-go/headway/policies/slack"
	"github.com/headway-go/headway/policies/stripe"
	"github.com/headway-go/headway/policies/zendesk"
)

// calls counts the requests of a client on their way to its paced transport.
type calls struct {
	http.RoundTripper

	n int
}

func (c *calls) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n++
	return c.RoundTripper.RoundTrip(r)
}

// Every SDK makes a call through the client that it was given, by the limits and the profile that the page names.
func TestTheSDKs(t *testing.T) {
	for name, one := range map[string]struct {
		limits  []policies.Policy
		profile policies.Profile
		call    func(*http.Client) (any, error)
		want    any
	}{
		"stripe-go": {stripe.Limits(stripe.Live), stripe.Profile, func(c *http.Client) (any, error) {
			customer, err := newStripe(c, "sk_test_1").V1Customers.Retrieve(t.Context(), "cus_1", &stripesdk.CustomerRetrieveParams{})
			if err != nil {
				return nil, err
			}
			return customer.ID, nil
		}, "cus_1"},
		"go-github": {github.Limits(github.User), github.Profile, func(c *http.Client) (any, error) {
			user, _, err := newGitHub(c, "token").Users.Get(t.Context(), "headway")
			return user.GetLogin(), err
		}, "headway"},
		"slack-go": {slack.Limits(), slack.Profile, func(c *http.Client) (any, error) {
			channel, _, err := newSlack(c, "xoxb-1").PostMessageContext(t.Context(), "C1", slacksdk.MsgOptionText("hello", false))
			return channel, err
		}, "C1"},
		"openai-go": {openai.Limits(500, 200_000), openai.Profile, func(c *http.Client) (any, error) {
			llm := newOpenAI(c, "key")
			answer, err := llm.Chat.Completions.New(t.Context(), openaisdk.ChatCompletionNewParams{
				Model: "gpt-5", Messages: []openaisdk.ChatCompletionMessageParamUnion{openaisdk.UserMessage("Say hello.")},
			})
			if err != nil {
				return nil, err
			}
			return answer.Choices[0].Message.Content, nil
		}, "hello"},
		"go-openai": {openai.Limits(500, 200_000), openai.Profile, func(c *http.Client) (any, error) {
			answer, err := newGoOpenAI(c, "key").CreateChatCompletion(t.Context(), goopenaisdk.ChatCompletionRequest{
				Model: "gpt-5", Messages: []goopenaisdk.ChatCompletionMessage{{Role: "user", Content: "Say hello."}},
			})
			if err != nil {
				return nil, err
			}
			return answer.Choices[0].Message.Content, nil
		}, "hello"},
		"anthropic-sdk-go": {anthropic.Limits(50, 30_000, 8_000), anthropic.Profile, func(c *http.Client) (any, error) {
			llm := newAnthropic(c, "key")
			answer, err := llm.Messages.New(t.Context(), anthropicsdk.MessageNewParams{
				Model: "claude", MaxTokens: 100, Messages: []anthropicsdk.MessageParam{anthropicsdk.NewUserMessage(anthropicsdk.NewTextBlock("Say hello."))},
			})
			if err != nil {
				return nil, err
			}
			return answer.Content[0].Text, nil
		}, "hello"},
		"go-zendesk": {zendesk.Limits(zendesk.SuiteEnterprise), zendesk.Profile, func(c *http.Client) (any, error) {
			z, err := newZendesk(c, "acme", "a@example.com", "token")
			if err != nil {
				return nil, err
			}
			ticket, err := z.GetTicket(t.Context(), 7)
			return ticket.Subject, err
		}, "printer"},
		"go-salesforce": {salesforce.Limits(salesforce.Enterprise, 1), salesforce.Profile, func(c *http.Client) (any, error) {
			sf, err := newSalesforce(c, "https://acme.my.salesforce.com", "token")
			if err != nil {
				return nil, err
			}
			var accounts []struct{ Name string }
			err = sf.Query("SELECT Name FROM Account", &accounts)
			if err != nil {
				return nil, err
			}
			return accounts[0].Name, nil
		}, "Acme"},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := newClient(name, one.limits, one.profile)
			if err != nil {
				t.Fatal(err)
			}
			through := &calls{RoundTripper: client.Transport}
			client.Transport = through
			got, err := one.call(client)
			if err != nil || got != one.want {
				t.Fatalf("%v, %v", got, err)
			}
			if through.n == 0 {
				t.Fatal("the SDK does not use the client")
			}
		})
	}
}

package sdktest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	openaisdk "github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	goopenai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
	anthropicprofile "github.com/headway-go/headway/policies/anthropic"
	openaiprofile "github.com/headway-go/headway/policies/openai"
	"github.com/headway-go/headway/transport"
)

// A talker is an SDK of a model: it makes one call, reads the answer as its users do, and is done with it.
type talker struct {
	profile policies.Profile
	stream  bool
	ask     func(ctx context.Context, hc *http.Client, url string) error
	answer  string // of the stand-in
	costs   []policies.Cost
}

// Answers that used 15 tokens: 11 of input, 4 of output.
const (
	completion = `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop",` +
		`"message":{"role":"assistant","content":"hello"}}],"usage":{"prompt_tokens":11,"completion_tokens":4,"total_tokens":15}}` + "\n"
	completionStream = `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"hello"}}]}` + "\n\n" +
		`data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":4,"total_tokens":15}}` +
		"\n\ndata: [DONE]\n\n"
	message = `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hello"}],` +
		`"stop_reason":"end_turn","usage":{"input_tokens":11,"output_tokens":4}}` + "\n"
	messageStream = "event: message_start\n" +
		`data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],` +
		`"usage":{"input_tokens":11,"output_tokens":1}}}` + "\n\n" +
		"event: content_block_start\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n" +
		"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}` + "\n\n" +
		"event: content_block_stop\n" + `data: {"type":"content_block_stop","index":0}` + "\n\n" +
		"event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}` + "\n\n" +
		"event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n"
)

func talkers() map[string]talker {
	tokens := []policies.Cost{{Policy: openaiprofile.PolicyTokens, N: 15}}
	inout := []policies.Cost{{Policy: anthropicprofile.PolicyInputTokens, N: 11}, {Policy: anthropicprofile.PolicyOutputTokens, N: 4}}
	params := openaisdk.ChatCompletionNewParams{
		Model: "m", MaxTokens: openaisdk.Int(5000), Messages: []openaisdk.ChatCompletionMessageParamUnion{openaisdk.UserMessage("hi")},
	}
	requested := goopenai.ChatCompletionRequest{
		Model: "m", MaxTokens: 5000, Messages: []goopenai.ChatCompletionMessage{{Role: "user", Content: "hi"}}, //nolint:staticcheck // most programs still set MaxTokens
	}
	body := anthropic.MessageNewParams{
		Model: "m", MaxTokens: 5000, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))},
	}
	return map[string]talker{
		"openai-go": {openaiprofile.Profile, false, func(ctx context.Context, hc *http.Client, url string) error {
			_, err := newOpenAI(hc, url).Chat.Completions.New(ctx, params)
			return err
		}, completion, tokens},
		"openai-go, a stream": {openaiprofile.Profile, true, func(ctx context.Context, hc *http.Client, url string) error {
			p := params
			p.StreamOptions = openaisdk.ChatCompletionStreamOptionsParam{IncludeUsage: openaisdk.Bool(true)}
			s := newOpenAI(hc, url).Chat.Completions.NewStreaming(ctx, p)
			for s.Next() {
			}
			return errors.Join(s.Err(), s.Close())
		}, completionStream, tokens},
		"go-openai": {openaiprofile.Profile, false, func(ctx context.Context, hc *http.Client, url string) error {
			_, err := newGoOpenAI(hc, url).CreateChatCompletion(ctx, requested)
			return err
		}, completion, tokens},
		"go-openai, a stream": {openaiprofile.Profile, true, func(ctx context.Context, hc *http.Client, url string) error {
			q := requested
			q.StreamOptions = &goopenai.StreamOptions{IncludeUsage: true}
			s, err := newGoOpenAI(hc, url).CreateChatCompletionStream(ctx, q)
			if err != nil {
				return err
			}
			for err == nil {
				_, err = s.Recv()
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return errors.Join(err, s.Close())
		}, completionStream, tokens},
		"anthropic-sdk-go": {anthropicprofile.Profile, false, func(ctx context.Context, hc *http.Client, url string) error {
			_, err := newAnthropic(hc, url).Messages.New(ctx, body)
			return err
		}, message, inout},
		"anthropic-sdk-go, a stream": {anthropicprofile.Profile, true, func(ctx context.Context, hc *http.Client, url string) error {
			s := newAnthropic(hc, url).Messages.NewStreaming(ctx, body)
			for s.Next() {
			}
			return errors.Join(s.Err(), s.Close())
		}, messageStream, inout},
	}
}

func newOpenAI(hc *http.Client, url string) *openaisdk.Client {
	c := openaisdk.NewClient(openaioption.WithAPIKey("k"), openaioption.WithBaseURL(url+"/v1/"), openaioption.WithHTTPClient(hc), openaioption.WithMaxRetries(0))
	return &c
}

func newGoOpenAI(hc *http.Client, url string) *goopenai.Client {
	c := goopenai.DefaultConfig("k")
	c.BaseURL, c.HTTPClient = url+"/v1", hc
	return goopenai.NewClientWithConfig(c)
}

func newAnthropic(hc *http.Client, url string) *anthropic.Client {
	c := anthropic.NewClient(
		anthropicoption.WithAPIKey("k"), anthropicoption.WithBaseURL(url), anthropicoption.WithHTTPClient(hc), anthropicoption.WithMaxRetries(0))
	return &c
}

// However an SDK reads an answer, the call ends up charged at the tokens that it used: none, if it failed.
func TestCallsAreSettledAtTheTokensThatTheyUsed(t *testing.T) {
	t.Parallel()
	for name, s := range talkers() {
		for _, status := range []int{http.StatusOK, http.StatusBadRequest, http.StatusTooManyRequests, http.StatusInternalServerError} {
			t.Run(name+" "+http.StatusText(status), func(t *testing.T) {
				t.Parallel()
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, err := io.Copy(io.Discard, r.Body)
					assert.NoError(t, err)
					media, answer := "application/json", s.answer
					if status != http.StatusOK {
						answer = `{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`
					} else if s.stream {
						media = "text/event-stream"
					}
					w.Header().Set("Content-Type", media)
					w.WriteHeader(status)
					for part := range strings.SplitAfterSeq(answer, "\n\n") { // as it is produced
						_, err := io.WriteString(w, part)
						assert.NoError(t, err)
						w.(http.Flusher).Flush()
					}
				}))
				t.Cleanup(server.Close)
				var stack []policies.Policy
				for _, c := range s.costs {
					stack = append(stack, policies.Fixed(6000, time.Hour).Named(c.Policy))
				}
				p := newPacer(t, stack...)
				rt, err := transport.New(p, transport.WithProfile(s.profile))
				require.NoError(t, err)
				err = s.ask(t.Context(), &http.Client{Transport: rt}, server.URL)
				require.Equal(t, status == http.StatusOK, err == nil, "%v", err)
				got, err := p.Status(t.Context())
				require.NoError(t, err)
				for i, c := range s.costs {
					if status != http.StatusOK {
						c.N = 0
					}
					require.Equal(t, 6000-c.N, got.Policies[i].Remaining, c.Policy)
				}
			})
		}
	}
}

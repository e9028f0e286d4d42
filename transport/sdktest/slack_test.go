package sdktest_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	sdkslack "github.com/slack-go/slack"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/slack"
)

func slackGo() sdk {
	client := func(hc *http.Client, url string) *sdkslack.Client {
		return sdkslack.New("xoxb-1", sdkslack.OptionHTTPClient(hc), sdkslack.OptionAPIURL(url+"/api/"))
	}
	return sdk{
		profile: slack.Profile, limits: slack.Limits(),
		wait: time.Second, body: "hello",
		read: func(ctx context.Context, hc *http.Client, url string) (any, error) {
			var all []string
			cursor := ""
			for {
				channels, next, err := client(hc, url).GetConversationsContext(ctx, &sdkslack.GetConversationsParameters{Cursor: cursor})
				if err != nil {
					return nil, err
				}
				for _, c := range channels {
					all = append(all, c.ID)
				}
				if cursor = next; cursor == "" {
					return all, nil
				}
			}
		},
		write: func(ctx context.Context, hc *http.Client, url string) (any, error) {
			channel, ts, err := client(hc, url).PostMessageContext(ctx, "C1", sdkslack.MsgOptionText("hello", false))
			return channel + ts, err
		},
		missing: func(ctx context.Context, hc *http.Client, url string) (any, error) {
			return client(hc, url).GetUserInfoContext(ctx, "U404")
		},
		answer: func(w http.ResponseWriter, r *http.Request, body string) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/chat.postMessage"):
				fmt.Fprint(w, `{"ok":true,"channel":"C1","ts":"1.2"}`)
			case strings.HasSuffix(r.URL.Path, "/users.info"):
				fmt.Fprint(w, `{"ok":false,"error":"user_not_found"}`)
			case !strings.Contains(body+r.URL.RawQuery, "cursor=next"):
				fmt.Fprint(w, `{"ok":true,"channels":[{"id":"C1"}],"response_metadata":{"next_cursor":"next"}}`)
			default:
				fmt.Fprint(w, `{"ok":true,"channels":[{"id":"C2"}]}`)
			}
		},
		refuse: func(w http.ResponseWriter, wait string) {
			w.Header().Set("Retry-After", wait)
			w.WriteHeader(http.StatusTooManyRequests)
		},
		limited: func(t *testing.T, err error) {
			t.Helper()
			var limited *sdkslack.RateLimitedError
			require.ErrorAs(t, err, &limited)
			require.Equal(t, time.Minute, limited.RetryAfter)
		},
	}
}

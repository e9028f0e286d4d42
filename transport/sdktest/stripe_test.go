package sdktest_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkstripe "github.com/stripe/stripe-go/v85"

	"github.com/headway-go/headway/policies/stripe"
)

func stripeGo() sdk {
	client := func(hc *http.Client, url string) *sdkstripe.Client {
		backends := sdkstripe.NewBackendsWithConfig(&sdkstripe.BackendConfig{
			HTTPClient: hc, URL: sdkstripe.String(url), LeveledLogger: &sdkstripe.LeveledLogger{Level: sdkstripe.LevelNull},
			// The SDK repeats errors of the transport, a refusal by the pacer among them; the transport repeats what is worth it.
			MaxNetworkRetries: sdkstripe.Int64(0),
		})
		return sdkstripe.NewClient("sk_test_1", sdkstripe.WithBackends(backends))
	}
	return sdk{
		profile: stripe.Profile, limits: stripe.Limits(stripe.Live),
		wait: time.Second, body: "email=a%40example.com",
		read: func(ctx context.Context, hc *http.Client, url string) (any, error) {
			var all []string
			for c, err := range client(hc, url).V1Customers.List(ctx, &sdkstripe.CustomerListParams{}).All(ctx) {
				if err != nil {
					return nil, err
				}
				all = append(all, c.ID)
			}
			return all, nil
		},
		write: func(ctx context.Context, hc *http.Client, url string) (any, error) {
			c, err := client(hc, url).V1Customers.Create(ctx, &sdkstripe.CustomerCreateParams{Email: sdkstripe.String("a@example.com")})
			if err != nil {
				return nil, err
			}
			return c.ID, nil
		},
		missing: func(ctx context.Context, hc *http.Client, url string) (any, error) {
			return client(hc, url).V1Customers.Retrieve(ctx, "cus_404", nil)
		},
		answer: func(w http.ResponseWriter, r *http.Request, _ string) {
			switch {
			case strings.Contains(r.URL.Path, "404"):
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, `{"error":{"type":"invalid_request_error","code":"resource_missing","message":"No such customer"}}`)
			case r.Method == http.MethodPost:
				fmt.Fprint(w, `{"id":"cus_1","object":"customer"}`)
			case r.FormValue("starting_after") == "":
				fmt.Fprint(w, `{"object":"list","has_more":true,"url":"/v1/customers","data":[{"id":"cus_1","object":"customer"}]}`)
			default:
				fmt.Fprint(w, `{"object":"list","has_more":false,"url":"/v1/customers","data":[{"id":"cus_2","object":"customer"}]}`)
			}
		},
		refuse: func(w http.ResponseWriter, wait string) {
			w.Header().Set("Stripe-Rate-Limited-Reason", "global-rate")
			w.Header().Set("Retry-After", wait) // not documented, and heeded
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"error":{"type":"invalid_request_error","code":"rate_limit","message":"Request rate limit exceeded"}}`)
		},
		limited: func(t *testing.T, err error) {
			t.Helper()
			var se *sdkstripe.Error
			require.ErrorAs(t, err, &se)
			require.Equal(t, sdkstripe.ErrorCodeRateLimit, se.Code)
			require.Equal(t, http.StatusTooManyRequests, se.HTTPStatusCode)
		},
	}
}

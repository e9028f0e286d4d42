package sdktest_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	sdkzendesk "github.com/nukosuke/go-zendesk/zendesk"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/zendesk"
)

func goZendesk() sdk {
	client := func(hc *http.Client, url string) (*sdkzendesk.Client, error) {
		z, err := sdkzendesk.NewClient(hc)
		if err != nil {
			return nil, err
		}
		z.SetCredential(sdkzendesk.NewAPITokenCredential("a@example.com", "token"))
		return z, z.SetEndpointURL(url + "/api/v2")
	}
	return sdk{
		profile: zendesk.Profile, limits: zendesk.Limits(zendesk.HighVolume),
		wait: time.Second, body: "changed",
		read: func(ctx context.Context, hc *http.Client, url string) (any, error) {
			z, err := client(hc, url)
			if err != nil {
				return nil, err
			}
			var all []sdkzendesk.Ticket
			for page := 1; page <= 2; page++ {
				tickets, _, err := z.GetTickets(ctx, &sdkzendesk.TicketListOptions{PageOptions: sdkzendesk.PageOptions{Page: page}})
				if err != nil {
					return nil, err
				}
				all = append(all, tickets...)
			}
			return all, nil
		},
		write: func(ctx context.Context, hc *http.Client, url string) (any, error) {
			z, err := client(hc, url)
			if err != nil {
				return nil, err
			}
			return z.UpdateTicket(ctx, 7, sdkzendesk.Ticket{Subject: "changed"})
		},
		missing: func(ctx context.Context, hc *http.Client, url string) (any, error) {
			z, err := client(hc, url)
			if err != nil {
				return nil, err
			}
			return z.GetTicket(ctx, 404)
		},
		answer: func(w http.ResponseWriter, r *http.Request, _ string) {
			w.Header().Set("X-Rate-Limit", "2500")
			w.Header().Set("X-Rate-Limit-Remaining", "2400")
			switch {
			case strings.Contains(r.URL.Path, "404"):
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, `{"error":"RecordNotFound"}`)
			case r.Method == http.MethodPut:
				fmt.Fprint(w, `{"ticket":{"id":7,"subject":"changed"}}`)
			default:
				fmt.Fprintf(w, `{"tickets":[{"id":%s}]}`, r.FormValue("page"))
			}
		},
		refuse: func(w http.ResponseWriter, wait string) {
			w.Header().Set("Retry-After", wait)
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, "Number of allowed API requests per minute exceeded")
		},
		limited: func(t *testing.T, err error) {
			t.Helper()
			var ze sdkzendesk.Error
			require.ErrorAs(t, err, &ze)
			require.Equal(t, http.StatusTooManyRequests, ze.Status())
			require.Equal(t, "60", ze.Headers().Get("Retry-After"))
		},
	}
}

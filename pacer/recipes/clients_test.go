package recipes_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/go-resty/resty/v2"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/oauth2/v2"
	"google.golang.org/api/option"
	"google.golang.org/protobuf/types/known/emptypb"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/recipes/testdata/oapi"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
	"github.com/headway-go/headway/transport/upstreamtest"
)

// Each client of the table of docs/recipes.md sends its calls through the pacer: the second is refused by it, and reaches nothing.
func TestTheClientsOfTheTable(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(ctx context.Context, client *http.Client, p *pacer.Pacer, url string) error{
		"resty": func(ctx context.Context, client *http.Client, _ *pacer.Pacer, url string) error {
			_, err := resty.NewWithClient(client).R().SetContext(ctx).Get(url)
			return err
		},
		"connect": func(ctx context.Context, client *http.Client, _ *pacer.Pacer, url string) error {
			_, err := connect.NewClient[emptypb.Empty, emptypb.Empty](client, url).CallUnary(ctx, connect.NewRequest(&emptypb.Empty{}))
			return err
		},
		"go-retryablehttp": func(_ context.Context, client *http.Client, _ *pacer.Pacer, url string) error {
			retrying := retryablehttp.NewClient()
			retrying.HTTPClient = client
			retrying.RetryMax = 0
			retrying.Logger = nil
			return closed(retrying.Get(url))
		},
		"azure": func(ctx context.Context, client *http.Client, _ *pacer.Pacer, url string) error {
			options := policy.ClientOptions{Transport: client}
			options.Retry.MaxRetries = -1
			req, err := runtime.NewRequest(ctx, http.MethodGet, url)
			if err != nil {
				return err
			}
			return closed(runtime.NewPipeline("test", "v1", runtime.PipelineOptions{}, &options).Do(req))
		},
		"google": func(ctx context.Context, client *http.Client, _ *pacer.Pacer, url string) error {
			service, err := oauth2.NewService(ctx, option.WithHTTPClient(client), option.WithEndpoint(url))
			if err != nil {
				return err
			}
			_, err = service.Userinfo.Get().Do()
			return err
		},
		"oapi-codegen": func(ctx context.Context, client *http.Client, _ *pacer.Pacer, url string) error {
			generated, err := oapi.NewClient(url, oapi.WithHTTPClient(client))
			if err != nil {
				return err
			}
			return closed(generated.ListThings(ctx))
		},
		"kubernetes": func(ctx context.Context, _ *http.Client, p *pacer.Pacer, url string) error {
			kube := &rest.Config{Host: url, ContentConfig: rest.ContentConfig{NegotiatedSerializer: serializer.NewCodecFactory(k8sruntime.NewScheme())}}
			paced := func(rt http.RoundTripper) http.RoundTripper {
				over, err := transport.New(p, transport.WithBase(rt))
				if err != nil {
					panic(err) // nothing that the page leaves out
				}
				return over
			}
			kube.QPS = -1
			kube.Wrap(paced)
			client, err := rest.UnversionedRESTClientFor(kube)
			if err != nil {
				return err
			}
			return client.Get().AbsPath("/version").Do(ctx).Error()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := &upstreamtest.Upstream{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
				if r.Header.Get("Content-Type") == "" {
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, "{}")
				}
			})}
			server := httptest.NewServer(u)
			defer server.Close()
			p, err := pacer.New(pacer.Config{Upstream: name, Policies: []policies.Policy{policies.Every(time.Hour)}})
			require.NoError(t, err)
			defer p.Close()
			client, err := transport.NewClient(p)
			require.NoError(t, err)
			require.NoError(t, call(t.Context(), client, p, server.URL))
			err = call(t.Context(), client, p, server.URL)
			require.ErrorContains(t, err, `policy "every-1h"`)
			require.Equal(t, 1, u.Admitted())
		})
	}
	var source []byte
	for _, name := range []string{"clients_test.go", "workers_test.go"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		source = append(source, text...)
	}
	page, _ := readPage(t, "recipes.md")
	_, table, _ := strings.Cut(page, "| --- | --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	require.Len(t, rows, 9)
	for _, row := range rows {
		for _, code := range regexp.MustCompile("`[^`]+`").FindAllString(row, -1) {
			require.Contains(t, string(source), strings.Trim(code, "`"), row)
		}
	}
}

// closed closes a reply.
func closed(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

package sdktest_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	sdksalesforce "github.com/k-capehart/go-salesforce/v3"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/salesforce"
)

type account struct {
	ID   string `json:"Id"   mapstructure:"Id,omitempty"`
	Name string `json:"Name" mapstructure:"Name,omitempty"`
}

func goSalesforce() sdk {
	client := func(hc *http.Client, url string) (*sdksalesforce.Salesforce, error) {
		timeout := 30 * time.Second
		if hc.Timeout > 0 {
			timeout = hc.Timeout
		}
		return sdksalesforce.Init(sdksalesforce.Creds{Domain: url, AccessToken: "token"},
			sdksalesforce.WithRoundTripper(hc.Transport), sdksalesforce.WithHTTPTimeout(timeout), sdksalesforce.WithValidateAuthentication(false))
	}
	return sdk{
		profile: salesforce.Profile, limits: salesforce.Limits(salesforce.Enterprise, 1),
		wait: time.Second, body: "Acme", unrepeats: true,
		read: func(_ context.Context, hc *http.Client, url string) (any, error) {
			sf, err := client(hc, url)
			if err != nil {
				return nil, err
			}
			var all []account
			return &all, sf.Query("SELECT Id, Name FROM Account", &all)
		},
		write: func(_ context.Context, hc *http.Client, url string) (any, error) {
			sf, err := client(hc, url)
			if err != nil {
				return nil, err
			}
			return sf.InsertOne("Account", account{Name: "Acme"})
		},
		missing: func(_ context.Context, hc *http.Client, url string) (any, error) {
			sf, err := client(hc, url)
			if err != nil {
				return nil, err
			}
			var all []account
			return nil, sf.Query("SELECT Id FROM Missing404", &all)
		},
		answer: func(w http.ResponseWriter, r *http.Request, _ string) {
			w.Header().Set("Sforce-Limit-Info", "api-usage=18/101000")
			w.Header().Set("Content-Type", "application/json")
			switch {
			case strings.Contains(r.URL.RawQuery, "404"):
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, `[{"errorCode":"NOT_FOUND","message":"sObject type 'Missing404' is not supported."}]`)
			case r.Method == http.MethodPost:
				w.WriteHeader(http.StatusCreated)
				fmt.Fprint(w, `{"id":"001","success":true,"errors":[]}`)
			case strings.Contains(r.URL.Path, "next"):
				fmt.Fprint(w, `{"totalSize":2,"done":true,"records":[{"Id":"2","Name":"two"}]}`)
			default:
				fmt.Fprint(w, `{"totalSize":2,"done":false,"nextRecordsUrl":"/services/data/v63.0/query/next-1","records":[{"Id":"1","Name":"one"}]}`)
			}
		},
		refuse: func(w http.ResponseWriter, _ string) {
			w.Header().Set("Sforce-Limit-Info", "api-usage=101000/101000")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `[{"message":"TotalRequests Limit exceeded.","errorCode":"REQUEST_LIMIT_EXCEEDED"}]`)
		},
		limited: func(t *testing.T, err error) {
			t.Helper()
			require.ErrorContains(t, err, "REQUEST_LIMIT_EXCEEDED") // the SDK makes a string of the body
		},
	}
}

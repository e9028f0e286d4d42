// Command salesforce reads the records of three customers from one Salesforce org with a real SDK through Headway, until the org's calls of
// the day are spent.
//
// It calls a strict local stand-in of the REST API, whose calls another consumer spends, too, or with SALESFORCE_DOMAIN and
// SALESFORCE_ACCESS_TOKEN set a real org, from which it only reads. The readers leave a reserve to interactive calls. When nothing is left,
// the program ends with Headway's typed error and prints when to come back.
//
//	go run ./examples/salesforce                           # one process, state in memory
//	go run ./examples/salesforce -other 0                  # nobody else spends the org's calls
//	go run ./examples/salesforce -config examples/salesforce/headway.yaml    # limits from a file, which you can change meanwhile
//	go run ./examples/salesforce -redis 127.0.0.1:6379     # in several terminals: copies that share the org's calls
//
// This file has what a program of your own needs besides pacer.New and transport.NewClient. The others have the stand-in, the flags, the
// meter and the report.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"time"

	sdk "github.com/k-capehart/go-salesforce/v3"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/salesforce"
)

// limitsOf returns the policies for an org with this many calls in 24 hours, which keeps that many per cent for interactive calls.
func limitsOf(allocation, reserve int) []policies.Policy {
	return []policies.Policy{
		salesforce.Daily(int64(allocation)),
		policies.AtMost(peakRate, time.Second).Burst(2).Skew(skew).Named(policyPeak),
		// The readers have a part of both. Calls without their scope have the rest.
		salesforce.Share(int64(allocation), int64(100-reserve), scopeBatch),
		policies.AtMost(share(peakRate, reserve), time.Second).Burst(2).Skew(skew).Per(scopeBatch).Optional().Named(policyPeakShare),
		policies.PerSecond(tenantRate).Per(scopeTenant).Optional().Named(policyTenant),
	}
}

// newSDK returns Salesforce's SDK for one kind of calls. Give it an access token: its OAuth flows use http.DefaultClient, which is not
// paced. Leave the API version as it is, because the SDK follows nextRecordsUrl only with its own.
func newSDK(u *upstream, rt http.RoundTripper, timeout time.Duration) (*sdk.Salesforce, error) {
	return sdk.Init(
		sdk.Creds{Domain: u.url, AccessToken: u.token},
		sdk.WithRoundTripper(rt),
		sdk.WithHTTPTimeout(timeout),
		sdk.WithValidateAuthentication(false), // which would be a call to /limits for each client
	)
}

// read reads the next records.
func (s *stream) read(m *meter) error {
	soql := "SELECT Id, LastModifiedDate FROM " + s.object + " WHERE AccountId = '" + s.tenant.id + "'"
	if s.after != "" {
		soql += " AND Id > '" + s.after + "'"
	}
	var rows []struct{ Id string } //nolint:revive // Salesforce's name
	if err := s.tenant.sf.Query(fmt.Sprintf("%s ORDER BY Id LIMIT %d", soql, chunk), &rows); err != nil {
		return err
	}
	m.read(s.tenant.label, len(rows))
	s.after = "" // once more from the beginning
	if len(rows) == chunk {
		s.after = rows[chunk-1].Id
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

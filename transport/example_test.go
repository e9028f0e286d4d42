package transport_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/fields"
	"github.com/headway-go/headway/transport"
)

// Each request carries the tenant of its host; each tenant is paced separately.
func ExampleNewClient() {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()

	p, err := pacer.New(pacer.Config{
		Upstream: "zendesk",
		Policies: []policies.Policy{policies.AtMost(700, time.Minute).Burst(5).Per("tenant")},
	})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	client, err := transport.NewClient(p, transport.WithScope("tenant", func(r *http.Request) string { return r.URL.Hostname() }))
	if err != nil {
		panic(err)
	}
	resp, err := client.Get(upstream.URL)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output: 200 OK
}

// A signature with a date is made when the wait of its attempt is over.
func ExampleWithSigner() {
	key := []byte("secret")
	signature := func(date string) string {
		mac := hmac.New(sha256.New, key)
		_, _ = io.WriteString(mac, date)
		return hex.EncodeToString(mac.Sum(nil))
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if date := r.Header.Get("Date"); date == "" || r.Header.Get("Signature") != signature(date) {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer upstream.Close()

	p, err := pacer.New(pacer.Config{Upstream: "orders", Policies: []policies.Policy{policies.PerSecond(10)}})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	client, err := transport.NewClient(p, transport.WithSigner(func(r *http.Request) error {
		date := time.Now().UTC().Format(http.TimeFormat)
		r.Header.Set("Date", date)
		r.Header.Set("Signature", signature(date))
		return nil
	}))
	if err != nil {
		panic(err)
	}
	resp, err := client.Get(upstream.URL)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output: 200 OK
}

// An upstream that refuses in its own way: 403, and a field with the seconds to wait. The pause is for the policy that
// the feedback names.
func ExampleWithProfile() {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Search-Reset", "30")
		w.WriteHeader(http.StatusForbidden)
	}))
	defer upstream.Close()
	crm := policies.Profile{
		Name:   "crm",
		Scopes: []policies.Scope{{Name: "endpoint", Value: func(r *http.Request) string { return r.URL.Path }}},
		Read: func(r *policies.Reply) policies.Reading {
			wait, ok := fields.Wait(fields.Get(r.Header, "Search-Reset"), r.Now)
			if !ok || r.Status != http.StatusForbidden {
				return policies.Reading{}
			}
			return policies.Reading{Verdict: policies.Limited, Feedback: []policies.Feedback{{
				Source: "Search-Reset", Policies: []string{"search"}, Otherwise: policies.TheCall, Refused: true, Wait: wait,
			}}}
		},
	}
	p, err := pacer.New(pacer.Config{
		Upstream: "crm",
		Policies: []policies.Policy{policies.PerSecond(100).Named("all"), policies.PerSecond(5).Per("endpoint").Named("search").Optional()},
	})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	rt, err := transport.New(p, transport.WithProfile(crm))
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: rt, Timeout: 5 * time.Second}
	resp, err := client.Get(upstream.URL + "/search")
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)

	again, err := client.Get(upstream.URL + "/search")
	if err == nil {
		again.Body.Close()
	}
	fmt.Println(errors.Is(err, pacer.ErrNotYet), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// 403 Forbidden
	// true true
}

// One client for several APIs: each host has its own pacer, and other hosts are refused.
func ExampleNewRouter() {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	p, err := pacer.New(pacer.Config{Upstream: "crm", Policies: []policies.Policy{policies.PerSecond(10)}})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	crm, err := transport.New(p)
	if err != nil {
		panic(err)
	}
	router, err := transport.NewRouter(transport.WithHost("127.0.0.1", crm))
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: router}
	resp, err := client.Get(upstream.URL)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)

	other, err := client.Get("https://elsewhere.test/")
	if err == nil {
		other.Body.Close()
	}
	fmt.Println(errors.Is(err, pacer.ErrRefused))
	// Output:
	// 200 OK
	// true
}

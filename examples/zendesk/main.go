// Command zendesk syncs tickets with a real Zendesk SDK through Headway: as fast as the account's limits allow, and without a 429.
//
// It calls a strict local stand-in of the Zendesk Support API, or with ZENDESK_SUBDOMAIN, ZENDESK_EMAIL and ZENDESK_TOKEN set the real one,
// from which it only reads. In the end it shows a chart of the calls per second against the limit.
//
//	go run ./examples/zendesk                           # one process, state in memory
//	go run ./examples/zendesk -page 127.0.0.1:8711      # and shows live in a browser how the limits stand
//	go run ./examples/zendesk -unpaced                  # the same work without Headway
//	go run ./examples/zendesk -config examples/zendesk/headway.yaml    # limits from a file, which you can change meanwhile
//	go run ./examples/zendesk -redis 127.0.0.1:6379     # in several terminals: copies that share the limits
//
// This file has all that a program of your own needs. The others have the stand-in, the flags, the meter and the chart. For the same
// without an SDK, in one short file, see examples/zendesk/plain.
package main

import (
	"context"
	"net/http"
	"os"
	"os/signal"
	"slices"

	"github.com/nukosuke/go-zendesk/zendesk"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

// pace makes a pacer with Zendesk's limits: for this process, or for every process that shares a store.
func pace(shared store.Store, limits []policies.Policy) (*pacer.Pacer, error) {
	return pacer.New(pacer.Config{
		Upstream: "zendesk-example",
		Policies: limits, // zendesk.Limits(zendesk.Team), and the peak of the stand-in
		Store:    shared,
		MaxWait:  pacer.Forever, // the context's deadline is the bound
	})
}

// pacedClient makes the http.Client for the SDK: zendesk.NewClient(client).
func pacedClient(p *pacer.Pacer, base http.RoundTripper) (*http.Client, error) {
	return transport.NewClient(p, transport.WithProfile(profile()), transport.WithBase(base))
}

// work syncs one ticket after the other.
func (s *syncer) work(ctx context.Context) {
	for id := range s.tickets {
		var t zendesk.Ticket
		err := s.call(ctx, func() (err error) {
			t, err = s.sdk.GetTicket(ctx, id)
			return err
		})
		if ended(err) {
			return
		}
		if err != nil || s.every == 0 || id%s.every != 0 {
			continue
		}
		tags := t.Tags
		if !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
		// If there is no slot for an update before the end, there may still be one for reading.
		_ = s.call(ctx, func() error {
			_, err := s.sdk.UpdateTicket(ctx, id, zendesk.Ticket{Tags: tags})
			return err
		})
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

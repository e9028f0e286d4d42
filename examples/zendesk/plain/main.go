// Command plain reads tickets with net/http, paced by Headway. It needs only the library.
//
// It calls a strict local stand-in of Zendesk's API for five seconds, as fast as the account's limits allow, and without a 429.
//
//	go run ./examples/zendesk/plain
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/headway-go/headway/examples/zendesk/standin"
	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

func main() {
	if err := run(context.Background(), 5*time.Second, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run makes calls for a time, and prints how often the API answered with which status.
func run(ctx context.Context, length time.Duration, out io.Writer) error {
	const perMinute = 700 // on Zendesk's plan Enterprise; the stand-in adds a peak for any second
	peak := standin.Peak(perMinute)
	api, err := standin.New(standin.Config{Plan: "enterprise", Peak: peak})
	if err != nil {
		return err
	}
	server, err := standin.Serve(ctx, "127.0.0.1:0", api)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()

	p, err := pacer.New(pacer.Config{Upstream: "zendesk", Policies: []policies.Policy{
		policies.AtMost(perMinute, time.Minute).Burst(2),
		policies.AtMost(int64(peak), time.Second).Named("peak"),
	}})
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	client, err := transport.NewClient(p) // an http.Client: give it to any SDK
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	replies := make(map[int]int)
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL()+"/acme/api/v2/tickets/1.json", http.NoBody)
		if err != nil {
			return err
		}
		req.SetBasicAuth("sync@example.com/token", "example")
		resp, err := client.Do(req)
		if errors.Is(err, context.DeadlineExceeded) {
			break // the next call could not go before the end
		}
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		replies[resp.StatusCode]++
	}
	_, err = fmt.Fprintf(out, "replies by status in %v: %v\n", length, replies)
	return err
}

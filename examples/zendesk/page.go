package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/page"
)

// serve shows the state of the limits live in a browser, until it is stopped.
func serve(ctx context.Context, p *pacer.Pacer, address string, out io.Writer) (stop func(), err error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("-page: %w", err)
	}
	c := page.Config{Operators: []*fleet.Operator{fleet.Of(p)}}
	if host != "" { // on all addresses, the page is for browsers on this machine
		c.Hosts = []string{host}
	}
	h, err := page.New(c)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("-page: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // until it is closed
	}()
	_, _ = fmt.Fprintf(out, "The limits, live: http://%s/\n", listener.Addr())
	return func() {
		_ = h.Close()
		_ = server.Close()
		<-ended
	}, nil
}

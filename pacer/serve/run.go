package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Grace is how long requests that were sent may still take when the server stops, and calls of the API that hold permits.
const Grace = 30 * time.Second

// Run serves the proxy and the API until ctx ends. Then it stops: it drains, and returns when the requests that were sent are over, or after
// [Grace]. It closes the listeners, but not the Server.
func (s *Server) Run(ctx context.Context, proxy, api *Listener) error {
	servers := []*http.Server{proxy.server(s.Proxy(), false, s.log), api.server(s.API(), true, s.log)}
	lasting, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end() // of upgraded connections, which net/http does not know
	failed := make(chan error, len(servers))
	for i, l := range []*Listener{proxy, api} {
		servers[i].BaseContext = func(net.Listener) context.Context { return lasting }
		go func() { failed <- servers[i].Serve(l) }()
	}
	var errs []error
	left := len(servers)
	select {
	case <-ctx.Done():
	case err := <-failed:
		errs, left = append(errs, err), left-1
	}
	s.Drain()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Grace)
	defer cancel()
	stop := func(one *http.Server) {
		if one.Shutdown(ctx) != nil {
			_ = one.Close() // the rest takes too long
		}
	}
	stop(servers[0])
	s.awaitEnds(ctx, proxy)
	stop(servers[1])
	for range left {
		if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// awaitEnds waits until no connection of the proxy is open, upgraded ones included, and no call of the API holds a permit.
func (s *Server) awaitEnds(ctx context.Context, proxy *Listener) {
	for len(proxy.open) > 0 || s.held.permits() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond): //nolint:mnd // as often as a person would not notice
		}
	}
}

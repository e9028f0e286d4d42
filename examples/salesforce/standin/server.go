package standin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// A Server serves a stand-in on a loopback address. Make one with [Serve].
type Server struct {
	url    string
	server *http.Server
	done   chan error
}

// Serve listens on an address such as "127.0.0.1:8712", or "127.0.0.1:0" for any free port, and serves h there until [Server.Close]. It refuses an address
// that other machines could reach.
func Serve(ctx context.Context, addr string, h http.Handler) (*Server, error) {
	if err := CheckAddress(addr); err != nil {
		return nil, fmt.Errorf("standin: %w", err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("standin: %w", err)
	}
	s := &Server{
		url:    "http://" + l.Addr().String(),
		server: &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second},
		done:   make(chan error, 1),
	}
	go func() { s.done <- s.server.Serve(l) }()
	return s, nil
}

// CheckAddress returns nil for a loopback address with a port, such as "127.0.0.1:8712", otherwise an error with the reason.
func CheckAddress(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("address %s: the port %q is not a number from 0 to 65535", addr, port)
	} else if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("address %s is not a loopback address: use 127.0.0.1:%d", addr, n)
	}
	return nil
}

// URL returns the server's URL, such as "http://127.0.0.1:8712".
func (s *Server) URL() string { return s.url }

// Close stops the server at once, and every call with it.
func (s *Server) Close() error {
	err := s.server.Close()
	if e := <-s.done; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}

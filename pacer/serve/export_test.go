package serve

import (
	"log/slog"
	"net"
	"net/http"
)

// NewListener returns a Listener of connections in memory, as if it were one of loopback.
func NewListener(on net.Listener, token string, most int) *Listener {
	l := newListener(on, token, most)
	l.loopback = true
	return l
}

// Follow returns a function that follows the bytes of a new connection.
func Follow() func(p []byte) { return new(framing).follow }

// Guard returns a handler for the connections of a Listener.
func (l *Listener) Guard(h http.Handler) http.Handler { return l.guard(h, false, slog.Default()) }

// Release ends a call of the API.
func (s *Server) Release(id string) error { return s.held.release(id, true) }

package serve

import (
	"crypto/sha256"
	"net"
)

// NewListener returns a Listener of connections in memory, as if it were one of loopback.
func NewListener(l net.Listener, token string) *Listener {
	return &Listener{Listener: l, loopback: true, hasToken: token != "", token: sha256.Sum256([]byte(token))}
}

// Follow returns a function that follows the bytes of a new connection.
func Follow() func(p []byte) { return new(framing).follow }

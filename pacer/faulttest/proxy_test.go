package faulttest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/redistest"
)

// A toxic is something that a proxy does to the bytes that pass it, in the words of toxiproxy.
type toxic struct {
	Type       string         `json:"type"`
	Stream     string         `json:"stream"`
	Attributes map[string]int `json:"attributes"`
}

func downstream(kind string, attributes map[string]int) toxic {
	return toxic{kind, "downstream", attributes}
}

func upstream(kind string, attributes map[string]int) toxic {
	return toxic{kind, "upstream", attributes}
}

// stuckAfter is how long a proxy may take to change.
const stuckAfter = 2 * time.Second

// A route is one process's way to its servers: a proxy for each server that it dials, all of them with the same toxic. A
// client takes it by its Dialer. So a proxy need not keep its address, and one that was stopped gives way to a new one.
type route struct {
	control *toxiproxy.ApiServer

	mu      sync.Mutex
	proxies map[string]*toxiproxy.Proxy // by the address of the server
	present *toxic                      // nil: bytes pass as they are
	closed  bool
	stuck   int // proxies that were given up because they did not change in time
}

func newRoute() *route {
	return &route{
		control: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()),
		proxies: make(map[string]*toxiproxy.Proxy),
	}
}

var errRouteClosed = errors.New("the route is closed")

// dial is the Dialer of a client of go-redis.
func (r *route) dial(ctx context.Context, network, server string) (net.Conn, error) {
	addr, err := r.proxy(server)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// proxy returns the address of the proxy before a server, made if there is none.
func (r *route) proxy(server string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return "", errRouteClosed
	}
	if p := r.proxies[server]; p != nil {
		return p.Listen, nil
	}
	p := toxiproxy.NewProxy(r.control, server, "127.0.0.1:0", server)
	if err := p.Start(); err != nil {
		return "", err
	}
	if r.present != nil {
		if err := add(p, *r.present); err != nil {
			p.Stop()
			return "", err
		}
	}
	r.proxies[server] = p
	return p.Listen, nil
}

const toxicName = "toxic"

func add(p *toxiproxy.Proxy, x toxic) error {
	text, err := json.Marshal(struct {
		toxic

		Name string `json:"name"`
	}{x, toxicName})
	if err != nil {
		return err
	}
	_, err = p.Toxics.AddToxicJson(strings.NewReader(string(text)))
	return err
}

// poison puts a toxic into every connection, and into those that are made from now on, until cure.
func (r *route) poison(x toxic) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.present != nil {
		return fmt.Errorf("%s is there already: one at a time", r.present.Type)
	}
	r.present = &x
	return r.each(func(p *toxiproxy.Proxy) error { return add(p, x) })
}

// cure undoes poison. Connections that the toxic has not broken go on.
func (r *route) cure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.present = nil
	return r.each(func(p *toxiproxy.Proxy) error { return p.Toxics.RemoveToxic(context.Background(), toxicName) })
}

// each changes every proxy. One that is stuck is given up, with its connections: toxiproxy waits for a link whose reader
// has just gone, for ever. The caller holds mu.
func (r *route) each(change func(p *toxiproxy.Proxy) error) error {
	for server, p := range r.proxies {
		done := make(chan error, 1)
		go func() { done <- change(p) }()
		select {
		case err := <-done:
			if err != nil {
				return err
			}
		case <-time.After(stuckAfter): //realtime: the proxy has no other sign of it
			r.stuck++
			delete(r.proxies, server)
			go p.Stop()
		}
	}
	return nil
}

// cut closes every connection, of clients and of servers. New ones may be made at once.
func (r *route) cut() {
	r.mu.Lock()
	all := r.proxies
	r.proxies = make(map[string]*toxiproxy.Proxy)
	r.mu.Unlock()
	for _, p := range all {
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.Stop()
		}()
		select {
		case <-done:
		case <-time.After(stuckAfter): //realtime: the proxy has no other sign of it
		}
	}
}

// close cuts the connections and lets no more be made.
func (r *route) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cut()
}

// ping pings a server through a route, by a connection of its own, and returns how long that took.
func ping(r *route, server string) (time.Duration, error) {
	conn, err := r.dial(context.Background(), "tcp", server)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	return talk(conn)
}

func talk(conn net.Conn) (time.Duration, error) {
	began := time.Now()
	if err := conn.SetDeadline(began.Add(patience)); err != nil {
		return 0, err
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return 0, err
	}
	_, err := io.ReadFull(conn, make([]byte, len("+PONG\r\n")))
	return time.Since(began), err //realtime: what a proxy delays takes at least so long
}

func TestRouteDoesAsItIsPoisoned(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t).Addr
	r := newRoute()
	defer r.close()
	const while = 200 * time.Millisecond

	_, err := ping(r, server)
	require.NoError(t, err)

	const slices = time.Duration(len("+PONG\r\n")-1) * time.Millisecond // each byte but the first is late
	for _, c := range []struct {
		toxic toxic
		least time.Duration
	}{
		{downstream("latency", map[string]int{"latency": int(while.Milliseconds())}), while},
		{downstream("slicer", map[string]int{"average_size": 1, "delay": 1000}), slices},
	} {
		require.NoError(t, r.poison(c.toxic))
		took, err := ping(r, server)
		require.NoError(t, err, c.toxic.Type)
		require.GreaterOrEqual(t, took, c.least, c.toxic.Type)
		require.NoError(t, r.cure())
	}
	for _, x := range []toxic{
		downstream("reset_peer", map[string]int{"timeout": 0}),
		upstream("timeout", map[string]int{"timeout": int(while.Milliseconds())}),
		downstream("limit_data", map[string]int{"bytes": 3}),
	} {
		require.NoError(t, r.poison(x))
		_, err = ping(r, server)
		require.Error(t, err, x.Type)
		require.NoError(t, r.cure())
		_, err = ping(r, server)
		require.NoError(t, err, x.Type)
	}

	conn, err := r.dial(t.Context(), "tcp", server)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = talk(conn)
	require.NoError(t, err)
	r.cut()
	_, err = talk(conn)
	require.Error(t, err)
	_, err = ping(r, server)
	require.NoError(t, err)
	require.Zero(t, r.stuck)
}

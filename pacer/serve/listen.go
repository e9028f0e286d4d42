package serve

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bounds of clients' requests.
const (
	headersWithin = 10 * time.Second // from the first byte of a request, or of a connection
	idleFor       = 2 * time.Minute
	maxHeaders    = 64 << 10 // bytes, to which net/http adds 4 KiB
	maxStreams    = 1000     // requests at once on a connection of HTTP/2
	maxUnread     = 64 << 10 // bytes of bodies on such a connection that nothing reads yet
	defaultMost   = 20_000   // connections at once, of about 30 KB each
)

// minToken is the length of the shortest token: 128 bits in hexadecimal.
const minToken = 32

// An Endpoint is an address to listen at, and what protects it.
type Endpoint struct {
	// Address is host:port, or the path of a Unix socket, with a slash. Only the user that runs the process can connect to the socket.
	Address string
	// Token is what clients must send: "Headway-Authorization: Bearer TOKEN", or at the API "Authorization: Bearer TOKEN". Required beyond
	// loopback.
	Token string
	// CertFile and KeyFile are for TLS. Required beyond loopback, unless InsecurePlain is set.
	CertFile, KeyFile string
	// InsecurePlain accepts connections beyond loopback without TLS: anyone on the network can read the token and the requests.
	InsecurePlain bool
	// MaxConnections bounds the connections at once, and the requests on those of HTTP/2 with them. Further connections wait until one is
	// closed, without a cost to this process; further requests of HTTP/2 are refused. A connection without a request is closed after 2
	// minutes. Defaults to 20000.
	MaxConnections int

	_ struct{}
}

// A Listener accepts connections at an [Endpoint]. Make one with [Listen].
type Listener struct {
	net.Listener

	token    [sha256.Size]byte
	hasToken bool
	loopback bool        // of TCP
	tls      *tls.Config // nil: none
	socket   string      // the path of a Unix socket
	log      *slog.Logger
	open     chan struct{} // has an element for each connection, and each request of HTTP/2, and room for MaxConnections
	closed   chan struct{}
	once     sync.Once // closes closed
}

func newListener(on net.Listener, token string, most int) *Listener {
	if most == 0 {
		most = defaultMost
	}
	return &Listener{
		Listener: on, hasToken: token != "", token: sha256.Sum256([]byte(token)), open: make(chan struct{}, most), closed: make(chan struct{}),
	}
}

// Listen listens at an address. It returns a [*pacer.ConfigError] if the address can be reached from other machines and is not protected.
func Listen(ctx context.Context, e Endpoint) (*Listener, error) {
	plain := e.CertFile == "" && e.KeyFile == ""
	if e.MaxConnections < 0 {
		return nil, bad("MaxConnections", strconv.Itoa(e.MaxConnections), "must be at least 1")
	}
	l := newListener(nil, e.Token, e.MaxConnections)
	isSocket := strings.Contains(e.Address, "/")
	host, _, err := net.SplitHostPort(e.Address)
	if err != nil && !isSocket {
		return nil, bad("Address", strconv.Quote(e.Address), "is neither host:port nor the path of a Unix socket: write one such as 127.0.0.1:8712 or ./proxy.sock")
	}
	l.loopback = !isSocket && isLoopback(host)
	beyond := !isSocket && !l.loopback
	switch {
	case l.hasToken && len(e.Token) < minToken:
		return nil, bad("Token", "short", fmt.Sprintf("must have %d characters or more: make one with openssl rand -hex 32", minToken))
	case beyond && !l.hasToken:
		return nil, bad("Address", strconv.Quote(e.Address), "can be reached from other machines: set a token (--token-file), or listen on 127.0.0.1 or a Unix socket")
	case beyond && plain && !e.InsecurePlain:
		return nil, bad("Address", strconv.Quote(e.Address),
			"can be reached from other machines, so that TLS is needed: set --tls-cert and --tls-key, or --insecure-plain if the network is trusted")
	}
	if !plain {
		cert, err := tls.LoadX509KeyPair(e.CertFile, e.KeyFile)
		if err != nil {
			return nil, bad("CertFile", strconv.Quote(e.CertFile), "cannot be used with its key: "+err.Error())
		}
		l.tls = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}
	}
	if isSocket {
		l.socket = e.Address
		l.Listener, err = listenAt(ctx, e.Address)
	} else {
		l.Listener, err = new(net.ListenConfig).Listen(ctx, "tcp", e.Address)
	}
	if err != nil {
		return nil, fmt.Errorf("serve: cannot listen at %s, so choose another address (--listen or --api): %w", e.Address, err)
	}
	return l, nil
}

// listenAt listens at a Unix socket that only this user can use. It is made in a folder that only this user can enter, and then moved, so
// that nobody else can connect before its mode is set.
func listenAt(ctx context.Context, path string) (net.Listener, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != os.ModeSocket:
		return nil, errors.New("there is a file that is no socket")
	default:
		if c, err := new(net.Dialer).DialContext(ctx, "unix", path); err == nil {
			return nil, errors.Join(errors.New("another process listens there"), c.Close())
		}
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s") // short: the path of a socket has about 100 bytes
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	private := filepath.Join(dir, "s")
	n, err := new(net.ListenConfig).Listen(ctx, "unix", private)
	if err != nil {
		return nil, err
	}
	if u, ok := n.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // it will have another path
	}
	const onlyUser = 0o600
	if err = os.Chmod(private, onlyUser); err == nil {
		err = os.Rename(private, path)
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Accept implements [net.Listener]. The connections are for the server of [Server.Run].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case l.open <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.open
		if l.log != nil && !errors.Is(err, net.ErrClosed) {
			l.log.Error("headway serve: a connection cannot be accepted", "error", err)
		}
		return nil, err
	}
	if l.tls == nil {
		return &conn{Conn: c, of: l}, nil
	}
	_ = c.SetWriteDeadline(time.Now().Add(headersWithin)) // for the handshake, which is part of the first Read
	return &conn{Conn: tls.Server(c, l.tls), of: l, isTLS: true}, nil
}

// Close stops listening, and removes a socket.
func (l *Listener) Close() (err error) {
	l.once.Do(func() {
		close(l.closed)
		if l.socket != "" { // while it listens: later, the path may be that of another process
			err = os.Remove(l.socket)
		}
	})
	return errors.Join(err, l.Listener.Close())
}

// isLoopback reports whether a host can only be this machine.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// server returns a server for a handler.
func (l *Listener) server(h http.Handler, isAPI bool, log *slog.Logger) *http.Server {
	l.log = log
	s := &http.Server{
		Handler: l.guard(h, isAPI, log), ReadHeaderTimeout: headersWithin, IdleTimeout: idleFor, MaxHeaderBytes: maxHeaders,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), Protocols: new(http.Protocols),
		ConnState: upgraded,
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerConnection: maxUnread, MaxReceiveBufferPerStream: maxUnread},
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(l.loopback || l.socket != "" || l.tls != nil) // a conn is not known to be of TLS
	return s
}

// guard bounds slow clients, logs panics, and refuses requests without the token, and those that a web page makes in a browser of this machine.
func (l *Listener) guard(h http.Handler, isAPI bool, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := newClient(w, r)
		defer func() {
			c.end()
			if bug := recover(); bug != nil {
				if bug != http.ErrAbortHandler { //nolint:errorlint // it is this value
					log.Error("headway serve: a bug", "error", bug, "stack", string(debug.Stack()))
				}
				panic(http.ErrAbortHandler)
			}
		}()
		if r.ProtoMajor > 1 {
			select {
			case l.open <- struct{}{}:
				defer func() { <-l.open }()
			default:
				refuse(c, http.StatusServiceUnavailable, "too many requests are under way at once")
				return
			}
		}
		switch {
		case isAPI && (r.URL.Path == healthPath || r.URL.Path == readyPath):
		case l.hasToken && !l.hasSent(r, isAPI):
			refuse(c, http.StatusUnauthorized, "the token is missing or wrong: send it as "+headerToken+": Bearer TOKEN")
			return
		case !l.hasToken && (l.loopback && !isLoopback((&url.URL{Host: r.Host}).Hostname()) || isForeignPage(r)):
			refuse(c, http.StatusForbidden, "a web page of another origin must not use this server")
			return
		}
		h.ServeHTTP(c, r)
	})
}

// refuse answers a request that does not reach the proxy or the API.
func refuse(w http.ResponseWriter, status int, detail string) {
	p := problemOf(&requestError{status, detail}, 0)
	p.answer(w)
}

// hasSent reports whether a request has the token.
func (l *Listener) hasSent(r *http.Request, isAPI bool) bool {
	value := r.Header.Get(headerToken)
	if value == "" && isAPI {
		value = r.Header.Get("Authorization")
	}
	token, isBearer := strings.CutPrefix(value, "Bearer ")
	sum := sha256.Sum256([]byte(token))
	return isBearer && subtle.ConstantTimeCompare(sum[:], l.token[:]) == 1
}

// isForeignPage reports whether a page of another origin makes the request. A GET has an effect, too: it spends what limits allow.
func isForeignPage(r *http.Request) bool {
	write := &http.Request{Method: http.MethodPost, Header: r.Header, Host: r.Host}
	return new(http.CrossOriginProtection).Check(write) != nil
}

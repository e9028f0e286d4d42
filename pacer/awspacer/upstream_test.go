package awspacer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/transport/upstreamtest"
)

const (
	accessKey = "AKIDEXAMPLE"
	secret    = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	// fresh is for how long AWS accepts a signature in most cases: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html
	fresh = 5 * time.Minute
)

// upstream is a strict stand-in for AWS: it accepts a request whose signature is right and at most five minutes old, by its own clock,
// with credentials that are no older, and if there were not too many requests within a second.
type upstream struct {
	ahead  time.Duration                                       // of its clock
	strict upstreamtest.Upstream                               // whose limits it has
	answer func(n int, w http.ResponseWriter, r *http.Request) // of request n, from 0; nil for an empty object

	mu    sync.Mutex
	came  int      // those accepted
	codes []string // of the refusals
	ops   []string // X-Amz-Target, or method and path
}

func (u *upstream) now() time.Time { return time.Now().Add(u.ahead) }

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	payload, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has left before it had sent all
	}
	now := u.now()
	w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
	u.mu.Lock()
	n := u.came + len(u.codes)
	u.ops = append(u.ops, operation(r))
	code := ""
	switch {
	case r.Header.Get("Authorization") == "" || !signed(r, payload):
		code = "SignatureDoesNotMatch"
	case age(r.Header.Get("X-Amz-Date"), now).Abs() > fresh:
		code = "RequestTimeTooSkewed"
	case age(r.Header.Get("X-Amz-Security-Token"), now.Add(-u.ahead)) > fresh:
		code = "ExpiredToken"
	case !u.strict.Spend(r):
		code = "ThrottlingException"
	}
	if code != "" {
		u.codes = append(u.codes, code)
	} else {
		u.came++
	}
	u.mu.Unlock()
	switch {
	case code != "":
		fail(w, r, http.StatusBadRequest, code)
	case u.answer != nil:
		u.answer(n, w, r)
	default:
		_, _ = io.WriteString(w, "{}")
	}
}

// refused returns the codes of the refusals, and how many requests were accepted.
func (u *upstream) seen() (codes []string, accepted int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.codes, u.came
}

// operation names the operation of a request.
func operation(r *http.Request) string {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		return target
	}
	return r.Method + " " + r.URL.Path
}

// fail answers with an error, as the protocol of the request has it.
func fail(w http.ResponseWriter, r *http.Request, status int, code string) {
	if r.Header.Get("X-Amz-Target") == "" {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code><Message>no</Message></Error>")
		return
	}
	w.Header().Set("X-Amzn-Errortype", code)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"__type":"`+code+`","message":"no"}`)
}

const stamp = "20060102T150405Z"

// age returns how old a time stamp is; 0 without one.
func age(s string, now time.Time) time.Duration {
	at, err := time.Parse(stamp, s)
	if err != nil {
		return 0
	}
	return now.Sub(at)
}

var authorization = regexp.MustCompile(`Credential=` + accessKey + `/\d+/([^/]+)/([^/]+)/aws4_request, SignedHeaders=([^,]+), `)

// signed reports whether a request has the signature that its date, its headers and its payload call for.
func signed(r *http.Request, payload []byte) bool {
	parts := authorization.FindStringSubmatch(r.Header.Get("Authorization"))
	at, err := time.Parse(stamp, r.Header.Get("X-Amz-Date"))
	if parts == nil || err != nil {
		return false
	}
	again, _ := http.NewRequestWithContext(r.Context(), r.Method, "http://"+r.Host+r.URL.RequestURI(), bytes.NewReader(payload))
	again.ContentLength = 0 // a header as the others are
	for name := range strings.SplitSeq(parts[3], ";") {
		switch name {
		case "host":
		case "content-length":
			again.ContentLength = r.ContentLength
		default:
			again.Header[http.CanonicalHeaderKey(name)] = r.Header.Values(name)
		}
	}
	hash := r.Header.Get("X-Amz-Content-Sha256")
	if hash == "" {
		sum := sha256.Sum256(payload)
		hash = hex.EncodeToString(sum[:])
	}
	creds := aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secret, SessionToken: r.Header.Get("X-Amz-Security-Token")}
	err = v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = parts[2] == "s3" }).
		SignHTTP(r.Context(), creds, again, hash, parts[2], parts[1], at)
	return err == nil && again.Header.Get("Authorization") == r.Header.Get("Authorization")
}

// credentials are made when they are retrieved: their token has the time.
var credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secret, SessionToken: time.Now().UTC().Format(stamp)}, nil
})

// pipes is a listener for connections within the process, which a test in virtual time can wait for.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (*pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (l *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serve starts an upstream, and returns a transport that reaches it at any address.
func serve(t *testing.T, u *upstream) *http.Transport {
	t.Helper()
	l := newPipes()
	server := &http.Server{Handler: u, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	tr := &http.Transport{DialContext: l.dial}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	return tr
}

// config returns what clients need that reach an upstream.
func config(rt http.RoundTripper) aws.Config {
	return aws.Config{
		Region: "eu-central-1", Credentials: credentials, BaseEndpoint: aws.String("http://aws.test"), HTTPClient: &http.Client{Transport: rt},
	}
}

package serve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"

	"github.com/headway-go/headway/pacer"
)

// repeatable is the length of the longest request body that is kept so that the request can be repeated. Longer bodies, and those of
// unknown length, are streamed, and such a request gets one attempt.
const repeatable = 64 << 10

// A target is where a request goes.
type target struct {
	call

	to     *url.URL // with path and query
	base   *url.URL
	prefix string // of paths on this server
}

// targetKey is the key by which a request's context carries its target.
type targetKey struct{}

// targetOf returns the target of a request that is forwarded.
func targetOf(r *http.Request) *target {
	t, _ := r.Context().Value(targetKey{}).(*target)
	return t
}

// callOptions returns the client's options of a request that is forwarded.
func callOptions(r *http.Request) []pacer.Option { return targetOf(r).options() }

// Proxy returns the handler that forwards requests. Serve it by a [Listener], which bounds what clients may do.
func (s *Server) Proxy() http.Handler {
	return s.counted("proxy", func(c *client, r *http.Request) string {
		u, prefix, path, err := s.route(r)
		if err != nil {
			s.fail(c, "", err)
			return ""
		}
		t, err := u.target(r, prefix, path)
		if err == nil {
			err = keepBody(r)
		}
		if err != nil {
			s.fail(c, u.name, err)
			return u.name
		}
		if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			r.Header.Del("Upgrade") // requests over h2c would pass without a slot
		}
		if r.GetBody == nil && r.ContentLength != 0 && r.ProtoMajor == 1 {
			c.isDuplex = c.control.EnableFullDuplex() == nil // a reply may begin before the end of the body
		}
		*r = *r.WithContext(context.WithValue(r.Context(), targetKey{}, t)) // in place: thousands may wait
		u.proxy.ServeHTTP(c, r)
		return u.name
	})
}

// route returns the upstream of a request, the prefix that names it, and the rest of the path, escaped.
func (s *Server) route(r *http.Request) (u *upstream, prefix, path string, err error) {
	path = r.URL.EscapedPath()
	if r.Method == http.MethodConnect || r.URL.Host != "" || !strings.HasPrefix(path, "/") {
		return nil, "", "", refusef(http.StatusBadRequest, "this is not a forward proxy: use it as the base URL of a client, with a path such as /<upstream>/path")
	}
	if strings.Contains(r.URL.RawQuery, " ") { // HTTP/2 lets it pass; over HTTP/1.1 it would break the request line
		return nil, "", "", refusef(http.StatusBadRequest, "the query must not have a space: write it as %%20")
	}
	plain, err := url.PathUnescape(path)
	if err != nil || slices.ContainsFunc(strings.FieldsFunc(plain, isSlash), isDots) {
		return nil, "", "", refusef(http.StatusBadRequest, "the path must not have the elements . and ..")
	}
	if s.root != nil {
		return s.root, "", path, nil
	}
	name, rest, _ := strings.Cut(path[1:], "/")
	if u, err = s.named(name); err != nil {
		return nil, "", "", err
	}
	if u.base == nil && !slices.ContainsFunc(u.hosts, isWildcard) {
		return nil, "", "", refusef(http.StatusNotFound, "upstream %q has no address: give it a url or hosts in the file, without * if it has a credential, or use the API", name)
	}
	return u, "/" + name, "/" + rest, nil
}

// isSlash reports whether some server takes a character for one that separates the elements of a path.
func isSlash(r rune) bool { return r == '/' || r == '\\' }

// isDots reports whether some server takes an element for one that leads elsewhere: parameters of an element come behind a semicolon.
func isDots(element string) bool {
	element, _, _ = strings.Cut(element, ";")
	return element == "." || element == ".."
}

// target returns where a request goes.
func (u *upstream) target(r *http.Request, prefix, path string) (*target, error) {
	c, err := readCall(r.Header)
	if err != nil {
		return nil, err
	}
	t := &target{call: *c, base: u.base, prefix: prefix}
	if values := r.Header.Values(headerHost); len(values) > 0 {
		host, err := one(headerHost, values)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(u.hosts, func(pattern string) bool { return matches(pattern, host) }) {
			return nil, refusef(http.StatusForbidden, "%s names no host of upstream %q: it has %s", headerHost, u.name,
				cmp.Or(strings.Join(u.hosts, ", "), "none, so leave the field out"))
		}
		t.base = &url.URL{Scheme: "https", Host: strings.ToLower(host)}
	}
	if t.base == nil {
		return nil, refusef(http.StatusBadRequest, "upstream %q has no single address: set %s to one of its hosts, %s", u.name, headerHost, strings.Join(u.hosts, ", "))
	}
	to := *t.base
	to.RawPath = strings.TrimSuffix(t.base.EscapedPath(), "/") + path
	if to.Path, err = url.PathUnescape(to.RawPath); err != nil {
		return nil, refusef(http.StatusBadRequest, "the path is not escaped as in a URL")
	}
	to.RawQuery = r.URL.RawQuery
	t.to = &to
	return t, nil
}

// isWildcard reports whether a pattern stands for all names below a domain.
func isWildcard(pattern string) bool { return strings.HasPrefix(pattern, "*.") }

// matches reports whether a host is one of a pattern: see [transport.WithHost].
func matches(pattern, host string) bool {
	pattern, host = strings.ToLower(pattern), strings.ToLower(host)
	if below, found := strings.CutPrefix(pattern, "*"); found {
		name, ok := strings.CutSuffix(host, below)
		return ok && name != "" && !strings.ContainsFunc(name, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.'
		})
	}
	return pattern == host
}

// errBody is the error of a request whose body ends too early, or does not go on.
var errBody = refusef(http.StatusRequestTimeout, "the body did not arrive in full, or too slowly")

// keepBody reads a short body, so that the request can be repeated and does not take a slot before it is there.
func keepBody(r *http.Request) error {
	if r.ContentLength <= 0 || r.ContentLength > repeatable {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return errBody
	}
	r.Header.Del("Expect") // it is here
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	return nil
}

// newProxy returns the proxy of an upstream, whose requests rt paces and sends.
func (s *Server) newProxy(u *upstream, rt http.RoundTripper) http.Handler {
	return &httputil.ReverseProxy{
		Transport: rt,
		ErrorLog:  slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL, r.Out.Host = targetOf(r.In).to, ""
			for _, fields := range []http.Header{r.Out.Header, r.Out.Trailer} {
				maps.DeleteFunc(fields, func(name string, _ []string) bool { return strings.HasPrefix(name, headerPrefix) })
			}
			if r.Out.Body == nil {
				r.Out.Trailer = nil // over HTTP/2, net/http would never end the request
			} else if len(r.Out.Trailer) > 0 {
				r.Out.Body, r.Out.ContentLength = &trailed{r.Out.Body, r}, -1 // HTTP/1.1 has trailers behind chunks only
			}
		},
		ModifyResponse: func(resp *http.Response) error {
			targetOf(resp.Request).relocate(resp)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if c, ok := w.(*client); ok && c.broken.Load() {
				w.Header().Set("Connection", "close") // where the next request would begin is not known
				err = errBody
			} else if r.Context().Err() != nil {
				panic(http.ErrAbortHandler) // the client is gone
			}
			if p := problemOf(err, 0); p.Reason == ReasonUpstream || p.Reason == ReasonStore {
				s.log.Warn("headway serve: a request failed", "upstream", u.name, "method", r.Method, "error", err)
			}
			s.fail(w, u.name, err)
		},
	}
}

// relocate rewrites a redirect within the upstream to lead through the proxy again. The proxy follows no redirect.
func (t *target) relocate(resp *http.Response) {
	to, err := resp.Location()
	if err != nil || to.Scheme != t.base.Scheme || to.Host != t.base.Host || to.User != nil {
		return
	}
	base := strings.TrimSuffix(t.base.EscapedPath(), "/")
	path, below := strings.CutPrefix(to.EscapedPath(), base)
	if !below || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") {
		return
	}
	to.RawPath = t.prefix + path
	if to.Path, err = url.PathUnescape(to.RawPath); err == nil {
		to.Scheme, to.Host = "", ""
		resp.Header.Set("Location", to.String())
	}
}

// trailed is a body with trailers, whose values arrive with its end.
type trailed struct {
	io.ReadCloser

	of *httputil.ProxyRequest
}

// Read implements [io.Reader].
func (b *trailed) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		for name := range b.of.Out.Trailer { // those that were announced
			b.of.Out.Trailer[name] = b.of.In.Trailer[name]
		}
	}
	return n, err
}

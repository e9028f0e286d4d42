package serve

import (
	"context"
	_ "embed" // the document
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
)

// maxJSON bounds the body of a request to the API.
const maxJSON = 256 << 10

// openAPI describes the API. A test holds it against the handlers.
//
//go:embed openapi.json
var openAPI []byte

// Done is the answer to requests that have nothing to return.
type Done struct{}

// API returns the handler of the API. Serve it by a [Listener], which bounds what clients may do.
func (s *Server) API() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/acquire", handle(s, s.acquire))
	mux.Handle("POST /v1/release", handle(s, s.release))
	mux.Handle("POST /v1/settle", handle(s, s.settle))
	mux.Handle("POST /v1/report", handle(s, s.report))
	mux.Handle("GET /v1/status", s.counted("api", s.status))
	mux.HandleFunc("GET /v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(openAPI)
	})
	mux.Handle("GET /metrics", s.metrics.handler())
	mux.Handle("/page/", http.StripPrefix("/page", s.page))
	mux.HandleFunc("GET "+healthPath, func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET "+readyPath, func(w http.ResponseWriter, _ *http.Request) {
		if !s.ready.Load() || s.draining.Load() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern == "" {
			w = unrouted{w}
		}
		mux.ServeHTTP(w, r)
	})
}

// unrouted is the reply to a request for which the mux has no handler.
type unrouted struct{ http.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (u unrouted) WriteHeader(status int) {
	refuse(u.ResponseWriter, status, "the API has no such path, or not with this method: see /v1/openapi.json")
}

// Write implements [http.ResponseWriter]. The mux has a text of its own.
func (unrouted) Write(p []byte) (int, error) { return len(p), nil }

// Paths that need no token.
const (
	healthPath = "/healthz"
	readyPath  = "/readyz"
)

// handle returns a handler that reads and writes JSON. do also returns the upstream of the request.
func handle[In, Out any](s *Server, do func(context.Context, *In) (string, Out, error)) http.Handler {
	return s.counted("api", func(c *client, r *http.Request) string {
		var in In
		if err := readJSON(c, r, &in); err != nil {
			s.fail(c, "", err)
			return ""
		}
		upstream, out, err := do(r.Context(), &in)
		switch {
		case r.Context().Err() != nil:
			panic(http.ErrAbortHandler) // the client is gone
		case err != nil:
			s.fail(c, upstream, err)
		default:
			writeJSON(c, out)
		}
		return upstream
	})
}

// readJSON reads the body of a request. A browser sends no JSON to another origin without a preflight request.
func readJSON(w http.ResponseWriter, r *http.Request, in any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return refusef(http.StatusUnsupportedMediaType, "the Content-Type must be application/json")
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxJSON))
	d.DisallowUnknownFields()
	err := d.Decode(in)
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return refusef(http.StatusRequestEntityTooLarge, "the body is longer than %d bytes", maxJSON)
	}
	if err != nil {
		return refusef(http.StatusBadRequest, "the body is not what /v1/openapi.json describes: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return refusef(http.StatusBadRequest, "the body has more than one JSON value")
	}
	return nil
}

func writeJSON(w http.ResponseWriter, out any) {
	body, _ := json.Marshal(out) //nolint:errchkjson // what is written always can be
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // or the client is gone
}

// A Status is the answer to GET /v1/status: each upstream as docs/command.md describes the JSON of headway status.
type Status struct {
	Upstreams []*fleet.Snapshot `json:"upstreams"`
}

// status answers how upstreams stand: all of them, or the one and the scopes that the query names.
func (s *Server) status(c *client, r *http.Request) string {
	query := r.URL.Query()
	names, name := s.names(), query.Get("upstream")
	if name != "" {
		names = []string{name}
	}
	var opts []pacer.ScopeOption
	if values := query["scope"]; len(values) > 0 {
		scopes, err := readScopes(values)
		if err != nil {
			s.fail(c, "", refusef(http.StatusBadRequest, "scope must be such as tenant=acme"))
			return ""
		}
		opts = scopeOptions(scopes)
	}
	all := Status{Upstreams: []*fleet.Snapshot{}}
	for _, one := range names {
		u, err := s.named(one)
		if err != nil {
			s.fail(c, "", err)
			return ""
		}
		snapshot, err := u.operator.Snapshot(r.Context(), opts...)
		if err != nil {
			s.fail(c, one, err)
			return one
		}
		all.Upstreams = append(all.Upstreams, snapshot)
	}
	writeJSON(c, all)
	return name
}

package server_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/page/internal/server"
)

// A name that somebody else has pointed at the page is refused, for every request.
func TestHostsAreThoseThatThePageIsFor(t *testing.T) {
	t.Parallel()
	always := []string{
		"localhost", "localhost:8711", "LocalHost.", "headway.localhost:80", "127.0.0.1", "127.8.9.10:8711", "[::1]", "[::1]:80", "[::ffff:127.0.0.1]",
	}
	never := []string{
		"", "evil.example", "evil.example:8711", "localhost.evil.example", "evil-localhost", "10.0.0.7", "[fe80::1]:80", "0.0.0.0", "127.0.0.1.evil.example", "[::1",
	}
	for name, c := range map[string]struct {
		hosts   []string
		yes, no []string
	}{
		"by default": {nil, always, never},
		"named":      {[]string{"Ops.example.", "10.0.0.9", "2001:db8::7"}, append([]string{"ops.example", "OPS.EXAMPLE.:443", "10.0.0.9:80", "[2001:db8::7]:80"}, always...), never},
		"every":      {[]string{"*"}, append([]string{"evil.example"}, always...), nil},
	} {
		h := server.New(server.Config{Sources: []server.Source{newFake("zendesk")}, Intervene: true, Hosts: c.hosts})
		ask := func(method, target, host string) *httptest.ResponseRecorder {
			w, r := httptest.NewRecorder(), httptest.NewRequest(method, target, nil)
			r.Host = host
			h.ServeHTTP(w, r)
			return w
		}
		for _, host := range c.yes {
			require.Equal(t, http.StatusOK, ask(http.MethodGet, "/fleet.json", host).Code, "%s: %s", name, host)
		}
		for _, host := range c.no {
			for _, target := range []string{"/", "/app.js", "/fleet.json", "/events", "/act", "/nowhere"} {
				for _, method := range []string{http.MethodGet, http.MethodPost} {
					w := ask(method, target, host)
					require.Equal(t, http.StatusMisdirectedRequest, w.Code, "%s: %s %s%s", name, method, host, target)
					require.Contains(t, w.Body.String(), "name it in page.Config.Hosts", host)
				}
			}
		}
		h.Close()
	}
}

package recipes_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hosts are those that the stand-in answers for.
var hosts = []string{
	"api.anthropic.com", "api.github.com", "api.openai.com", "api.stripe.com", "slack.com", "acme.zendesk.com", "acme.my.salesforce.com",
}

// callsVendors reports whether the code reaches a vendor.
func (p *pasted) callsVendors() bool {
	return strings.Contains(p.code, "transport.NewClient")
}

// serve starts a proxy that answers for all vendors, and returns the variables by which programs find and trust it.
func serve(t *testing.T) []string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: hosts, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	trusted := filepath.Join(t.TempDir(), "trusted.pem")
	require.NoError(t, os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))

	vendors := httptest.NewUnstartedServer(answers())
	vendors.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	vendors.StartTLS()
	t.Cleanup(vendors.Close)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		to, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", vendors.Listener.Addr().String())
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer to.Close()
		from, read, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer from.Close()
		_, _ = io.WriteString(from, "HTTP/1.1 200 Connected\r\n\r\n")
		go func() {
			_, _ = io.Copy(to, read)
			_ = to.Close()
		}()
		_, _ = io.Copy(from, to)
	}))
	t.Cleanup(proxy.Close)
	return []string{
		"HTTPS_PROXY=" + proxy.URL, "NO_PROXY=", "SSL_CERT_FILE=" + trusted, "OPENAI_API_KEY=key", "GITHUB_TOKEN=token",
	}
}

// answers are the vendors' answers: one object of each kind that the recipes request.
func answers() http.Handler {
	mux := http.NewServeMux()
	say := func(pattern, answer string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, answer)
		})
	}
	say("api.stripe.com/v1/customers/cus_1", `{"id":"cus_1","object":"customer"}`)
	say("slack.com/api/chat.postMessage", `{"ok":true,"channel":"C1","ts":"1.2"}`)
	say("acme.zendesk.com/api/v2/tickets/7.json", `{"ticket":{"id":7,"subject":"printer"}}`)
	say("acme.my.salesforce.com/", `{"totalSize":1,"done":true,"records":[{"Id":"1","Name":"Acme"}]}`)
	say("api.anthropic.com/v1/messages", `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hello"}],`+
		`"stop_reason":"end_turn","usage":{"input_tokens":11,"output_tokens":4}}`)
	say("api.openai.com/v1/chat/completions", `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop",`+
		`"message":{"role":"assistant","content":"hello"}}],"usage":{"prompt_tokens":11,"completion_tokens":4,"total_tokens":15}}`)
	say("api.github.com/users/headway", `{"login":"headway"}`)
	var refused sync.Once
	mux.HandleFunc("api.github.com/repos/headway-go/headway/issues", func(w http.ResponseWriter, r *http.Request) {
		refuses := false
		refused.Do(func() { refuses = true })
		switch {
		case r.Header.Get("Authorization") != "Bearer token":
			w.WriteHeader(http.StatusUnauthorized)
		case refuses:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"message":"You have exceeded a secondary rate limit."}`)
		case r.FormValue("page") == "":
			w.Header().Set("Link", `<https://api.github.com/repos/headway-go/headway/issues?page=2>; rel="next"`)
			fmt.Fprint(w, `[{"title":"one"}]`)
		default:
			fmt.Fprint(w, `[{"title":"two"}]`)
		}
	})
	return mux
}

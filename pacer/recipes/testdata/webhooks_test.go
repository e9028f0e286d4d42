package webhooks

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// The deliveries of one sender are refused beyond its limit, and those of another are not.
func TestDeliveries(t *testing.T) {
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	handled := 0
	limited, err := Limit(p, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled++ }), func(r *http.Request) string { return r.Header.Get("Sender") })
	if err != nil {
		t.Fatal(err)
	}
	deliver := func(sender string) *http.Response {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hooks", http.NoBody)
		r.Header.Set("Sender", sender)
		w := httptest.NewRecorder()
		limited.ServeHTTP(w, r)
		return w.Result()
	}
	for range 100 {
		if resp := deliver("acme"); resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
	}
	resp := deliver("acme")
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" || resp.Header.Get("RateLimit") == "" || resp.Header.Get("RateLimit-Policy") == "" {
		t.Error(resp.Status, resp.Header)
	}
	if resp := deliver("globex"); resp.StatusCode != http.StatusOK || handled != 101 {
		t.Error(resp.Status, handled)
	}
}

package fields

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// Credential returns what tells the credentials of requests apart without giving them away: the [Fingerprint] of the
// Authorization field; "" if there is none.
func Credential(h http.Header) string { return Fingerprint(h.Get("Authorization")) }

// Fingerprint returns the first 16 hex digits of the SHA-256 of a secret; "" for none.
func Fingerprint(secret string) string {
	if secret == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:8])
}

// Caller returns what tells apart who makes requests: the [Credential], or the host if there is none.
func Caller(r *http.Request) string {
	if c := Credential(r.Header); c != "" {
		return c
	}
	return strings.ToLower(r.URL.Hostname())
}

package fields

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
)

// Credential returns a text that identifies the credential of a request without disclosing it: the [Fingerprint] of the Authorization
// field, or "" if there is none. A password may be short enough to be found by trying many. So for Basic credentials, it is the fingerprint
// of the user name and of a key that is derived from the password, with the user name in its salt.
func Credential(h http.Header) string {
	auth := h.Get("Authorization")
	user, password, ok := (&http.Request{Header: h}).BasicAuth()
	if !ok {
		return Fingerprint(auth)
	}
	return derived(auth, user, password)
}

const (
	// rounds is how often a password is hashed. That takes about 2 ms, so trying many passwords takes long.
	rounds = 10_000
	// maxDerived is how many derived keys are kept.
	maxDerived = 4096
)

// keys holds the derived keys by the hash of their credentials, so that none is computed for each request.
var keys = struct { //nolint:gochecknoglobals // a cache of a pure function
	sync.Mutex
	m map[[sha256.Size]byte]string
}{m: make(map[[sha256.Size]byte]string)}

// derived returns the fingerprint of Basic credentials, from a key that is derived from them.
func derived(auth, user, password string) string {
	id := sha256.Sum256([]byte(auth))
	keys.Lock()
	known, ok := keys.m[id]
	keys.Unlock()
	if ok {
		return known
	}
	// FIPS 140 requires a salt of 16 bytes.
	key, err := pbkdf2.Key(sha256.New, password, []byte("headway, Basic credentials\n"+user), rounds, sha256.Size)
	if err != nil { // of parameters that break that standard, which these do not
		return Fingerprint(user)
	}
	known = Fingerprint(user + "\n" + string(key))
	keys.Lock()
	defer keys.Unlock()
	if len(keys.m) >= maxDerived {
		clear(keys.m)
	}
	keys.m[id] = known
	return known
}

// Fingerprint returns the first 16 hex digits of the SHA-256 of a secret; "" for an empty one.
func Fingerprint(secret string) string {
	if secret == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:8])
}

// Caller returns a text that identifies who makes a request: its [Credential], or the host if it has none.
func Caller(r *http.Request) string {
	if c := Credential(r.Header); c != "" {
		return c
	}
	return strings.ToLower(r.URL.Hostname())
}

package fields

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
)

// Credential returns what tells the credentials of requests apart without giving them away: the [Fingerprint] of the
// Authorization field; "" if there is none. Of Basic credentials, it is the fingerprint of a key that is derived from the password
// with the user name as its salt: a password may be short enough to be found by trying many.
func Credential(h http.Header) string {
	auth := h.Get("Authorization")
	user, password, ok := (&http.Request{Header: h}).BasicAuth()
	if !ok {
		return Fingerprint(auth)
	}
	return derived(auth, user, password)
}

const (
	// rounds is how often a password is hashed, about 2 ms, so that trying many takes long.
	rounds = 10_000
	// maxDerived bounds how many derived keys are kept.
	maxDerived = 4096
)

// keys has the derived keys by the hash of their credentials: each is computed once.
var keys = struct { //nolint:gochecknoglobals // a cache of a pure function
	sync.Mutex
	m map[[sha256.Size]byte]string
}{m: make(map[[sha256.Size]byte]string)}

// derived returns a key that is derived from Basic credentials.
func derived(auth, user, password string) string {
	id := sha256.Sum256([]byte(auth))
	keys.Lock()
	known, ok := keys.m[id]
	keys.Unlock()
	if ok {
		return known
	}
	key, err := pbkdf2.Key(sha256.New, password, []byte("headway\n"+user), rounds, sha256.Size)
	if err != nil { // of parameters that are no standard's, which these are not
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

package store

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// MaxScope is the longest escaped scope value that is used unchanged. The hash of a longer one replaces it.
const MaxScope = 128

// EscapeScope joins the values of a policy's scopes into one string that is safe as a part of a store's key. Different values give
// different strings. Letters, digits and -._~@+= stay; any other byte becomes %XX; ':' joins the values. '#' and a SHA-256 in hex replace a
// result of more than 128 bytes. So no value from outside (braces, control characters, NUL, a megabyte) can reach another policy's key,
// move a key to another hash slot, or make one long.
func EscapeScope(values ...string) string {
	if len(values) == 1 && len(values[0]) <= MaxScope && plain(values[0]) {
		return values[0]
	}
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteByte(':')
		}
		for j := range len(v) {
			if c := v[j]; safe(c) {
				b.WriteByte(c)
			} else {
				const hexDigits = "0123456789ABCDEF"
				b.WriteByte('%')
				b.WriteByte(hexDigits[c>>4])
				b.WriteByte(hexDigits[c&15])
			}
		}
	}
	if s := b.String(); len(s) <= MaxScope {
		return s
	}
	sum := sha256.Sum256([]byte(b.String()))
	return "#" + hex.EncodeToString(sum[:])
}

// IsEscaped reports whether EscapeScope can return s.
func IsEscaped(s string) bool {
	if len(s) > MaxScope {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !safe(c) && c != '%' && c != ':' && c != '#' {
			return false
		}
	}
	return s != ""
}

func plain(s string) bool {
	for i := range len(s) {
		if !safe(s[i]) {
			return false
		}
	}
	return true
}

func safe(c byte) bool {
	switch c {
	case '-', '.', '_', '~', '@', '+', '=':
		return true
	}
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// ValidUpstream reports whether s can name an upstream: it starts with a letter or digit, and has at most 100 letters, digits, '.', '_' or
// '-'.
func ValidUpstream(s string) bool { return upstreamGrammar.MatchString(s) }

var upstreamGrammar = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

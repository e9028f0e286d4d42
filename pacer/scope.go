package pacer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxScope is the longest escaped scope value that is used as it is. A longer one is replaced by its hash.
const maxScope = 128

// EscapeScope turns the values of a policy's scopes into one string that is safe as a part of a store's key.
// Different values give different strings. Letters, digits and -._~@+= stay; any other byte becomes %XX;
// values are joined by ':'. A result of more than 128 bytes is replaced by '#' and the SHA-256 of it in hex.
// So a value that comes from outside (braces, control characters, NUL, a megabyte) can neither reach another
// policy's key, nor move a key to another hash slot, nor grow one.
func EscapeScope(values ...string) string {
	if len(values) == 1 && len(values[0]) <= maxScope && plain(values[0]) {
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
	if s := b.String(); len(s) <= maxScope {
		return s
	}
	sum := sha256.Sum256([]byte(b.String()))
	return "#" + hex.EncodeToString(sum[:])
}

// scopeValues returns the values that a scope such as `tenant=acme user=7` stands for, by name; nil if they cannot be had back,
// because one was too long, and is shortened or hashed, or is not text.
func scopeValues(names []string, scope string) map[string]string {
	parts := strings.Split(scope, " ")
	if len(names) == 0 || len(parts) != len(names) {
		return nil
	}
	values := make(map[string]string)
	for i, name := range names {
		escaped, ok := strings.CutPrefix(parts[i], name+"=")
		if !ok || strings.HasPrefix(escaped, "#") || strings.HasSuffix(escaped, "…") {
			return nil
		}
		v, err := url.PathUnescape(escaped)
		if err != nil || v == "" || !utf8.ValidString(v) {
			return nil
		}
		values[name] = v
	}
	return values
}

// isEscaped reports whether s can be what EscapeScope returned.
func isEscaped(s string) bool {
	if len(s) > maxScope {
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

// scopeContext is a context that carries a value for a scope.
type scopeContext struct {
	context.Context //nolint:containedctx // it is one

	name, value string
	outer       *scopeContext // the next one that the context descends from; nil if there is none
}

type scopeKey struct{}

// Value implements [context.Context].
func (c *scopeContext) Value(key any) any {
	if key == (scopeKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// scopesOf returns the innermost scope that a context carries; nil if there is none.
func scopesOf(ctx context.Context) *scopeContext {
	if c, ok := ctx.(*scopeContext); ok {
		return c
	}
	c, _ := ctx.Value(scopeKey{}).(*scopeContext)
	return c
}

// WithScope returns a context whose calls carry a value for a scope: the tenant, the user, the endpoint. It
// holds for every policy that is Per that scope. The innermost value of a name counts, and [Scope] overrides
// it. An empty value means that the call does not carry the scope.
func WithScope(ctx context.Context, name, value string) context.Context {
	return &scopeContext{ctx, name, value, scopesOf(ctx)}
}

// laneScope is the scope by which a call carries its lane. No policy can have it.
const laneScope = "/lane"

// WithLane returns a context whose calls are in a lane: they make do with the part of each policy that policies.Policy.Lane
// leaves to it. A policy that does not name the lane is not divided for it, but a lane that no policy of a Pacer names,
// while there are others, is refused as a [*ConfigError]. The innermost lane counts, and [Lane] overrides it. Calls
// without one may use everything.
func WithLane(ctx context.Context, name string) context.Context {
	return WithScope(ctx, laneScope, name)
}

// weightScope is the scope by which a call carries its weight. No policy can have it.
const weightScope = "/weight"

// WithWeight returns a context whose calls have a weight, as [Weight] gives it to one. The innermost counts.
func WithWeight(ctx context.Context, n int64) context.Context {
	return WithScope(ctx, weightScope, strconv.FormatInt(n, 10))
}

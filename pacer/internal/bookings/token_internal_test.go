package bookings

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// longest is the length of the longest token.
const longest = 2048

func sampleToken() *token {
	return &token{
		upstream: "api", id: [12]byte{1, 2, 3}, epoch: 1_795_000_000_000_000, slot: 1_795_000_100_000_000, slack: 90 * time.Millisecond,
		made: 1_795_000_000_500_000, keep: time.Hour, maxWait: time.Minute, tracked: true, cost: 3,
		scopes: []binding.Option{{Kind: binding.Scope, Name: "tenant", Value: "a b"}, {Kind: binding.Scope, Name: binding.LaneScope, Value: "bulk"}},
		costs:  []binding.Option{{Kind: binding.CostOf, Name: "tokens", N: 7, Estimate: true}},
		limits: []tokenLimit{
			{"rate", "", 5, 3, store.Charge{From: 1_795_000_100_000_000, To: 1_795_000_100_030_000}},
			{"tokens", "a%20b", 1 << 31, 7, store.Charge{From: 1_795_000_080_000_000, To: -7}},
			{"lent", "", 1, 3, store.Charge{}},
		},
	}
}

func TestTokensAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	want := sampleToken()
	text := want.String()
	require.Regexp(t, `^[A-Za-z0-9_-]+$`, text)
	got, err := parse(text, longest)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, "AQIDAAAAAAAAAAAA", got.key(1))
	require.Equal(t, "AQIDAAAAAAAAAAAA.2", got.key(2))
	require.True(t, store.ValidBooking(got.key(specs.MaxLimit)))
}

// resealed returns a token of some bytes with a good checksum.
func resealed(b []byte) string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(b, checksum(b)))
}

func TestTokensAreHostile(t *testing.T) {
	t.Parallel()
	text := sampleToken().String()
	raw, err := base64.RawURLEncoding.DecodeString(text)
	require.NoError(t, err)
	raw = raw[:len(raw)-4]
	require.Equal(t, text, resealed(slices.Clip(raw)))
	for i := range len(text) { // cut, and changed in one place
		_, err := parse(text[:i], longest)
		require.Error(t, err, i)
		other := byte('A')
		if text[i] == other {
			other = 'B'
		}
		_, err = parse(text[:i]+string(other)+text[i+1:], longest)
		require.Error(t, err, i)
	}
	for i := range raw { // cut, with a good checksum
		_, err := parse(resealed(raw[:i:i]), longest)
		require.Error(t, err, i)
	}
	for _, bad := range []string{"", " " + text, text + "\n", text + "=", text + text, strings.Repeat("A", longest+1)} {
		_, err := parse(bad, longest)
		require.Error(t, err, bad)
	}
	_, err = parse(resealed(append([]byte{2}, raw[1:]...)), longest)
	require.ErrorIs(t, err, errTokenVersion)
	_, err = parse(resealed(append(slices.Clip(raw), 0)), longest)
	require.ErrorIs(t, err, errTokenText, "more than a token")

	for name, change := range map[string]func(*token){
		"upstream":  func(t *token) { t.upstream = "a/b" },
		"epoch":     func(t *token) { t.epoch = 0 },
		"slot":      func(t *token) { t.slot = maxTokenTime + 1 },
		"past":      func(t *token) { t.slot = -1 },
		"slack":     func(t *token) { t.slack = -time.Microsecond },
		"no keep":   func(t *token) { t.keep = 0 },
		"long keep": func(t *token) { t.keep = maxKeep + time.Second },
		"max wait":  func(t *token) { t.maxWait = -time.Millisecond },
		"cost":      func(t *token) { t.cost = 0 },
		"cost of":   func(t *token) { t.costs[0].N = -1 },
		"policy":    func(t *token) { t.limits[0].policy = "a b" },
		"scope":     func(t *token) { t.limits[0].scope = "a b" },
		"of cost 0": func(t *token) { t.limits[0].cost = 0 },
		"from":      func(t *token) { t.limits[0].charge.From = -maxTokenTime },
	} {
		tok := sampleToken()
		change(tok)
		_, err := parse(tok.String(), longest)
		require.ErrorIs(t, err, errTokenText, name)
	}
}

func FuzzToken(f *testing.F) {
	b, err := base64.RawURLEncoding.DecodeString(sampleToken().String())
	require.NoError(f, err)
	f.Add(b[:len(b)-4])
	f.Fuzz(func(t *testing.T, b []byte) {
		text := resealed(slices.Clip(b))
		got, err := parse(text, longest)
		if err != nil {
			return
		}
		require.Equal(t, text, got.String(), "one token, one text")
		require.LessOrEqual(t, len(got.limits), maxItems)
		require.True(t, store.ValidBooking(got.key(1)))
	})
}

// A token's charge of a limit that now accounts in another way means nothing.
func TestShapes(t *testing.T) {
	t.Parallel()
	seen := make(map[uint32]string)
	for _, p := range []policies.Policy{
		policies.Rate(10, time.Second), policies.Rate(10, time.Second).Burst(2), policies.Rate(11, time.Second), policies.AtMost(10, time.Second),
		policies.Fixed(10, time.Second), policies.Fixed(11, time.Second), policies.Sliding(10, time.Second), policies.Daily(10, time.UTC),
		policies.Daily(10, time.FixedZone("X", 3600)), policies.InFlight(10),
	} {
		spec := p.Spec()
		shape := shapeOf(&spec)
		require.Empty(t, seen[shape], p)
		seen[shape] = p.String()
		again := p.Spec()
		require.Equal(t, shape, shapeOf(&again))
	}
}

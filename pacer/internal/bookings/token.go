package bookings

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// A token is a booking as text: a version, fields as varints and strings with their lengths, and a CRC-32C, in base64url. It has no secrets
// except those in scope values, and no signature: anyone who can write it can write another one.
//
// It has the numbers of each charged limit, because the charge must be given back under the same numbers, whatever the policies are then,
// and the call's options, so that it can be bound again.
type token struct {
	upstream string
	id       [12]byte // at random
	epoch    store.Instant
	slot     store.Instant
	slack    time.Duration
	made     store.Instant // when the slot was granted
	keep     time.Duration // for how long after the slot it may be redeemed
	maxWait  time.Duration // for another slot
	tracked  bool
	cost     int64
	scopes   []binding.Option // values of scopes, of the lane too
	costs    []binding.Option // of policies
	limits   []tokenLimit
}

// A tokenLimit is a limit that a booking charged.
type tokenLimit struct {
	policy, scope string
	shape         uint32 // of its numbers: a charge means nothing to a limit of another shape
	cost          int64
	charge        store.Charge
}

const (
	tokenVersion = 1
	maxText      = 1 << 16 // bytes: more than a token has
	maxItems     = 256     // of a list in a token
	maxSlack     = 1 << 40 // µs: twelve days: no job needs more
	maxTokenTime = 1 << 53 // µs
	maxKeep      = 30 * 24 * time.Hour
)

// checksum returns the CRC-32C of a token, RFC 3720.
func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// key returns the name of the booking's record in the store, for an attempt from 1.
func (t *token) key(attempt int64) string {
	id := base64.RawURLEncoding.EncodeToString(t.id[:])
	if attempt > 1 {
		id += "." + strconv.FormatInt(attempt, 10)
	}
	return id
}

// expires returns when the token expires.
func (t *token) expires() store.Instant { return t.slot.Add(t.keep) }

// options returns what the call requests.
func (t *token) options() []binding.Option {
	opts := append(slices.Concat(t.scopes, t.costs),
		binding.Option{Kind: binding.Cost, N: t.cost},
		binding.Option{Kind: binding.MaxWait, N: int64(t.maxWait)})
	if t.tracked {
		opts = append(opts, binding.Option{Kind: binding.Tracked})
	}
	return opts
}

// String returns the token as text.
func (t *token) String() string {
	b := []byte{tokenVersion}
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	number := func(n int64) { b = binary.AppendVarint(b, n) }
	text(t.upstream)
	b = append(b, t.id[:]...)
	number(int64(t.epoch))
	number(int64(t.slot))
	number(int64(t.slot - t.made))
	number(t.slack.Microseconds())
	number(int64(t.keep / time.Second))
	number(t.maxWait.Milliseconds())
	number(bit(t.tracked))
	number(t.cost)
	number(int64(len(t.scopes)))
	for i := range t.scopes {
		text(t.scopes[i].Name)
		text(t.scopes[i].Value)
	}
	number(int64(len(t.costs)))
	for i := range t.costs {
		text(t.costs[i].Name)
		number(t.costs[i].N)
		number(bit(t.costs[i].Estimate))
	}
	number(int64(len(t.limits)))
	for i := range t.limits {
		l := &t.limits[i]
		text(l.policy)
		text(l.scope)
		b = binary.BigEndian.AppendUint32(b, l.shape)
		number(l.cost)
		number(l.charge.From - int64(t.slot))
		if long := l.charge.To > math.MaxUint32; long { // of a rate, an instant
			number(1)
			number(l.charge.To - l.charge.From)
		} else {
			number(0)
			number(l.charge.To)
		}
	}
	b = binary.BigEndian.AppendUint32(b, checksum(b))
	return base64.RawURLEncoding.EncodeToString(b)
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Mistakes in a token.
var (
	errTokenText     = errors.New("is not what Book returned: was it cut, or changed?")
	errTokenVersion  = errors.New("is of another release of Headway, which writes tokens in another way")
	errTokenUpstream = errors.New("is of another upstream: redeem it with that one's Pacer")
	errTokenPool     = errors.New("is by none of the pool's credentials: redeem it with the Pacer, or with the pool that booked it")
)

// parse reads a token of up to most bytes. It checks everything, and accepts only what String writes.
func parse(text string, most int) (*token, error) {
	if text == "" || len(text) > most {
		return nil, fmt.Errorf("is empty, or longer than %d bytes", most)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 5 || binary.BigEndian.Uint32(b[len(b)-4:]) != checksum(b[:len(b)-4]) {
		return nil, errTokenText
	}
	if b[0] != tokenVersion {
		return nil, errTokenVersion
	}
	r := tokenReader{rest: b[1 : len(b)-4]}
	t := r.token()
	if r.failed || len(r.rest) > 0 || t.String() != text {
		return nil, errTokenText
	}
	return t, nil
}

// A tokenReader reads the parts of a token.
type tokenReader struct {
	rest   []byte
	failed bool
}

func (r *tokenReader) token() *token {
	t := &token{upstream: r.text(100)}
	r.failed = r.failed || !store.ValidUpstream(t.upstream)
	copy(t.id[:], r.bytes(len(t.id)))
	t.epoch, t.slot = store.Instant(r.number(1, maxTokenTime)), store.Instant(r.number(1, maxTokenTime))
	t.made = t.slot - store.Instant(r.number(-maxTokenTime, int64(t.slot)))
	t.slack = time.Duration(r.number(0, maxSlack)) * time.Microsecond
	t.keep = time.Duration(r.number(1, int64(maxKeep/time.Second))) * time.Second
	t.maxWait = time.Duration(r.number(0, store.Forever.Milliseconds())) * time.Millisecond
	t.tracked = r.number(0, 1) == 1
	t.cost = r.number(1, specs.MaxLimit)
	for range r.number(0, maxItems) {
		t.scopes = append(t.scopes, binding.Option{Kind: binding.Scope, Name: r.text(maxText), Value: r.text(maxText)})
	}
	for range r.number(0, maxItems) {
		t.costs = append(t.costs, binding.Option{
			Kind: binding.CostOf, Name: r.policy(), N: r.number(0, specs.MaxLimit), Estimate: r.number(0, 1) == 1,
		})
	}
	for range r.number(0, maxItems) {
		t.limits = append(t.limits, r.limit(t.slot))
	}
	return t
}

func (r *tokenReader) limit(slot store.Instant) (l tokenLimit) {
	l.policy, l.scope = r.policy(), r.text(store.MaxScope)
	r.failed = r.failed || l.scope != "" && !store.IsEscaped(l.scope)
	l.shape = binary.BigEndian.Uint32(r.bytes(4))
	l.cost = r.number(1, specs.MaxLimit)
	l.charge.From = int64(slot) + r.number(-maxTokenTime, maxTokenTime)
	if r.number(0, 1) == 1 {
		l.charge.To = l.charge.From + r.number(0, maxTokenTime)
	} else {
		l.charge.To = r.number(-maxTokenTime, math.MaxUint32)
	}
	return l
}

func (r *tokenReader) number(least, most int64) int64 {
	n, size := binary.Varint(r.rest)
	if size <= 0 || n < least || n > most {
		r.failed, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// bytes returns the next n bytes, or zeros if there are fewer.
func (r *tokenReader) bytes(n int) []byte {
	if n > len(r.rest) {
		r.failed, r.rest = true, nil
		return make([]byte, n)
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *tokenReader) text(most int) string {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > uint64(most) { //nolint:gosec // most is not negative
		r.failed, r.rest = true, nil
		return ""
	}
	r.rest = r.rest[size:]
	return string(r.bytes(int(n))) //nolint:gosec // it is small
}

func (r *tokenReader) policy() string {
	name := r.text(store.MaxScope)
	r.failed = r.failed || !store.IsEscaped(name) && !readings.IsAllowance(name) // it is looked up by this name, and nothing is made of it
	return name
}

// shapeOf returns a hash of a limit's numbers. Two limits have the same one by a chance of one in 2^32.
func shapeOf(s *specs.Spec) uint32 {
	h := fnv.New32a()
	for _, n := range []int64{int64(s.Algorithm), s.Limit, s.Interval, s.Most, s.Within, s.Buckets, s.Guard, int64(s.Queue)} {
		_ = binary.Write(h, binary.BigEndian, n)
	}
	if s.Calendar != nil {
		_, _ = h.Write([]byte(s.Calendar.Zone()))
	}
	return h.Sum32()
}

package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/headway-go/headway/pacer/internal/deadline"
	"github.com/headway-go/headway/pacer/internal/numbers"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// A request is the command line of one script. It takes few allocations: the client, and its hooks, get pointers into it for numbers and
// keys.
type request struct {
	args []any
	ints []int64
	keys []string
	text strings.Builder // what the keys are made of

	sent  sent
	known string   // the epoch that the caller knows
	room  struct { // for most requests it is enough
		args [40]any
		ints [16]int64
		keys [8]string
	}
}

// maxEpoch is the length of the longest epoch.
const maxEpoch = 40

// head is the number of arguments before the keys: the command, the script and the number of keys.
const head = 3

func newRequest() *request {
	r := &request{}
	r.args, r.ints, r.keys = r.room.args[:head], r.room.ints[:0], r.room.keys[:0]
	return r
}

// script makes the request one of a script.
func (r *request) script(ctx context.Context, program *[2]any) {
	r.sent = sent{ctx, len(r.keys)}
	r.args[0], r.args[1], r.args[2] = program[0], program[1], &r.sent
}

// sent is the number of keys. The client encodes it when it writes to a connection.
type sent struct {
	ctx  context.Context //nolint:containedctx // of the request
	keys int
}

// MarshalBinary implements [encoding.BinaryMarshaler].
func (s *sent) MarshalBinary() ([]byte, error) {
	deadline.Connected(s.ctx)
	return strconv.AppendInt(nil, int64(s.keys), 10), nil
}

// String implements [fmt.Stringer], for hooks of the client that write commands.
func (s *sent) String() string { return strconv.Itoa(s.keys) }

// numbers adds numbers.
func (r *request) numbers(ns ...int64) {
	for _, n := range ns {
		if 0 <= n && n < 256 { // as an any, it takes no memory
			r.args = append(r.args, n)
			continue
		}
		r.ints = append(r.ints, n)
		r.args = append(r.args, &r.ints[len(r.ints)-1])
	}
}

// key adds a key.
func (r *request) key(k string) {
	r.keys = append(r.keys, k)
	r.args = append(r.args, &r.keys[len(r.keys)-1])
}

// addKeys adds the keys of some limits, in the order of the scripts: see keys.go. Keys of accounts come first, so that the scripts can read
// them all at once. It returns the upstream's key, with which the others begin.
func (r *request) addKeys(upstream string, limits []store.Limit) (name string) {
	base := len(prefix) + len(upstream) + 2
	size := base + maxEpoch
	for i := range limits {
		keys := 1
		if limits[i].Spec.Most > 0 {
			keys = 2
		}
		if limits[i].Spec.HasQueue() {
			keys += 4
		}
		size += keys * (base + len(limits[i].Policy) + len(limits[i].Scope) + len(leasesMark) + 2)
	}
	r.text.Grow(size)
	writeUpstreamKey(&r.text, upstream)
	name = r.text.String()
	r.key(name)
	for i := range limits {
		r.addKey(name, &limits[i], "")
	}
	for i := range limits {
		l := &limits[i]
		if l.Spec.Most > 0 {
			r.addKey(name, l, startsMark)
		}
		if l.Spec.HasQueue() {
			r.addQueue(name, l)
		}
	}
	return name
}

// addQueue adds the keys of a limit with a queue.
func (r *request) addQueue(name string, l *store.Limit) {
	if l.Spec.Algorithm == specs.Concurrency {
		r.addKey(name, l, leasesMark)
	}
	r.addKey(name, l, lineMark)
	r.addKey(name, l, waitsMark)
	if l.Spec.Algorithm == specs.Concurrency {
		r.addKey(name, l, begunMark)
	}
	if l.Spec.Queue == specs.FairQueue {
		r.addKey(name, l, flowsMark)
	}
}

// addKey adds a key of a limit.
func (r *request) addKey(name string, l *store.Limit, mark string) {
	begin := r.text.Len()
	r.text.WriteString(name)
	r.text.WriteByte(':')
	r.text.WriteString(l.Policy)
	r.text.WriteString(mark)
	if l.Scope != "" {
		r.text.WriteByte(':')
		r.text.WriteString(l.Scope)
	}
	r.key(r.text.String()[begin:])
}

// A prelude adds what a script receives before the accounts, and keys after theirs, which begin with base. It is a function, since an
// interface would take an allocation. Nil: nothing.
type prelude func(r *request, base string)

// knowledge is what the client knows of the store, which Reserve sends first.
type knowledge struct {
	epoch    store.Epoch
	lastSeen store.Instant
}

func (k knowledge) add(r *request, _ string) {
	var room [maxEpoch]byte
	begin := r.text.Len()
	r.text.Write(k.epoch.Append(room[:0]))
	r.known = r.text.String()[begin:]
	r.args = append(r.args, &r.known)
	r.numbers(int64(k.lastSeen))
}

// operation names an operation that must not run twice: the key comes last, and its numbers first.
type operation struct {
	*store.Once

	resets  bool // an epoch may begin
	answers bool // the upstream's statements about limits
}

func (o operation) add(r *request, base string) {
	if o.Once != nil {
		r.key(base + doneMark + o.By)
	}
	if o.answers {
		r.key(base + allowancesMark)
	}
	if o.resets {
		r.key(base + resetsMark)
	}
	if o.Once == nil {
		r.numbers(0, 0)
		return
	}
	r.numbers(o.Number, o.Known)
}

// addAccounts adds the arguments that all scripts share: the number of accounts, and each one's algorithm and parameters. Their keys come
// first: see addKeys. Calendars are open from now until the given time.
func (r *request) addAccounts(limits []store.Limit, now, until int64) error {
	r.numbers(int64(len(limits)))
	for i := range limits {
		l := &limits[i]
		s := &l.Spec
		switch s.Algorithm {
		case specs.GCRA:
			r.rate(s)
		case specs.Window:
			var bounds []int64
			if s.Calendar != nil {
				bounds = s.Calendar.Bounds(now, until)
			}
			if s.Floor > 0 || s.Ahead > 0 {
				r.numbers(numbers.Part, s.Limit, s.Interval, s.Buckets, s.Guard, s.Floor, s.Ahead, int64(len(bounds)))
			} else {
				r.numbers(int64(s.Algorithm), s.Limit, s.Interval, s.Buckets, s.Guard, int64(len(bounds)))
			}
			r.numbers(bounds...)
		case specs.Concurrency:
			fair := int64(0)
			if s.Queue == specs.FairQueue {
				fair = 1
			}
			r.numbers(int64(s.Algorithm), s.Limit, s.Interval, s.After, fair)
		case specs.Allowance:
			r.numbers(int64(s.Algorithm), s.Limit, s.First)
		default:
			return &algorithmError{l.Policy, s.Algorithm}
		}
	}
	return nil
}

// rate adds the algorithm and the parameters of a rate. Most have two: the others have another algorithm in the wire format.
func (r *request) rate(s *specs.Spec) {
	if s.Most == 0 && s.Queue == specs.NoQueue && s.Adapt == nil {
		r.numbers(int64(s.Algorithm), s.Limit, s.Interval)
		return
	}
	adapt := specs.Adapt{}
	if s.Adapt != nil {
		adapt = *s.Adapt
	}
	r.numbers(numbers.AnyRate, s.Limit, s.Interval, s.Most, s.Within, adapt.Floor, adapt.Decrease, adapt.Hold, adapt.Recovery, int64(s.Queue))
}

// algorithmError reports a policy that the scripts do not know.
type algorithmError struct {
	policy    string
	algorithm specs.Algorithm
}

// Error implements error.
func (e *algorithmError) Error() string {
	return fmt.Sprintf("policy %q: unknown algorithm %d", e.policy, e.algorithm)
}

package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/pacer/internal/numbers"
	"github.com/headway-go/headway/pacer/internal/scripts"
	"github.com/headway-go/headway/pacer/store"
)

// ErrForeign is the cause of a *pacer.StoreError when a key of the store has a value that Headway did not write. Nothing was changed.
// Delete the key, or give the policy another name.
var ErrForeign = errors.New("redisstore: a key holds a foreign value: delete the key, or give the policy another name")

// A Client is what a [Store] needs: *redis.Client, *redis.ClusterClient and every redis.UniversalClient have it.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// A Store keeps accounts in Redis. Its only state is what it learned about the server's clock, and there is nothing to close. While a Pacer
// with waiting calls listens for pauses, it has one subscription, with a connection and goroutines of its own; they end when the last such
// Pacer is closed. It is safe for concurrent use.
type Store struct {
	rdb      Client
	programs [scripts.Count]program

	mu     sync.Mutex
	seen   int64                // the server's clock, when last seen
	since  time.Time            // when that was
	listed map[string]time.Time // when upstreams were last enlisted

	listeners listeners
	silent    atomic.Bool // the last operation got no answer

	testClock func() int64 // for tests: the time that the scripts are given and now returns; nil for the server's
}

var _ store.Punctual = (*Store)(nil)

// New returns a Store that uses a client: *redis.Client, *redis.ClusterClient or any other redis.UniversalClient. You configure and close
// the client. A nil client is a [*store.ConfigError].
//
// No command is sent twice: go-redis does not retry these commands, whatever the client's MaxRetries, because a script whose reply was lost
// may have run.
func New(rdb Client) (*Store, error) {
	if rdb == nil || reflect.ValueOf(rdb).Kind() == reflect.Pointer && reflect.ValueOf(rdb).IsNil() {
		return nil, &store.ConfigError{In: "redisstore", Field: "Client", Value: "nil", Reason: "give redisstore.New a client, such as redis.NewClient returns"}
	}
	return withScripts(rdb, scripts.New()), nil
}

// program is a script and its name on the server, each with its command, in the client's form.
type program struct{ eval, evalsha [2]any }

func withScripts(rdb Client, all scripts.Scripts) *Store {
	s := &Store{rdb: rdb}
	for i, source := range all {
		s.programs[i] = program{eval: [2]any{"eval", source}, evalsha: [2]any{"evalsha", redis.NewScript(source).Hash()}}
	}
	return s
}

// A command runs a script, and has its reply.
type command[T any] interface {
	redis.Cmder
	Val() T
}

// exec runs a script by a command of the client: one round trip, or two if the server does not know it.
func exec[T any, C command[T]](ctx context.Context, s *Store, script int, r *request, by func(ctx context.Context, args ...any) C) (v T, err error) {
	if s.testClock != nil {
		r.numbers(s.testClock())
	}
	p := &s.programs[script]
	for _, program := range []*[2]any{&p.evalsha, &p.eval} {
		if err = s.reachable(ctx); err != nil {
			return v, err
		}
		r.script(ctx, program)
		cmd := by(ctx, r.args...)
		cmd.SetFirstKeyPos(head) // for a Cluster to find the node
		if err = s.process(ctx, cmd); err == nil {
			return cmd.Val(), nil
		}
		// Without a retry, a Cluster's client does not look where the keys are now.
		if cluster, ok := s.rdb.(interface{ ReloadState(ctx context.Context) }); !s.failed(err) && ok {
			cluster.ReloadState(ctx)
		}
		if !redis.HasErrorPrefix(err, "NOSCRIPT") {
			break
		}
	}
	if isForeign(err) {
		err = fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return v, err
}

// once is a command that go-redis does not send again when its reply is lost: it may have run.
type once struct{ *redis.IntSliceCmd }

func newOnce(ctx context.Context, args ...any) once { return once{redis.NewIntSliceCmd(ctx, args...)} }

// NoRetry implements [redis.Cmder].
func (once) NoRetry() bool { return true }

// run runs a script that replies numbers.
func (s *Store) run(ctx context.Context, script int, r *request) (reply, error) {
	values, err := exec(ctx, s, script, r, newOnce)
	return reply{values: values}, err
}

// query runs a script that replies more than numbers, and does no more if it runs twice.
func (s *Store) query(ctx context.Context, script int, r *request) ([]any, error) {
	return exec(ctx, s, script, r, redis.NewSliceCmd)
}

// process runs a command, and returns its error.
func (s *Store) process(ctx context.Context, cmd redis.Cmder) error {
	return caught(func() error {
		_ = s.rdb.Process(ctx, cmd)
		return cmd.Err()
	})
}

// errPanicked is the error of a client that panics: at a reply that go-redis cannot read, or in a hook or a dialer.
var errPanicked = errors.New("redisstore: the client panicked, at a reply that is nonsense or in a hook or a dialer of its own")

// caught calls the client. If that panics, as go-redis does at an array of an absurd length, it returns errPanicked, as if no server
// answered. Every call of the client uses it, since most are in goroutines where nothing else would recover.
func caught(call func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errPanicked, r)
		}
	}()
	return call()
}

// Punctual implements [store.Punctual]: true for a client of one server with ContextTimeoutEnabled. A client of a Cluster or of Sentinel
// may first have to find its server.
func (s *Store) Punctual() bool {
	rdb, ok := s.rdb.(*redis.Client)
	return ok && rdb.Options().ContextTimeoutEnabled && rdb.Options().Addr != sentinelAddr
}

// sentinelAddr is the address in clients of redis.NewFailoverClient, which look up the real one.
const sentinelAddr = "FailoverClient"

// Fault implements [store.Shared].
func (s *Store) Fault(err error) store.Fault {
	var unknown *algorithmError
	var newcomer *tls.CertificateVerificationError
	switch {
	case errors.Is(err, ErrForeign), errors.As(err, &unknown):
		return store.Unfit
	case redis.IsAuthError(err), redis.IsPermissionError(err), errors.As(err, &newcomer):
		return store.Denied
	}
	return store.Unreachable
}

// isForeign reports whether a foreign value in a key ended a script. Servers differ in how they wrap the error of a command inside a
// script.
func isForeign(err error) bool {
	msg := err.Error()
	return strings.Contains(msg, "HEADWAYFOREIGN") ||
		strings.Contains(msg, "WRONGTYPE") ||
		strings.Contains(msg, "against a key holding the wrong kind of value")
}

// now estimates the server's clock, to find the page of a calendar.
func (s *Store) now() int64 {
	if s.testClock != nil {
		return s.testClock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		return time.Now().UnixMicro()
	}
	return s.seen + time.Since(s.since).Microseconds()
}

func (s *Store) saw(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.since = now, time.Now()
}

// ask runs a script whose reply begins with the server's now. A reply with nothing else means that a calendar was open at the wrong page:
// the second try has the right one.
//
// Reserve first sends what its caller knows of the store.
func (s *Store) ask(
	ctx context.Context, script int, upstream string, limits []store.Limit, first prelude, reach time.Duration, more func(*request),
) (reply, int64, error) {
	calendars := false
	for i := range limits {
		calendars = calendars || limits[i].Spec.Calendar != nil
	}
	var now int64
	if calendars {
		now = s.now()
	}
	for try := 0; ; try++ {
		q := newRequest()
		base := q.addKeys(upstream, limits)
		if first != nil {
			first(q, base)
		}
		if err := q.addAccounts(limits, now, now+engine.Micros(reach)); err != nil {
			return reply{}, 0, err
		}
		if more != nil {
			more(q)
		}
		r, err := s.run(ctx, script, q)
		if err != nil {
			return reply{}, 0, err
		}
		now = r.count()
		if calendars {
			s.saw(now)
			if len(r.values) == 0 && r.err == nil && try == 0 {
				continue
			}
		}
		if script == scripts.Reserve && len(r.values) == 3 && r.values[0] == numbers.Forgot && r.err == nil {
			r.int()
			if forgot := (&store.ForgotError{Epoch: r.epoch()}); r.err == nil {
				return reply{}, 0, forgot
			}
			return reply{}, 0, r.err
		}
		return r, now, r.err
	}
}

// Cancel implements [store.Store].
func (s *Store) Cancel(ctx context.Context, stack store.Stack, grants []store.Grant) error {
	return s.CancelAll(ctx, []store.Batch{{Stack: stack, Grants: grants}})
}

// CancelAll implements [store.Shared]: one script, which reads and writes every account once.
func (s *Store) CancelAll(ctx context.Context, batches []store.Batch) error {
	if len(batches) == 0 {
		return nil
	}
	limits, refs := union(batches)
	now := s.now()
	q := newRequest()
	q.addKeys(batches[0].Stack.Upstream, limits)
	if err := q.addAccounts(limits, now, now); err != nil {
		return err
	}
	for i := range batches {
		q.binding(refs.of(i))
		grants := batches[i].Grants
		q.numbers(int64(len(grants)))
		for j := range grants {
			for _, c := range grants[j].Charges {
				q.numbers(c.From, c.To, c.Made)
			}
		}
	}
	r, err := s.run(ctx, scripts.Cancel, q)
	if err != nil {
		return err
	}
	r.int()
	return r.done()
}

// Report implements [store.Store].
func (s *Store) Report(ctx context.Context, stack store.Stack, notes []store.Note) (store.Instant, int, error) {
	o := operation{Once: stack.Once}
	for i := range notes {
		o.answers = o.answers || notes[i].Kind == store.NoteAnswer
		o.resets = o.resets || o.answers || notes[i].Kind == store.NoteResume || notes[i].Kind == store.NoteReset
	}
	r, now, err := s.ask(ctx, scripts.Report, stack.Upstream, stack.Limits, o.add, 0, func(q *request) { q.notes(notes) })
	if err != nil {
		return 0, 0, err
	}
	changed := int(r.upTo(0, math.MaxInt32))
	return store.Instant(now), changed, r.done()
}

// notes adds the notes.
func (r *request) notes(notes []store.Note) {
	r.numbers(int64(len(notes)))
	for i := range notes {
		n := &notes[i]
		var a, b, c, d, e int64
		switch n.Kind {
		case store.NoteResume, store.NoteReset:
		case store.NoteSlow:
			a = int64(n.At)
		case store.NoteStray:
			a, b, c, d = int64(n.At), engine.MicrosUp(n.For), n.Value, n.Remaining
		case store.NoteLearn:
			a, b = n.Value, engine.MicrosUp(n.For)
		case store.NoteAnswer:
			a, b, c, d = int64(n.At), n.Cost, n.Remaining, engine.MicrosUp(n.For)
			if e = n.Value * numbers.AnswerOpen; n.Refused {
				e += numbers.AnswerRefused
			}
			if n.Guessed {
				e += numbers.AnswerGuessed
			}
			if n.Teaches {
				e += numbers.AnswerTeaches
			}
		case store.NoteClaim:
			a, b = n.Charge.From, n.Charge.To
		case store.NoteRenew:
			a, b = n.Value, int64(n.At)
		case store.NoteRelease:
			a, b, c, d, e = n.Value, n.Charge.From, n.Charge.To, n.Cost, n.Actual
		case store.NoteSettle:
			a, b, c, d, e = n.Charge.From, n.Charge.To, n.Cost, n.Actual, n.Charge.Made
		}
		r.numbers(int64(n.Kind), int64(n.Limit)+1, a, b, c, d, e)
	}
}

// Status implements [store.Store].
func (s *Store) Status(ctx context.Context, stack store.Stack) (store.StackStatus, error) {
	r, now, err := s.ask(ctx, scripts.Status, stack.Upstream, stack.Limits, nil, store.Forever, nil)
	if err != nil {
		return store.StackStatus{}, err
	}
	st := r.status(now, len(stack.Limits))
	return st, r.done()
}

// Pauses implements [store.Shared].
func (s *Store) Pauses(ctx context.Context, stack store.Stack) (store.StackStatus, error) {
	r, now, err := s.ask(ctx, scripts.Status, stack.Upstream, stack.Limits, nil, 0, func(q *request) { q.numbers(1) })
	if err != nil {
		return store.StackStatus{}, err
	}
	st := store.StackStatus{Now: store.Instant(now), Limits: make([]store.LimitStatus, len(stack.Limits))}
	for i := range st.Limits {
		st.Limits[i].Paused = r.instant()
	}
	return st, r.done()
}

// Heartbeat implements [store.Shared].
func (s *Store) Heartbeat(ctx context.Context, upstream string, b store.Heartbeat) (store.Membership, error) {
	q, now := newRequest(), s.now()
	base := q.addKeys(upstream, b.Limits)
	q.key(base + aliveMark)
	q.key(base + cameMark)
	if err := q.addAccounts(b.Limits, now, now); err != nil {
		return store.Membership{}, err
	}
	q.args = append(q.args, b.ID)
	q.numbers(engine.MicrosUp(b.TTL), int64(b.Now), engine.MicrosUp(b.Keep), engine.MicrosUp(b.Barrier), int64(b.Until), int64(b.Began))
	r, err := s.run(ctx, scripts.Heartbeat, q)
	if errors.Is(err, ErrForeign) && len(b.Limits) > 0 { // whatever its limits hold, the process is there
		b.Limits = nil
		return s.Heartbeat(ctx, upstream, b)
	}
	if err != nil {
		return store.Membership{}, err
	}
	s.listeners.ping() //nolint:contextcheck // nobody waits for it
	p := store.Membership{Now: r.instant(), Epoch: r.epoch(), Alive: int(r.upTo(0, math.MaxInt32)), Rank: int(r.upTo(0, math.MaxInt32)), Barrier: r.instant()}
	s.saw(int64(p.Now))
	if len(r.values) > 0 && r.err == nil {
		for i := range b.Limits {
			p.Holds = append(p.Holds, r.holding(&b.Limits[i]))
		}
	}
	return p, r.done()
}

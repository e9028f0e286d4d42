package riverpacer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/headway-go/headway/pacer"
)

const (
	// DefaultDelay is the longest time from when a job is available until a worker has it, with River's defaults: a client fetches jobs
	// every second.
	DefaultDelay = 1250 * time.Millisecond
	// Lead is the least time before its slot at which a job must be available.
	Lead = 25 * time.Millisecond
	// scheduledEvery is how often River looks for scheduled jobs. An earlier one is made available at once, and snoozed:
	// https://pkg.go.dev/github.com/riverqueue/river#JobSnooze.
	scheduledEvery = 5 * time.Second
	// metadataKey is the key of the token in a job's metadata.
	metadataKey = "headway_token"
)

// A Middleware redeems each job's booking before the job is worked. Make one with [New]. It is for a whole client, in
// river.Config.Middleware, or for one kind of job, by the worker's Middleware method.
type Middleware struct {
	river.MiddlewareDefaults

	p       *pacer.Pacer
	options func(*rivertype.JobRow) []pacer.BookOption
	delay   time.Duration
	turn    func(*rivertype.JobRow, time.Time, *pacer.Reservation, error) // for tests; nil for none
}

var _ rivertype.WorkerMiddleware = (*Middleware)(nil)

// An Option configures a [Middleware], or [InsertOpts].
type Option func(*Middleware)

// WithOptions sets the scopes, costs and lanes of jobs that were inserted without a token. Their slots may be as far away as
// [pacer.MaxWait] allows, by default that of the Pacer. Defaults to none.
func WithOptions(options func(*rivertype.JobRow) []pacer.BookOption) Option {
	return func(m *Middleware) { m.options = options }
}

// ComesWithin sets the longest time from when a job is available until a worker has it: the clients' FetchPollInterval, and the time of a
// fetch. A job whose slack is shorter is available so much earlier, and waits in the worker for its slot. Defaults to [DefaultDelay].
func ComesWithin(d time.Duration) Option {
	return func(m *Middleware) { m.delay = max(Lead, d) }
}

// lead returns how long before its slot a job must be available, by its slack.
func (m *Middleware) lead(slack time.Duration) time.Duration { return max(Lead, m.delay-slack) }

// New returns a middleware for the calls of a Pacer. It panics if the Pacer is nil.
func New(p *pacer.Pacer, opts ...Option) *Middleware {
	if p == nil {
		panic("riverpacer: New needs a Pacer")
	}
	m := &Middleware{p: p, delay: DefaultDelay, options: func(*rivertype.JobRow) []pacer.BookOption { return nil }}
	for _, o := range opts {
		o(m)
	}
	return m
}

// InsertOpts returns insert options for a job with the token of a booking, which is available shortly before its slot: tok and wait are
// from [pacer.Pacer.Book]. Of the options, only [ComesWithin] matters. The rest is as in opts, which may be nil and are not changed. It
// panics if their metadata is not a JSON object.
func InsertOpts(tok string, wait time.Duration, opts *river.InsertOpts, options ...Option) *river.InsertOpts {
	m := Middleware{delay: DefaultDelay}
	for _, o := range options {
		o(&m)
	}
	var with river.InsertOpts
	if opts != nil {
		with = *opts
	}
	metadata := make(map[string]json.RawMessage)
	if len(with.Metadata) > 0 {
		if err := json.Unmarshal(with.Metadata, &metadata); err != nil {
			panic(fmt.Sprintf("riverpacer: Metadata is no JSON object: %v", err))
		}
	}
	metadata[metadataKey] = json.RawMessage(strconv.Quote(tok)) // it is of base64url
	encoded, err := json.Marshal(metadata)
	if err != nil {
		panic(fmt.Sprintf("riverpacer: Metadata is no JSON object: %v", err))
	}
	with.Metadata = encoded
	if wait -= m.lead(pacer.SlackOf(tok)); wait > scheduledEvery {
		with.ScheduledAt = time.Now().Add(wait)
	}
	return &with
}

// Token returns the token of a job; "" without one.
func Token(job *rivertype.JobRow) string {
	var metadata struct {
		Token string `json:"headway_token"` //nolint:tagliatelle // as River writes its own
	}
	_ = json.Unmarshal(job.Metadata, &metadata) // what is no object has no token
	return metadata.Token
}

type reservationKey struct{}

// Reservation returns the reservation of the present job, to report the upstream's feedback, or to settle what the call cost; nil outside
// of a job. It is released after the job.
func Reservation(ctx context.Context) *pacer.Reservation {
	r, _ := ctx.Value(reservationKey{}).(*pacer.Reservation)
	return r
}

// Work implements [rivertype.WorkerMiddleware].
func (m *Middleware) Work(ctx context.Context, job *rivertype.JobRow, doInner func(context.Context) error) error {
	began := time.Now()
	r, err := m.redeem(ctx, job)
	if m.turn != nil {
		m.turn(job, began, r, err)
	}
	if err != nil {
		return err
	}
	defer r.Release()
	return doInner(context.WithValue(ctx, reservationKey{}, r))
}

// redeem redeems a job's booking, after booking a job without one. It snoozes a job that may go later.
func (m *Middleware) redeem(ctx context.Context, job *rivertype.JobRow) (*pacer.Reservation, error) {
	tok, patience := Token(job), m.delay+pacer.RedeemEarly-Lead
	if tok == "" {
		var wait time.Duration
		var err error
		if tok, wait, err = m.p.Book(ctx, m.options(job)...); err != nil {
			return nil, err
		}
		if err = river.MetadataSet(ctx, metadataKey, tok); err != nil {
			return nil, errors.Join(err, m.p.CancelBooking(ctx, tok))
		}
		if wait > patience {
			return nil, river.JobSnooze(wait - m.lead(pacer.SlackOf(tok)))
		}
	}
	r, err := m.p.Redeem(ctx, tok, pacer.Attempt(int64(max(1, job.Attempt))), pacer.Early(patience))
	if later, ok := errors.AsType[*pacer.LimitError](err); ok && later.Reason == pacer.TooEarly {
		return nil, river.JobSnooze(max(0, later.Wait-m.lead(later.Slack)))
	}
	return r, err
}

package grpcpacer

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// An Option configures the interceptors.
type Option func(*options)

type options struct {
	describe func(ctx context.Context, method string, req any) []pacer.Option
}

// WithCallOptions sets a function that returns a call's options, such as its cost and its values for scopes. It receives the full method,
// such as "/helloworld.Greeter/SayHello", and the request (nil for a stream); metadata.FromOutgoingContext returns the outgoing metadata
// from ctx. Scopes that the context carries by [pacer.With] apply, too. Defaults to no options.
func WithCallOptions(describe func(ctx context.Context, method string, req any) []pacer.Option) Option {
	return func(o *options) { o.describe = describe }
}

// An Error reports why a call was not sent. It wraps the pacer's error, which errors.As finds. As a gRPC status it is RESOURCE_EXHAUSTED
// if a policy does not admit the call in time, DEADLINE_EXCEEDED or CANCELLED if the context has ended, FAILED_PRECONDITION if the call
// lacks a scope, is nested in a call whose permit it needs, or its options are wrong, and UNAVAILABLE otherwise.
type Error struct{ Err error }

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the pacer's error.
func (e *Error) Unwrap() error { return e.Err }

// GRPCStatus returns the error as a status: see package status.
func (e *Error) GRPCStatus() *status.Status {
	code := codes.Unavailable
	_, wrong := errors.AsType[*pacer.ConfigError](e.Err)
	switch {
	case wrong, errors.Is(e.Err, pacer.NoScope), errors.Is(e.Err, pacer.WaitsForItself):
		code = codes.FailedPrecondition
	case errors.Is(e.Err, pacer.NoCredential):
	case errors.Is(e.Err, pacer.ErrRefused):
		code = codes.ResourceExhausted
	case errors.Is(e.Err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(e.Err, context.Canceled):
		code = codes.Canceled
	}
	return status.New(code, e.Err.Error())
}

// Unary returns an interceptor that paces calls of one request and one reply.
func Unary(p *pacer.Pacer, opts ...Option) grpc.UnaryClientInterceptor {
	o := newOptions(p, opts)
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, callOpts ...grpc.CallOption) error {
		call, err := o.acquire(ctx, p, method, req)
		if err != nil {
			return err
		}
		defer call.Release()
		var trailer metadata.MD
		err = invoke(call.Context(ctx), method, req, reply, cc, append(slices.Clip(callOpts), grpc.Trailer(&trailer))...)
		report(ctx, call, err, trailer)
		return err
	}
}

// Stream returns an interceptor that paces streams: a stream is one call, however many messages it has.
func Stream(p *pacer.Pacer, opts ...Option) grpc.StreamClientInterceptor {
	o := newOptions(p, opts)
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, stream grpc.Streamer, callOpts ...grpc.CallOption) (grpc.ClientStream, error) {
		call, err := o.acquire(ctx, p, method, nil)
		if err != nil {
			return nil, err
		}
		opened := false
		defer func() { // also if stream panics
			if !opened {
				call.Release()
			}
		}()
		s, err := stream(call.Context(ctx), desc, cc, method, callOpts...)
		if err != nil {
			report(ctx, call, err, nil)
			return nil, err
		}
		opened = true
		paced := &pacedStream{ClientStream: s, call: call, single: !desc.ServerStreams}
		paced.ctx = ctx
		paced.stop = context.AfterFunc(ctx, func() { paced.over(status.FromContextError(ctx.Err()).Err(), nil) })
		return paced, nil
	}
}

func newOptions(p *pacer.Pacer, opts []Option) *options {
	if p == nil {
		panic("grpcpacer: nil Pacer: make one with pacer.New")
	}
	o := &options{}
	for _, set := range opts {
		set(o)
	}
	return o
}

// acquire waits until a call may go.
func (o *options) acquire(ctx context.Context, p *pacer.Pacer, method string, req any) (*pacer.Reservation, error) {
	opts := []pacer.Option{pacer.Tracked()}
	if o.describe != nil {
		opts = append(opts, o.describe(ctx, method, req)...)
	}
	call, err := p.Acquire(ctx, opts...)
	if err != nil {
		return nil, &Error{err}
	}
	return call, nil
}

// reportTimeout bounds for how long a call whose context has ended waits until the store has the server's answer.
const reportTimeout = 5 * time.Second

// report informs the pacer how a call ended. A failure of the store is no error of the call: hooks receive it.
func report(ctx context.Context, call *pacer.Reservation, err error, trailer metadata.MD) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	if status.Code(err) != codes.ResourceExhausted {
		_ = call.Report(ctx)
		return
	}
	_ = call.Report(ctx, policies.Feedback{Source: "grpc", Refused: true, Wait: wait(err, trailer)})
}

// maxPushback is the longest wait that is read of a server: pacers cap it further, see Config.MaxPause.
const maxPushback = 365 * 24 * time.Hour

// wait returns the wait that the server requests; 0 if there is none.
func wait(err error, trailer metadata.MD) time.Duration {
	if s, ok := status.FromError(err); ok {
		for _, detail := range s.Details() {
			if info, ok := detail.(*errdetails.RetryInfo); ok && info.GetRetryDelay().IsValid() {
				return min(max(0, info.GetRetryDelay().AsDuration()), maxPushback)
			}
		}
	}
	for _, text := range trailer.Get("grpc-retry-pushback-ms") {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 { // a negative one means not to repeat the call
			return min(time.Duration(min(n, maxPushback.Milliseconds()))*time.Millisecond, maxPushback)
		}
	}
	return 0
}

// pacedStream is a stream that gives its permits back when it is over.
type pacedStream struct {
	grpc.ClientStream

	ctx    context.Context //nolint:containedctx // the stream's
	call   *pacer.Reservation
	single bool // the server sends one message
	once   sync.Once
	stop   func() bool
}

// over records how the stream has ended: with io.EOF or nil, well.
func (s *pacedStream) over(err error, trailer metadata.MD) {
	s.once.Do(func() {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		report(s.ctx, s.call, err, trailer)
		s.call.Release()
	})
}

// RecvMsg implements [grpc.ClientStream].
func (s *pacedStream) RecvMsg(m any) error {
	received := false
	defer func() { // a codec may panic
		if !received {
			s.stop()
			s.call.Release()
		}
	}()
	err := s.ClientStream.RecvMsg(m)
	received = true
	if err == nil && !s.single {
		return nil
	}
	var trailer metadata.MD
	if err != nil {
		trailer = s.Trailer()
	}
	s.stop()
	s.over(err, trailer)
	return err
}

// Header implements [grpc.ClientStream]. An error ends the stream.
func (s *pacedStream) Header() (metadata.MD, error) {
	header, err := s.ClientStream.Header()
	if err != nil {
		s.stop()
		s.over(err, nil)
	}
	return header, err
}

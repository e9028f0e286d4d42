package grpcpacer_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/grpcpacer"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport/upstreamtest"
)

// service is a server that answers as a test sets, and counts.
type service struct {
	grpc_testing.UnimplementedTestServiceServer

	mu     sync.Mutex
	answer func(ctx context.Context) error
	strict upstreamtest.Upstream // whose limits it has
	came   int
	no     int
}

func (s *service) admit(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.strict.Spend(nil) {
		s.no++
		return status.Error(codes.ResourceExhausted, "too many")
	}
	s.came++
	if s.answer != nil {
		return s.answer(ctx)
	}
	return nil
}

func (s *service) EmptyCall(ctx context.Context, in *grpc_testing.Empty) (*grpc_testing.Empty, error) {
	return in, s.admit(ctx)
}

// StreamingOutputCall sends one message, and ends when the client does.
func (s *service) StreamingOutputCall(_ *grpc_testing.StreamingOutputCallRequest, out grpc.ServerStreamingServer[grpc_testing.StreamingOutputCallResponse]) error {
	if err := s.admit(out.Context()); err != nil {
		return err
	}
	if err := out.Send(&grpc_testing.StreamingOutputCallResponse{}); err != nil {
		return err
	}
	<-out.Context().Done()
	return nil
}

func (s *service) StreamingInputCall(in grpc.ClientStreamingServer[grpc_testing.StreamingInputCallRequest, grpc_testing.StreamingInputCallResponse]) error {
	if err := s.admit(in.Context()); err != nil {
		return err
	}
	for {
		if _, err := in.Recv(); err != nil {
			return in.SendAndClose(&grpc_testing.StreamingInputCallResponse{})
		}
	}
}

func (s *service) answers(f func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

// serve starts a server, and returns its address.
func serve(t *testing.T, s *service) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	grpc_testing.RegisterTestServiceServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// dial returns a client that is paced.
func dial(addr string, p *pacer.Pacer, opts ...grpcpacer.Option) (*grpc.ClientConn, error) {
	return grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(),
		grpc.WithChainUnaryInterceptor(grpcpacer.Unary(p, opts...)), grpc.WithChainStreamInterceptor(grpcpacer.Stream(p, opts...)))
}

func newClient(t *testing.T, s *service, list []policies.Policy, opts ...grpcpacer.Option) (*pacer.Pacer, grpc_testing.TestServiceClient) {
	t.Helper()
	p, err := pacer.New(pacer.Config{Upstream: "api", Policies: list})
	require.NoError(t, err)
	conn, err := dial(serve(t, s), p, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		require.NoError(t, p.Close())
	})
	return p, grpc_testing.NewTestServiceClient(conn)
}

// pausedFor returns for how long the first policy is paused.
func pausedFor(t *testing.T, p *pacer.Pacer) time.Duration {
	t.Helper()
	s, err := p.Status(t.Context())
	require.NoError(t, err)
	return max(s.PausedFor, s.Policies[0].PausedFor)
}

// A refusal with a wait pauses everyone; one without a limit pauses nobody.
func TestWhatTheServerReports(t *testing.T) {
	t.Parallel()
	info := func(d time.Duration) error {
		s, err := status.New(codes.ResourceExhausted, "slow down").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
		if err != nil {
			return err
		}
		return s.Err()
	}
	pushback := func(text string) func(context.Context) error {
		return func(ctx context.Context) error {
			_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", text))
			return status.Error(codes.ResourceExhausted, "slow down")
		}
	}
	for name, c := range map[string]struct {
		answer func(context.Context) error
		code   codes.Code
		paused time.Duration
		stray  bool // heeded as a refusal that does not concern others
	}{
		"retry info":             {func(context.Context) error { return info(time.Minute) }, codes.ResourceExhausted, time.Minute, false},
		"a hostile retry info":   {func(context.Context) error { return info(1 << 62) }, codes.ResourceExhausted, time.Hour, false},
		"a negative retry info":  {func(context.Context) error { return info(-time.Minute) }, codes.ResourceExhausted, 0, true},
		"pushback":               {pushback("60000"), codes.ResourceExhausted, time.Minute, false},
		"a hostile pushback":     {pushback("9223372036854775807"), codes.ResourceExhausted, time.Hour, false},
		"no pushback but a word": {pushback("soon"), codes.ResourceExhausted, 0, true},
		"do not repeat":          {pushback("-1"), codes.ResourceExhausted, 0, true},
		"unavailable":            {func(context.Context) error { return status.Error(codes.Unavailable, "down") }, codes.Unavailable, 0, false},
		"nothing":                {nil, codes.OK, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &service{answer: c.answer}
			p, client := newClient(t, s, []policies.Policy{policies.PerSecond(1000)})
			_, err := client.EmptyCall(t.Context(), &grpc_testing.Empty{})
			require.Equal(t, c.code, status.Code(err), "the server's error is the caller's, as it is")
			require.InDelta(t, c.paused, pausedFor(t, p), float64(30*time.Second))
			if c.paused == 0 {
				require.Zero(t, pausedFor(t, p))
			}
			now, err := p.Status(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.stray, now.Policies[0].Margin > 0)
		})
		t.Run(name+", to a stream", func(t *testing.T) {
			t.Parallel()
			s := &service{answer: c.answer}
			p, client := newClient(t, s, []policies.Policy{policies.PerSecond(1000)})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := client.StreamingOutputCall(ctx, &grpc_testing.StreamingOutputCallRequest{})
			require.NoError(t, err)
			_, err = stream.Recv()
			require.Equal(t, c.code, status.Code(err))
			require.InDelta(t, c.paused, pausedFor(t, p), float64(30*time.Second))
		})
	}
}

// A call holds its permit until it is over, and a stream until it ends, however that is.
func TestAStreamHoldsItsPermit(t *testing.T) {
	t.Parallel()
	s := &service{}
	p, client := newClient(t, s, []policies.Policy{policies.InFlight(1)})
	taken := func() bool {
		r, err := p.TryAcquire(t.Context())
		if err == nil {
			r.Release()
		}
		return err != nil
	}
	free := func() { require.Eventually(t, func() bool { return !taken() }, time.Minute, time.Millisecond) }

	_, err := client.EmptyCall(t.Context(), &grpc_testing.Empty{})
	require.NoError(t, err)
	require.False(t, taken())

	ctx, cancel := context.WithCancel(t.Context())
	stream, err := client.StreamingOutputCall(ctx, &grpc_testing.StreamingOutputCallRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	require.True(t, taken(), "it goes on")
	cancel()
	free()

	in, err := client.StreamingInputCall(t.Context())
	require.NoError(t, err)
	require.NoError(t, in.Send(&grpc_testing.StreamingInputCallRequest{}))
	require.True(t, taken())
	_, err = in.CloseAndRecv()
	require.NoError(t, err)
	require.False(t, taken(), "its only reply was read")

	s.answers(func(context.Context) error { return status.Error(codes.Internal, "broken") })
	stream, err = client.StreamingOutputCall(t.Context(), &grpc_testing.StreamingOutputCallRequest{})
	require.NoError(t, err)
	_, err = stream.Header()
	if err == nil {
		_, err = stream.Recv()
	}
	require.Error(t, err)
	free()
}

// A stream that panics when it is opened or read, as a codec may, holds no permit.
func TestAStreamThatPanicsHoldsNoPermit(t *testing.T) {
	t.Parallel()
	p, _ := newClient(t, &service{}, []policies.Policy{policies.InFlight(1)})
	for _, opens := range []bool{false, true} {
		require.PanicsWithValue(t, "a codec", func() {
			s, err := grpcpacer.Stream(p)(t.Context(), &grpc.StreamDesc{ServerStreams: true}, nil, "m",
				func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
					if !opens {
						panic("a codec")
					}
					return explosive{}, nil
				})
			require.NoError(t, err)
			_ = s.RecvMsg(nil)
		})
		r, err := p.TryAcquire(t.Context())
		require.NoError(t, err)
		r.Release()
	}
}

type explosive struct{ grpc.ClientStream }

func (explosive) RecvMsg(any) error { panic("a codec") }

// A call that an interceptor below makes for another one, such as for a token, is nested in it.
func TestACallInsideAnotherOne(t *testing.T) {
	t.Parallel()
	p, err := pacer.New(pacer.Config{Upstream: "api", Policies: []policies.Policy{policies.InFlight(1)}, MaxWait: 5 * time.Second})
	require.NoError(t, err)
	paced := grpcpacer.Unary(p)
	var invoke grpc.UnaryInvoker
	inside := func(ctx context.Context) error { return paced(ctx, "/token", nil, nil, nil, invoke) }
	var inner error
	invoke = func(ctx context.Context, method string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		if method == "/call" {
			inner = inside(ctx)
			return inside(pacer.With(ctx, pacer.Nested()))
		}
		return nil
	}
	require.NoError(t, paced(t.Context(), "/call", nil, nil, nil, invoke))
	var nested *pacer.LimitError
	require.ErrorAs(t, inner, &nested)
	require.Equal(t, codes.FailedPrecondition, status.Code(inner))

	stream := grpcpacer.Stream(p)
	_, err = stream(t.Context(), &grpc.StreamDesc{}, nil, "/call", func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
		return nil, inside(ctx)
	})
	require.ErrorAs(t, err, &nested)
	require.NoError(t, p.Close())
}

// A call's cost and scopes come from its method, its request and its metadata.
func TestCallOptions(t *testing.T) {
	t.Parallel()
	describe := func(ctx context.Context, method string, req any) []pacer.Option {
		all := []pacer.Option{pacer.Scope("method", method)}
		if md, ok := metadata.FromOutgoingContext(ctx); ok {
			all = append(all, pacer.Scope("tenant", strings.Join(md.Get("tenant"), "")))
		}
		if _, ok := req.(*grpc_testing.Empty); ok {
			all = append(all, pacer.Cost(3))
		}
		return all
	}
	p, client := newClient(t, &service{}, []policies.Policy{policies.Sliding(3, time.Hour).Per("tenant"), policies.Fixed(100, time.Hour).Per("method")}, grpcpacer.WithCallOptions(describe))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "tenant", "acme")
	_, err := client.EmptyCall(ctx, &grpc_testing.Empty{})
	require.NoError(t, err)
	s, err := p.Status(t.Context(), pacer.Scope("tenant", "acme"), pacer.Scope("method", "/grpc.testing.TestService/EmptyCall"))
	require.NoError(t, err)
	require.Zero(t, s.Policies[0].Remaining)
	require.Equal(t, int64(97), s.Policies[1].Remaining)

	_, err = client.EmptyCall(ctx, &grpc_testing.Empty{})
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	var limit *pacer.LimitError
	require.ErrorAs(t, err, &limit)
	require.Equal(t, "tenant=acme", limit.Scope)
	_, err = client.EmptyCall(t.Context(), &grpc_testing.Empty{})
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "it has no tenant")
	_, err = client.StreamingInputCall(t.Context())
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = client.EmptyCall(ended, &grpc_testing.Empty{})
	require.Equal(t, codes.Canceled, status.Code(err))
	require.NoError(t, p.Close())
	_, err = client.EmptyCall(ctx, &grpc_testing.Empty{})
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorIs(t, err, pacer.ErrClosed)
	require.Equal(t, codes.DeadlineExceeded, status.Code(&grpcpacer.Error{Err: context.DeadlineExceeded}))
}

func TestANilPacer(t *testing.T) {
	t.Parallel()
	require.PanicsWithValue(t, "grpcpacer: nil Pacer: make one with pacer.New", func() { grpcpacer.Unary(nil) })
	require.Panics(t, func() { grpcpacer.Stream(nil) })
}

// workerEnv makes a process of this test one of a fleet.
const workerEnv = "HEADWAY_GRPC_WORKER"

// fleetLimit keeps calls further apart than any machine of a test is late.
func fleetLimit() policies.Policy { return policies.AtMost(50, time.Second).Skew(time.Second) }

// work is what a process of the fleet does: workerEnv has the addresses of Redis and of the server.
func work() {
	redisAddr, addr, _ := strings.Cut(os.Getenv(workerEnv), " ")
	rdb := redis.NewClient(&redis.Options{Addr: redisAddr, ContextTimeoutEnabled: true})
	store, err := redisstore.New(rdb)
	if err != nil {
		panic(err)
	}
	p, err := pacer.New(pacer.Config{Upstream: "api", Store: store, Policies: []policies.Policy{fleetLimit()}, MaxWait: pacer.Forever, StoreTimeout: 30 * time.Second})
	if err != nil {
		panic(err)
	}
	conn, err := dial(addr, p)
	if err != nil {
		panic(err)
	}
	client := grpc_testing.NewTestServiceClient(conn)
	fmt.Fprintln(os.Stdout, "ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 2 {
				if _, err := client.EmptyCall(context.Background(), &grpc_testing.Empty{}); err != nil {
					fmt.Fprintln(os.Stdout, "failed", err)
				}
			}
		})
	}
	wg.Wait()
	_, _ = conn.Close(), p.Close()
}

// Four processes and a strict server: it refuses none.
func TestAFleet(t *testing.T) {
	t.Parallel()
	s := &service{}
	s.strict.SetLimits(upstreamtest.Sliding(50, time.Second))
	env := workerEnv + "=" + redistest.Start(t).Addr + " " + serve(t, s)
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	outs := make([]string, 4)
	for i := range 4 {
		ready.Add(1)
		done.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), env)
			in, _ := cmd.StdinPipe()
			out, _ := cmd.StdoutPipe()
			if err := cmd.Start(); err != nil {
				t.Error(err)
			}
			lines := bufio.NewScanner(out)
			lines.Scan()
			ready.Done()
			<-begin
			_, _ = in.Write([]byte("\n"))
			for lines.Scan() {
				outs[i] += lines.Text() + "\n"
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Zero(t, s.no, "%v", outs)
	require.Equal(t, 4*16*2, s.came)
	for _, out := range outs {
		require.NotContains(t, out, "failed")
	}
}

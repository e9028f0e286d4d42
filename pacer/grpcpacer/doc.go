// Package grpcpacer paces the calls of a gRPC client.
//
//	conn, err := grpc.NewClient(target,
//		grpc.WithChainUnaryInterceptor(grpcpacer.Unary(p)),
//		grpc.WithChainStreamInterceptor(grpcpacer.Stream(p)),
//		grpc.WithDisableRetry(),
//	)
//
// A call waits until its policies admit it, and holds its permits (policies.InFlight) until it is over: a stream until it ends, its
// context is done, or the server has sent the only message of its reply. A call that may not go in time gets an [*Error] and is not sent.
//
// # What the server says
//
// RESOURCE_EXHAUSTED is treated as a 429 is for HTTP: the call was refused, and the whole fleet waits for as long as the server asks. The
// server asks by a google.rpc.RetryInfo in the details of the status, or by grpc-retry-pushback-ms in the trailer (gRFC A6). UNAVAILABLE
// is not about limits, and pauses no call.
//
// # Retries
//
// gRPC repeats calls below its interceptors: as the service's configuration says, or by itself before the server has seen the call.
// Attempts that are repeated there are not charged, so turn this off with grpc.WithDisableRetry. Repeat calls above the interceptors
// instead, where each attempt is charged: in an interceptor that comes before this one in the chain, with [pacer.NotBefore] for the wait
// that the server asks for.
package grpcpacer

// Package grpcpacer paces the calls of a gRPC client.
//
//	conn, err := grpc.NewClient(target,
//		grpc.WithChainUnaryInterceptor(grpcpacer.Unary(p)),
//		grpc.WithChainStreamInterceptor(grpcpacer.Stream(p)),
//		grpc.WithDisableRetry(),
//	)
//
// A call waits until its policies admit it, and holds its permits (policies.InFlight) until it is over: a stream until it ends, its
// context is done, or the server has sent the only message of its reply. A call that may not go in time gets a [*Error] and is not sent.
//
// # What the server says
//
// RESOURCE_EXHAUSTED is what a 429 is for HTTP: the call was refused, and the fleet heeds for how long the server asks to wait, by a
// google.rpc.RetryInfo among the details of the status, or by grpc-retry-pushback-ms in the trailer (gRFC A6). UNAVAILABLE says nothing of
// limits, and pauses nobody.
//
// # Retries
//
// gRPC repeats calls below its interceptors, by the service's configuration or, before the server has seen the call, by itself. What is
// repeated there is not charged again, so turn that off with grpc.WithDisableRetry, and repeat above the interceptors, where each attempt is
// charged: with an interceptor that comes before this one in the chain, and pacer.NotBefore for the wait that the server asks for.
package grpcpacer

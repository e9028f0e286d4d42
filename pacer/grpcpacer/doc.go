// Package grpcpacer paces the calls of a gRPC client.
//
//	conn, err := grpc.NewClient(target,
//		grpc.WithChainUnaryInterceptor(grpcpacer.Unary(p)),
//		grpc.WithChainStreamInterceptor(grpcpacer.Stream(p)),
//		grpc.WithDisableRetry(),
//	)
//
// A call waits until its policies admit it, and holds its permits (policies.InFlight) until it has ended: a stream until the server ends
// it, its context is done, or you have received the only message of its reply. A call that cannot start in time is not sent, and returns an
// [*Error].
//
// # Refusals by the server
//
// RESOURCE_EXHAUSTED has the effect of a 429 in HTTP: the call counts as refused, and the whole fleet waits for the wait that the server
// requests: by a google.rpc.RetryInfo in the details of the status, or by grpc-retry-pushback-ms in the trailer (gRFC A6). UNAVAILABLE is
// not about limits, and pauses no call.
//
// # Retries
//
// gRPC retries calls below its interceptors: by the service's configuration, or transparently before the server has seen the call. Such
// retries are not charged, so turn them off with grpc.WithDisableRetry. Retry above the interceptors instead, where each attempt is
// charged: in an interceptor that comes before this one in the chain, with [pacer.NotBefore] for the wait that the server requests.
package grpcpacer

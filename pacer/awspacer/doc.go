// Package awspacer paces the calls of clients of the AWS SDK for Go v2.
//
//	cfg, err := config.LoadDefaultConfig(ctx)
//	if err != nil {
//		return err
//	}
//	awspacer.AppendMiddlewares(&cfg.APIOptions, p)
//	client := s3.NewFromConfig(cfg) // and any other service
//
// Each attempt of a call waits until its policies admit it, and only then gets its credentials, its endpoint and its signature. A
// signature of AWS is valid for minutes. If the wait came after it, as in an http.RoundTripper below the SDK, a call that waits for six
// minutes would be sent with a signature that has expired. [AppendMiddlewares] lists where the middlewares are.
//
// An attempt holds its permits (policies.InFlight) until its response has been read. If the output has a body, as that of S3's GetObject,
// that is until you have read the body to its end or to an error, close it, or the context ends. A call that may not go in time gets an
// [*Error] and is not sent. An attempt that fails before it is sent, such as for want of credentials, gives back what it was charged.
//
// # Scopes and costs
//
// A call carries the scopes [ScopeService], [ScopeRegion] and [ScopeOperation], so that a policy can be Per("service", "operation").
// [WithCallOptions] adds scopes, such as a table or an account, and says what a call costs.
//
// # Throttling
//
// The SDK's own classification decides which errors are throttling errors: retry.DefaultThrottles, or [WithThrottles]. Such an error is
// what a 429 is for HTTP: the call was refused, and the whole fleet waits for as long as the service asks, by X-Amz-Retry-After or
// Retry-After. Most throttling errors of AWS name no wait: adaptive policies slow down then, and for others see policies.Policy.Margin and
// [WithThrottlePause]. A throttling error concerns its own service alone, if a policy is per service: see [WithThrottleScope].
//
// # Retries
//
// The SDK's retryer works as it does without this package: it decides which calls are repeated, when, and at what price in retry tokens.
// Waiting costs no token. A call that the pacer refuses is not repeated, and is charged no token. The retry mode "adaptive" paces calls in
// each client by itself, which a pacer does better: leave it at "standard".
//
// # Calls within calls
//
// Some calls make others first: S3 Express its CreateSession, a provider of credentials its AssumeRole. If they have the same pacer, they
// are charged, and go with the permits of the call that needs them, so that they do not wait for each other.
package awspacer

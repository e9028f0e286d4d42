// Package awspacer paces the calls that clients of the AWS SDK for Go v2 make.
//
//	cfg, err := config.LoadDefaultConfig(ctx)
//	if err != nil {
//		return err
//	}
//	awspacer.AppendMiddlewares(&cfg.APIOptions, p)
//	client := s3.NewFromConfig(cfg) // and any other service
//
// Each attempt of a call waits until its policies admit it, and only then gets its credentials, its endpoint and its signature. An AWS
// signature is valid for minutes. If the wait came after it, as in an http.RoundTripper below the SDK, a call that waits for six minutes
// would be sent with a signature that has expired. [AppendMiddlewares] lists where the middlewares are.
//
// An attempt holds its permits (policies.InFlight) until its response has been read. If the output has a body, as that of S3's GetObject,
// that is until you have read the body to its end or to an error, close it, or the context ends. A call that may not go in time gets an
// [*Error] and is not sent. An attempt that fails before it is sent, for example because there are no credentials, gives back what it was
// charged.
//
// # Scopes and costs
//
// A call carries the scopes [ScopeService], [ScopeRegion] and [ScopeOperation], so that a policy can be Per("service", "operation").
// [WithCallOptions] adds scopes, such as a table or an account, and says what a call costs.
//
// # Throttling
//
// The SDK's own classification decides which errors are throttling errors: retry.DefaultThrottles, or [WithThrottles]. Such an error is
// treated as a 429 is for HTTP: the call was refused, and the whole fleet waits for as long as the service asks, by X-Amz-Retry-After or
// Retry-After. Most throttling errors of AWS name no wait: adaptive policies then slow down, and for others see [policies.Policy.Margin]
// and [WithThrottlePause]. If a policy is Per service, a throttling error affects its own service only: see [WithThrottleScope].
//
// # Retries
//
// The SDK's retryer works as it does without this package: it decides which calls are repeated, when, and how many retry tokens that
// costs. Waiting costs no token. A call that the pacer refuses is not repeated, and costs no token. Leave the retry mode at "standard":
// the mode "adaptive" paces the calls of each client separately, which the pacer already does for the whole fleet.
//
// # Calls within calls
//
// Some calls first make another call: S3 Express calls CreateSession, and a credentials provider may call AssumeRole. If these calls have
// the same pacer, they are charged, and share the permits of the call that needs them, so that the two do not wait for each other.
package awspacer

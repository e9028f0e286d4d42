// Package awspacer paces the calls that clients of the AWS SDK for Go v2 make.
//
//	cfg, err := config.LoadDefaultConfig(ctx)
//	if err != nil {
//		return err
//	}
//	awspacer.AppendMiddlewares(&cfg.APIOptions, p)
//	client := s3.NewFromConfig(cfg) // and any other service
//
// Each attempt of a call waits until its policies admit it. Only then does the SDK fetch credentials, resolve the endpoint and sign. An AWS
// signature is valid for minutes. If a call waited after signing, as in an http.RoundTripper below the SDK, a wait of six minutes would
// make its signature expire. [AppendMiddlewares] lists where the middlewares are.
//
// An attempt holds its permits (policies.InFlight) until its response has been read. If the output has a body, like that of S3's GetObject,
// this lasts until you have read the body to its end or to an error, you close it, or the context ends. A call that cannot start in time is
// not sent, and returns an [*Error]. An attempt that fails before it is sent, for example because there are no credentials, gives back what
// it was charged.
//
// # Scopes and costs
//
// A call carries the scopes [ScopeService], [ScopeRegion] and [ScopeOperation], so that a policy can be Per("service", "operation").
// [WithCallOptions] adds scopes, such as a table or an account, and sets what a call costs.
//
// # Throttling
//
// The SDK's own classification decides which errors are throttling errors: retry.DefaultThrottles, or [WithThrottles]. Such an error has
// the effect of a 429 in HTTP: the call counts as refused, and the whole fleet waits for the time in X-Amz-Retry-After or Retry-After. Most
// throttling errors of AWS contain neither: adaptive policies then slow down; for other policies, see [policies.Policy.Margin] and
// [WithThrottlePause]. If a policy is Per service, a throttling error affects its own service only: see [WithThrottleScope].
//
// # Retries
//
// The SDK's retryer works as it does without this package: it decides which calls to retry, when, and how many retry tokens that costs.
// Waiting costs no token. A call that the pacer refuses is not retried, and costs no token. Leave the retry mode at "standard": the mode
// "adaptive" paces the calls of each client separately, which the pacer already does for the whole fleet.
//
// # Calls within calls
//
// Some calls first make another call: S3 Express calls CreateSession, and a credentials provider may call AssumeRole. If these inner calls
// have the same pacer, they are charged, and share the permits of the outer call, so that the two do not wait for each other.
package awspacer

package awspacer_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/awspacer"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

func newPacer(t *testing.T, list ...policies.Policy) *pacer.Pacer {
	t.Helper()
	p, err := pacer.New(pacer.Config{Upstream: "aws", Policies: list, MaxWait: pacer.Forever, Jitter: pacer.NoJitter})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// everySixMinutes admits one call, and the next six minutes later.
func everySixMinutes() policies.Policy { return policies.Sliding(1, 6*time.Minute) }

// A call that waits six minutes is signed afterwards, with credentials that are fetched afterwards.
func TestTheSignatureIsMadeAfterTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{}
		cfg := config(serve(t, u))
		awspacer.AppendMiddlewares(&cfg.APIOptions, newPacer(t, everySixMinutes()))
		start := time.Now()
		_, err := sqs.NewFromConfig(cfg).ListQueues(t.Context(), &sqs.ListQueuesInput{})
		require.NoError(t, err)
		_, err = dynamodb.NewFromConfig(cfg).ListTables(t.Context(), &dynamodb.ListTablesInput{})
		require.NoError(t, err)
		_, err = s3.NewFromConfig(cfg).DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: aws.String("b")})
		require.NoError(t, err)
		codes, accepted := u.seen()
		require.Empty(t, codes)
		require.Equal(t, 3, accepted)
		require.GreaterOrEqual(t, time.Since(start), 12*time.Minute)
	})
}

// Below the SDK, the wait comes after the signature.
func TestPacedBelowTheSDKTheSignatureExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{}
		paced, err := transport.New(newPacer(t, everySixMinutes()), transport.WithBase(serve(t, u)))
		require.NoError(t, err)
		client := sqs.NewFromConfig(config(paced))
		_, err = client.ListQueues(t.Context(), &sqs.ListQueuesInput{})
		require.NoError(t, err)
		_, err = client.ListQueues(t.Context(), &sqs.ListQueuesInput{})
		var api smithy.APIError
		require.ErrorAs(t, err, &api)
		require.Equal(t, "RequestTimeTooSkewed", api.ErrorCode())
	})
}

// Clients that sign above the transport can sign anew below it.
func TestTheTransportSignsAfterTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{}
		sign := func(req *http.Request) error {
			creds, err := credentials(req.Context())
			if err != nil {
				return err
			}
			return v4.NewSigner().SignHTTP(req.Context(), creds, req, req.Header.Get("X-Amz-Content-Sha256"), "s3", "eu-central-1", time.Now(),
				func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
		}
		paced, err := transport.New(newPacer(t, everySixMinutes()), transport.WithBase(serve(t, u)), transport.WithSigner(sign))
		require.NoError(t, err)
		client := s3.NewFromConfig(once(paced))
		for range 3 {
			_, err = client.DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: aws.String("b")})
			require.NoError(t, err)
		}
		codes, accepted := u.seen()
		require.Empty(t, codes)
		require.Equal(t, 3, accepted)
	})
}

// remaining returns how much is left of the first policy for a call.
func remaining(t *testing.T, p *pacer.Pacer, opts ...pacer.ScopeOption) int64 {
	t.Helper()
	return status(t, p, opts...).Policies[0].Remaining
}

func status(t *testing.T, p *pacer.Pacer, opts ...pacer.ScopeOption) *pacer.Status {
	t.Helper()
	s, err := p.Status(t.Context(), opts...)
	require.NoError(t, err)
	return s
}

// Calls carry their service, region and operation, and options from their input.
func TestScopesAndCosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.Fixed(100, time.Hour).Per(awspacer.ScopeService, awspacer.ScopeRegion, awspacer.ScopeOperation), policies.Fixed(100, time.Hour).Per("table").Optional())
		cfg := once(serve(t, &upstream{}))
		awspacer.AppendMiddlewares(&cfg.APIOptions, p, awspacer.WithCallOptions(func(ctx context.Context, service, operation string, input any) []pacer.Option {
			require.Equal(t, "eu-central-1", awsmiddleware.GetRegion(ctx))
			require.Contains(t, []string{"DynamoDB DescribeTable", "SQS ListQueues"}, service+" "+operation)
			if in, ok := input.(*dynamodb.DescribeTableInput); ok {
				return []pacer.Option{pacer.Scope("table", *in.TableName), pacer.Cost(5)}
			}
			return nil
		}))
		db := dynamodb.NewFromConfig(cfg)
		for range 2 {
			_, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("users")})
			require.NoError(t, err)
		}
		_, err := sqs.NewFromConfig(cfg).ListQueues(t.Context(), &sqs.ListQueuesInput{})
		require.NoError(t, err)
		all := func(service, region, operation string) []pacer.ScopeOption {
			return []pacer.ScopeOption{pacer.Scope("service", service), pacer.Scope("region", region), pacer.Scope("operation", operation), pacer.Scope("table", "users")}
		}
		require.Equal(t, int64(90), remaining(t, p, all("DynamoDB", "eu-central-1", "DescribeTable")...))
		require.Equal(t, int64(99), remaining(t, p, all("SQS", "eu-central-1", "ListQueues")...))
		s, err := p.Status(t.Context(), all("SQS", "eu-central-1", "ListQueues")...)
		require.NoError(t, err)
		require.Equal(t, int64(90), s.Policies[1].Remaining, "of the table")
	})
}

// A call in flight is not taken for one of another consumer, if you report what the service states as left of a quota.
func TestCallsInFlightAreOurs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.Fixed(100, time.Hour).Named("quota"))
		var reported error
		cfg := once(serve(t, &upstream{answer: func(_ int, w http.ResponseWriter, r *http.Request) {
			// It has not counted the call that it answers.
			reported = p.Report(r.Context(), policies.Feedback{Policies: []string{"quota"}, Limit: policies.Reported(100), Remaining: policies.Reported(90)})
			_, _ = w.Write([]byte("{}"))
		}}))
		awspacer.AppendMiddlewares(&cfg.APIOptions, p)
		_, err := sqs.NewFromConfig(cfg).ListQueues(t.Context(), &sqs.ListQueuesInput{})
		require.NoError(t, err)
		require.NoError(t, reported)
		require.Equal(t, int64(89), remaining(t, p))
	})
}

// A presigned URL is made at once, and charges nothing.
func TestPresignedURLs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, everySixMinutes())
		_, err := p.Acquire(t.Context())
		require.NoError(t, err)
		start := time.Now()
		cfg := once(serve(t, &upstream{}))
		awspacer.AppendMiddlewares(&cfg.APIOptions, p)
		presign := s3.NewPresignClient(s3.NewFromConfig(cfg))
		url, err := presign.PresignGetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("k")})
		require.NoError(t, err)
		require.Contains(t, url.URL, "X-Amz-Signature=")
		post, err := presign.PresignPostObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("b"), Key: aws.String("k")})
		require.NoError(t, err)
		require.NotEmpty(t, post.Values)
		require.Zero(t, time.Since(start))
		require.InDelta(t, 6*time.Minute, status(t, p).Policies[0].Next, float64(time.Minute), "of the first call alone")
	})
}

// The middlewares are at their documented places.
func TestWhereTheMiddlewaresAre(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := once(serve(t, &upstream{}))
		awspacer.AppendMiddlewares(&cfg.APIOptions, newPacer(t, policies.PerSecond(1000)))
		var finalize, deserialize []string
		cfg.APIOptions = append(cfg.APIOptions, func(s *middleware.Stack) error {
			finalize, deserialize = s.Finalize.List(), s.Deserialize.List()
			return nil
		})
		_, err := s3.NewFromConfig(cfg).ListBuckets(t.Context(), &s3.ListBucketsInput{})
		require.NoError(t, err)
		at := func(id string) int {
			for i, name := range finalize {
				if name == id {
					return i
				}
			}
			require.Fail(t, "no middleware", id)
			return -1
		}
		require.Equal(t, at("Retry")+1, at("Headway aws"))
		for _, id := range []string{"ResolveAuthScheme", "GetIdentity", "ResolveEndpointV2", "Signing"} {
			require.Less(t, at("Headway aws"), at(id))
		}
		require.Equal(t, "Headway aws", deserialize[len(deserialize)-1])
	})
}

// Without the SDK's retries, calls are paced, too.
func TestWithoutTheRetryMiddleware(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, everySixMinutes())
		u := &upstream{}
		cfg := once(serve(t, u))
		cfg.APIOptions = append(cfg.APIOptions, func(s *middleware.Stack) error {
			_, err := s.Finalize.Remove("Retry")
			return err
		})
		awspacer.AppendMiddlewares(&cfg.APIOptions, p)
		client := sqs.NewFromConfig(cfg)
		for range 2 {
			_, err := client.ListQueues(t.Context(), &sqs.ListQueuesInput{})
			require.NoError(t, err)
		}
		codes, _ := u.seen()
		require.Empty(t, codes)
		require.Zero(t, remaining(t, p))
	})
}

// A call can be taken out, by its own options.
func TestACallWithoutThePacer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.Fixed(100, time.Hour))
		cfg := once(serve(t, &upstream{}))
		awspacer.AppendMiddlewares(&cfg.APIOptions, p)
		cfg.APIOptions = append(cfg.APIOptions, func(s *middleware.Stack) error {
			_, err := s.Finalize.Remove("Headway aws")
			return err
		})
		_, err := sqs.NewFromConfig(cfg).ListQueues(t.Context(), &sqs.ListQueuesInput{})
		require.NoError(t, err)
		require.Equal(t, int64(100), remaining(t, p))
	})
}

// A call can have several pacers, but each only once.
func TestSeveralPacers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, policies.Fixed(100, time.Hour))
		other, err := pacer.New(pacer.Config{Upstream: "other", Policies: []policies.Policy{policies.Fixed(100, time.Hour), policies.InFlight(1)}})
		require.NoError(t, err)
		defer func() { require.NoError(t, other.Close()) }()
		cfg := once(serve(t, &upstream{}))
		awspacer.AppendMiddlewares(&cfg.APIOptions, p)
		awspacer.AppendMiddlewares(&cfg.APIOptions, other)
		client := sqs.NewFromConfig(cfg)
		for range 2 {
			_, err = client.ListQueues(t.Context(), &sqs.ListQueuesInput{})
			require.NoError(t, err)
		}
		require.Equal(t, int64(98), remaining(t, p))
		require.Equal(t, int64(98), remaining(t, other))
		awspacer.AppendMiddlewares(&cfg.APIOptions, p)
		_, err = sqs.NewFromConfig(cfg).ListQueues(t.Context(), &sqs.ListQueuesInput{})
		var config *pacer.ConfigError
		require.ErrorAs(t, err, &config)
		require.ErrorContains(t, err, `awspacer: Pacer is "aws": `)
		require.Equal(t, int64(98), remaining(t, p))
	})
}

// Copies of a Config have pacers of their own, though their options were once in one array.
func TestCopiesOfAConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, other := newPacer(t, policies.Fixed(100, time.Hour)), newPacer(t, policies.Fixed(100, time.Hour))
		cfg := once(serve(t, &upstream{}))
		cfg.APIOptions = make([]func(*middleware.Stack) error, 0, 8)
		same := cfg
		awspacer.AppendMiddlewares(&cfg.APIOptions, p)
		awspacer.AppendMiddlewares(&same.APIOptions, other)
		_, err := sqs.NewFromConfig(cfg).ListQueues(t.Context(), &sqs.ListQueuesInput{})
		require.NoError(t, err)
		require.Equal(t, []int64{99, 100}, []int64{remaining(t, p), remaining(t, other)})
	})
}

func TestANilPacer(t *testing.T) {
	t.Parallel()
	require.PanicsWithValue(t, "awspacer: nil Pacer: make one with pacer.New", func() { awspacer.AppendMiddlewares(&aws.NewConfig().APIOptions, nil) })
}

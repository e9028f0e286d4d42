package awspacer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
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
		require.Equal(t, 12*time.Minute, time.Since(start).Truncate(time.Second))
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

package awspacer_test

import (
	"context"
	"log"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/awspacer"
	"github.com/headway-go/headway/policies"
)

// Clients whose calls have a limit for each service and operation, and for each table of DynamoDB.
func Example() {
	p, err := pacer.New(pacer.Config{Upstream: "aws", Policies: []policies.Policy{
		policies.PerSecond(20).Per(awspacer.ScopeService, awspacer.ScopeOperation),
		policies.PerSecond(500).Per("table").Optional(),
		policies.InFlight(50),
	}})
	if err != nil {
		log.Fatal(err)
	}
	table := awspacer.WithCallOptions(func(_ context.Context, _, _ string, input any) []pacer.Option {
		if in, ok := input.(*dynamodb.GetItemInput); ok {
			return []pacer.Option{pacer.Scope("table", aws.ToString(in.TableName))}
		}
		return nil
	})
	cfg := aws.Config{Region: "eu-central-1"} // or of config.LoadDefaultConfig
	awspacer.AppendMiddlewares(&cfg.APIOptions, p, table)
	_ = dynamodb.NewFromConfig(cfg) // and any other service
	_ = p.Close()
	// Output:
}

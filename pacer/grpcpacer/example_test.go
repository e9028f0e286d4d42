package grpcpacer_test

import (
	"context"
	"log"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/grpcpacer"
	"github.com/headway-go/headway/policies"
)

// A client whose calls have a limit for each method.
func Example() {
	p, err := pacer.New(pacer.Config{Upstream: "speech", Policies: []policies.Policy{
		policies.PerMinute(300),
		policies.InFlight(20), // a stream counts until it ends
		policies.PerSecond(5).Per("method"),
	}})
	if err != nil {
		log.Fatal(err)
	}
	method := grpcpacer.WithCallOptions(func(_ context.Context, method string, _ any) []pacer.Option {
		return []pacer.Option{pacer.Scope("method", method)}
	})
	conn, err := grpc.NewClient("localhost:50051",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(grpcpacer.Unary(p, method)),
		grpc.WithChainStreamInterceptor(grpcpacer.Stream(p, method)),
		grpc.WithDisableRetry(), // what gRPC repeats by itself is not charged
	)
	if err != nil {
		log.Fatal(err)
	}
	_, _ = conn.Close(), p.Close()
	// Output:
}

package awspacer_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/awspacer"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport/upstreamtest"
)

// workerEnv makes a process of this test one of a fleet. It has the addresses of Redis and of the upstream.
const workerEnv = "HEADWAY_AWS_WORKER"

// fleetLimit keeps calls further apart than any machine of a test is late.
func fleetLimit() policies.Policy { return policies.AtMost(50, time.Second).Skew(time.Second) }

// work is what a process of the fleet does: 16 goroutines make two calls each.
func work() error {
	redisAddr, addr, _ := strings.Cut(os.Getenv(workerEnv), " ")
	rdb := redis.NewClient(&redis.Options{Addr: redisAddr, ContextTimeoutEnabled: true})
	defer func() { _ = rdb.Close() }()
	store, err := redisstore.New(rdb)
	if err != nil {
		return err
	}
	p, err := pacer.New(pacer.Config{Upstream: "aws", Store: store, Policies: []policies.Policy{fleetLimit()}, MaxWait: pacer.Forever, StoreTimeout: 30 * time.Second})
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	cfg := aws.Config{Region: "eu-central-1", Credentials: credentials, BaseEndpoint: aws.String(addr)}
	awspacer.AppendMiddlewares(&cfg.APIOptions, p)
	client := sqs.NewFromConfig(cfg)
	fmt.Fprintln(os.Stdout, "ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	var wg sync.WaitGroup
	failed := make([]error, 16)
	for i := range failed {
		wg.Go(func() {
			for range 2 {
				_, err := client.ListQueues(context.Background(), &sqs.ListQueuesInput{})
				failed[i] = errors.Join(failed[i], err)
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

// Four processes and a strict service: it refuses none.
func TestAFleet(t *testing.T) {
	t.Parallel()
	u := &upstream{}
	u.strict.SetLimits(upstreamtest.Sliding(50, time.Second))
	server := httptest.NewServer(u)
	defer server.Close()
	env := workerEnv + "=" + redistest.Start(t).Addr + " " + server.URL
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	for range 4 {
		ready.Add(1)
		done.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), env)
			in, _ := cmd.StdinPipe()
			out, _ := cmd.StdoutPipe()
			var problems strings.Builder
			cmd.Stderr = &problems
			if err := cmd.Start(); err != nil {
				t.Error(err)
			}
			_, _ = bufio.NewReader(out).ReadString('\n')
			ready.Done()
			<-begin
			_, _ = io.WriteString(in, "\n")
			if err := cmd.Wait(); err != nil {
				t.Error(err, problems.String())
			}
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
	codes, accepted := u.seen()
	require.Empty(t, codes)
	require.Equal(t, 4*16*2, accepted)
}

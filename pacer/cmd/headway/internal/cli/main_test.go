package cli_test

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/cli"
)

// asCommand makes this test binary the command itself, for tests that run it in a terminal.
const asCommand = "HEADWAY_TEST_COMMAND"

// No goroutine outlives what started it.
func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(cli.Run(context.Background(), os.Args[1:], cli.Env{
			Get: os.Getenv, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Open: cli.OpenRedis,
		}))
	}
	goleak.VerifyTestMain(m)
}

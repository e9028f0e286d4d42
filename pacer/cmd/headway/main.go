// Command headway shows the state of an upstream across all processes that pace it, and intervenes: it lists upstreams, shows their limits
// and waiting calls, once or live, pauses, resumes and resets, and changes limits. docs/command.md describes it.
//
//	headway ls --redis redis://cache.internal:6379
//	headway top zendesk
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	code := cli.Run(ctx, os.Args[1:], cli.Env{
		Get: os.Getenv, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Open: cli.OpenRedis,
	})
	stop()
	os.Exit(code)
}

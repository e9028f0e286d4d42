package asynqpacer_test

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/asynqpacer"
	"github.com/headway-go/headway/policies"
)

// A task is booked when it is enqueued, and a handler behind the middleware goes at the Pacer's pace.
func ExampleNewTask() {
	p, err := pacer.New(pacer.Config{Upstream: "crm", Policies: []policies.Policy{policies.Fixed(1000, time.Hour)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	tok, wait, err := p.Book(context.Background(), pacer.MaxWait(time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	task := asynqpacer.NewTask("call", []byte("hello"), tok, wait, asynq.Queue("crm")) // client.Enqueue(task)

	mux := asynq.NewServeMux() // server.Run(mux)
	mux.Use(asynqpacer.Middleware(p))
	mux.HandleFunc("call", func(ctx context.Context, task *asynq.Task) error {
		fmt.Println(string(task.Payload()), asynqpacer.Reservation(ctx) != nil)
		return nil
	})
	fmt.Println(mux.ProcessTask(context.Background(), task))
	fmt.Println(mux.ProcessTask(context.Background(), task)) // a second delivery
	// Output:
	// hello true
	// <nil>
	// pacer: upstream "crm": the token was redeemed or cancelled before: one booking is one call; a later attempt of the job needs Attempt, another job a Book of its own
}

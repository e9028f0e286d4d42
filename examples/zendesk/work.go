package main

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/nukosuke/go-zendesk/zendesk"
)

const (
	pageSize = 50
	// tag is what the program puts on tickets.
	tag = "synced"
	// failurePause keeps a broken upstream from being hammered.
	failurePause = 200 * time.Millisecond
)

// A syncer works on the tickets of one account.
type syncer struct {
	sdk     *zendesk.Client
	meter   *meter
	paced   bool
	every   int64 // which tickets are tagged: those whose id is a multiple; 0: none
	tickets chan int64
}

func newSyncer(sdk *zendesk.Client, m *meter, c *config) *syncer {
	s := &syncer{sdk: sdk, meter: m, paced: !c.unpaced, tickets: make(chan int64, pageSize)}
	if !c.isReal() { // the real API is only read from
		s.every = taggedEvery(c.limit)
	}
	return s
}

// endpointLimit is how many updates of tickets Zendesk allows an account in a minute.
// Source: https://developer.zendesk.com/api-reference/introduction/rate-limits/#endpoint-rate-limits
const endpointLimit = 100

// taggedEvery returns the distance of tagged tickets: ten, or more if that were over four fifths of the updates that Zendesk allows.
func taggedEvery(limit int) int64 {
	updates := endpointLimit * 4 / 5
	return int64(max(10, (limit+updates-1)/updates))
}

// run lists the account's tickets, over and over, and lets workers sync them, until the context ends.
func (s *syncer) run(ctx context.Context, workers int) {
	var wg sync.WaitGroup
	wg.Go(func() { s.list(ctx) })
	for range workers {
		wg.Go(func() { s.work(ctx) })
	}
	wg.Wait()
}

// list hands the tickets out, page by page.
func (s *syncer) list(ctx context.Context) {
	defer close(s.tickets)
	after := ""
	for ctx.Err() == nil {
		var page []zendesk.Ticket
		var meta zendesk.CursorPaginationMeta
		err := s.call(ctx, func() (err error) {
			page, meta, err = s.sdk.GetTicketsCBP(ctx, &zendesk.CBPOptions{
				CursorPagination: zendesk.CursorPagination{PageSize: pageSize, PageAfter: after},
			})
			return err
		})
		if ended(err) {
			return
		}
		if err != nil {
			continue
		}
		for _, t := range page {
			select {
			case s.tickets <- t.ID:
			case <-ctx.Done():
				return
			}
		}
		if after = meta.AfterCursor; !meta.HasMore {
			after = "" // once more from the beginning
		}
	}
}

// call repeats a call until the answer is not a 429. It counts and returns other failures.
func (s *syncer) call(ctx context.Context, f func() error) error {
	for {
		err := f()
		failure, ok := errors.AsType[zendesk.Error](err)
		if !ok || failure.Status() != http.StatusTooManyRequests {
			if err != nil && !ended(err) {
				s.meter.fail(err)
				_ = pause(ctx, failurePause)
			}
			return err
		}
		// With Headway, the transport has reported it to all processes, and the next call waits for its slot.
		if !s.paced {
			began := time.Now()
			_ = pause(ctx, retryAfter(failure.Headers()))
			s.meter.sleep(time.Since(began))
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// retryAfter returns the wait that a 429 requests, as plain clients read it.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 1 {
		return time.Second
	}
	return time.Duration(n) * time.Second
}

// ended reports whether a call did not go, or was given up, because the run is over. Headway refuses a call whose slot is after that, with
// a typed error.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

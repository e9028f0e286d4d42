package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/k-capehart/go-salesforce/v3"

	"github.com/headway-go/headway/pacer"
)

const (
	// chunk is how many records one query requests: three pages of 200, the smallest that Salesforce has. The SDK returns all pages of a
	// query or none, so a refusal in between loses only those before.
	chunk = 600
	// lookEvery is how often an interactive user reads a customer's record.
	lookEvery = 500 * time.Millisecond
	// failurePause keeps a broken upstream from being hammered.
	failurePause = 200 * time.Millisecond
	// maxFailures is after how many failures in a row an object of a tenant is given up, for example because the token may not read it.
	maxFailures = 5
	// soon is the longest wait after which a call is repeated: the limits per second come back soon, the day does not.
	soon = time.Minute
)

// objects are read for each tenant.
func objects() []string { return []string{"Contact", "Opportunity", "Case"} }

// A tenant is a customer whose data the org holds: an Account.
type tenant struct {
	id    string
	label string          // names it in scopes and reports
	sf    *sdk.Salesforce // for the calls of its readers
}

// findTenants returns the first accounts of the org.
func findTenants(sf *sdk.Salesforce) ([]*tenant, error) {
	var found []struct{ Id, Name string } //nolint:revive // Salesforce's name
	if err := sf.Query(fmt.Sprintf("SELECT Id, Name FROM Account ORDER BY Id LIMIT %d", tenants), &found); err != nil {
		return nil, err
	}
	all := make([]*tenant, len(found))
	labels := map[string]bool{}
	for i, a := range found {
		all[i] = &tenant{id: a.Id, label: strings.ToLower(strings.Join(strings.Fields(a.Name), "-"))}
		if labels[all[i].label] {
			all[i].label = a.Id
		}
		labels[all[i].label] = true
	}
	if len(all) == 0 {
		return nil, errors.New("the org has no accounts, so there is nothing to read")
	}
	return all, nil
}

// A stream is a tenant's records of one object, and how far they have been read.
type stream struct {
	tenant *tenant
	object string
	after  string // the id of the last record that was read
	failed int    // how often in a row
}

// readAll lets readers read all objects of all tenants, over and over, until the context ends or the day's part is spent: then it returns
// why.
func readAll(ctx context.Context, all []*tenant, m *meter, workers int) (stopped *pacer.LimitError) {
	streams := make(chan *stream, len(all)*len(objects()))
	for _, object := range objects() {
		for _, t := range all {
			streams <- &stream{tenant: t, object: object}
		}
	}
	var left atomic.Int64 // streams that can be read
	left.Store(int64(cap(streams)))
	why := make(chan *pacer.LimitError, workers)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for s := range streams {
				err := s.read(m)
				if m.judge(ctx, err) {
					s.failed = 0
				} else if s.failed++; s.failed == maxFailures { // every attempt is a call
					if left.Add(-1) == 0 {
						close(streams)
					}
					continue
				}
				streams <- s // others may wait for it
				if limit := spent(err); limit != nil {
					why <- limit
					return
				}
				if ctx.Err() != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case stopped = <-why:
	default:
	}
	return stopped
}

// lookNowAndThen makes interactive calls, until the context ends or the day is spent: then it returns why.
func lookNowAndThen(ctx context.Context, all []*tenant, sf *sdk.Salesforce, m *meter) (stopped *pacer.LimitError) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		resp, err := sf.DoRequest(http.MethodGet, "/sobjects/Account/"+all[i%len(all)].id, nil)
		if err == nil {
			_ = resp.Body.Close() // the SDK leaves that to its callers
		}
		if limit := spent(err); limit != nil {
			return limit
		}
		m.judge(ctx, err)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// judge counts the errors of calls. It returns false for a failure, which a refusal because of a limit is not.
func (m *meter) judge(ctx context.Context, err error) bool {
	switch {
	case err == nil || ctx.Err() != nil || spent(err) != nil:
		return true
	case errors.Is(err, pacer.ErrRefused), errors.Is(err, context.DeadlineExceeded):
		m.slow()
		return true
	}
	_ = pause(ctx, failurePause)
	// The transport has reported the limit that the org named, and it applies to the next call. The SDK keeps only the message.
	if strings.Contains(err.Error(), "REQUEST_LIMIT_EXCEEDED") {
		return true
	}
	m.fail(err)
	return false
}

// spent returns the refusal of a call that cannot go for long: the day's calls are used up, by our count or the org's.
func spent(err error) *pacer.LimitError {
	if limit, ok := errors.AsType[*pacer.LimitError](err); ok && limit.Wait > soon {
		return limit
	}
	return nil
}

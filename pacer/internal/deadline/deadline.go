// Package deadline bounds the time of a request to a store, from when the store has a connection: a handshake over a long way takes several
// round trips, and does not mean that the store is lost.
//
// Invariants: a Context ends, by its Deadline, within its timeout if the store never reports that it connects, and within its longest time
// in any case. A store that does not use this package is bounded by the timeout.
package deadline

import (
	"context"
	"sync"
	"time"
)

// A Context is that of a request to a store. It has the values of another one, which does not end it.
type Context struct {
	values  context.Context //nolint:containedctx // for its values
	timeout time.Duration
	latest  time.Time
	over    chan struct{}

	mu    sync.Mutex
	at    time.Time
	timer *time.Timer // ends it
	err   error       // why it is over
}

type key struct{}

// New returns the context of a request that begins now. It is over a timeout after it began or, if the store connects first, after it had a
// connection, and longest after it began at the latest. It ends then, or with [Context.End].
func New(values context.Context, timeout, longest time.Duration) *Context {
	now := time.Now()
	c := &Context{values: values, timeout: timeout, latest: now.Add(longest), at: now.Add(timeout), over: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(timeout, func() { c.end(context.DeadlineExceeded) })
	return c
}

// End ends the context, if it has not ended yet. Its user calls it when the request is done.
func (c *Context) End() { c.end(context.Canceled) }

func (c *Context) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		c.timer.Stop()
		close(c.over)
	}
}

// Deadline implements [context.Context]. It moves.
func (c *Context) Deadline() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at, true
}

// Done implements [context.Context].
func (c *Context) Done() <-chan struct{} { return c.over }

// Err implements [context.Context].
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Value implements [context.Context].
func (c *Context) Value(k any) any {
	if k == (key{}) {
		return c
	}
	return c.values.Value(k)
}

// Connecting records that a request waits for a connection.
func Connecting(ctx context.Context) {
	if c, ok := ctx.Value(key{}).(*Context); ok {
		c.move(c.latest)
	}
}

// Connected records that a request has a connection, and is sent now.
func Connected(ctx context.Context) {
	if c, ok := ctx.Value(key{}).(*Context); ok {
		c.move(time.Now().Add(c.timeout))
	}
}

func (c *Context) move(at time.Time) {
	if at.After(c.latest) {
		at = c.latest
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at = at; c.timer.Stop() { // else it is over
		c.timer.Reset(time.Until(at))
	}
}

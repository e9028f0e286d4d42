package batch

import (
	"cmp"
	"context"
	"sync"
)

// Requests sends values. Further ones that come while a request is under way share the next one.
type Requests[T any] struct {
	send   func([]T)
	enough func([]T) int // how many of those that wait are enough for one request, at least 1 if any waits
	most   int           // requests on their way at the same time, if more waits than is enough for one

	mu       sync.Mutex
	waiting  []T
	sending  int       // goroutines that send what waits
	starting int       // those of them that have not taken their first values yet
	idle     sync.Cond // nothing waits, and nothing is on its way
}

// New returns Requests that are made by send, most at a time, each of as many values as are enough.
func New[T any](most int, enough func([]T) int, send func([]T)) *Requests[T] {
	r := &Requests[T]{most: most, enough: enough, send: send}
	r.idle.L = &r.mu
	return r
}

// Add sends values, and does not wait for that.
func (r *Requests[T]) Add(all ...T) {
	if len(all) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, all...)
	many := r.enough(all) < len(all)
	waiting := r.waiting
	for range r.starting {
		waiting = waiting[r.enough(waiting):]
	}
	for len(waiting) > 0 && r.sending < r.most {
		n := r.enough(waiting)
		if r.sending > 0 && !many && n == len(waiting) {
			break // they share the next request with those that come until then
		}
		waiting = waiting[n:]
		r.sending++
		r.starting++
		go r.run()
	}
}

// Wait waits until all requests are sent.
func (r *Requests[T]) Wait() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.sending > 0 {
		r.idle.Wait()
	}
}

// run sends requests until nothing waits.
func (r *Requests[T]) run() {
	for all := r.next(1); len(all) > 0; all = r.next(0) {
		r.send(all)
	}
}

// next returns the values of the next request, of a run that starts; none if run is over.
func (r *Requests[T]) next(starts int) []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starting -= starts
	n := r.enough(r.waiting)
	all := r.waiting[:n:n]
	if r.waiting = r.waiting[n:]; n == 0 {
		r.waiting = nil
		if r.sending--; r.sending == 0 {
			r.idle.Broadcast()
		}
	}
	return all
}

// A Waited is a value whose owner waits for its answer.
type Waited[T, A any] struct {
	Ctx    context.Context //nolint:containedctx // for its values
	Value  T
	Answer A
	Err    error

	done chan struct{}
}

// Answered are Requests of values whose owners wait for their answers.
type Answered[T, A any] struct{ *Requests[*Waited[T, A]] }

// NewAnswered is New for a send that sets the answer of each value, or its error.
func NewAnswered[T, A any](most int, enough func([]*Waited[T, A]) int, send func([]*Waited[T, A])) Answered[T, A] {
	return Answered[T, A]{New(most, enough, func(all []*Waited[T, A]) {
		send(all)
		for _, one := range all {
			close(one.done)
		}
	})}
}

// Send sends values, and does not wait for their answers.
func (r Answered[T, A]) Send(ctx context.Context, values ...T) (all []*Waited[T, A]) {
	for _, v := range values {
		all = append(all, &Waited[T, A]{Ctx: ctx, Value: v, done: make(chan struct{})})
	}
	r.Add(all...)
	return all
}

// Do sends values, and waits for their answers. It returns these, or the first error.
func (r Answered[T, A]) Do(ctx context.Context, values ...T) (answers []A, err error) {
	for _, one := range r.Send(ctx, values...) {
		<-one.done
		answers, err = append(answers, one.Answer), cmp.Or(err, one.Err)
	}
	if err != nil {
		return nil, err
	}
	return answers, nil
}

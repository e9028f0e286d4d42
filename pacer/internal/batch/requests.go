package batch

import "sync"

// requests sends values. Further ones that come while a request is under way share the next one.
type requests[T any] struct {
	send   func([]T)
	enough func([]T) int // how many of those that wait are enough for one request, at least 1 if any waits
	most   int           // requests on their way at the same time, if more waits than is enough for one

	mu      sync.Mutex
	waiting []T
	sending int       // goroutines that send what waits
	idle    sync.Cond // nothing waits, and nothing is on its way
}

// init sets the functions before the first use.
func (r *requests[T]) init(most int, enough func([]T) int, send func([]T)) {
	r.most, r.enough, r.send = most, enough, send
	r.idle.L = &r.mu
}

// add sends values, and does not wait for that.
func (r *requests[T]) add(all []T) {
	if len(all) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, all...)
	many := r.enough(all) < len(all)
	for waiting := r.waiting; len(waiting) > 0 && r.sending < r.most; {
		n := r.enough(waiting)
		if r.sending > 0 && !many && n == len(waiting) {
			break // they share the next request with those that come until then
		}
		waiting = waiting[n:]
		r.sending++
		go r.run()
	}
}

// Wait waits until all requests are sent.
func (r *requests[T]) Wait() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.sending > 0 {
		r.idle.Wait()
	}
}

// run sends requests until nothing waits.
func (r *requests[T]) run() {
	for all := r.next(); len(all) > 0; all = r.next() {
		r.send(all)
	}
}

// next returns the values of the next request; none if run is over.
func (r *requests[T]) next() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
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

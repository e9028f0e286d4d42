package memstore

import (
	"sync"

	"github.com/headway-go/headway/pacer/store"
)

// A listener receives pauses, and which queued calls to wake. Receiving may make the next news, so they are queued: the goroutine that is
// calling the listener delivers them, too.
type listener struct {
	upstream string
	receive  func(store.News)

	mu        sync.Mutex
	news      []store.News
	notifying bool
	idle      sync.Cond // nothing is being delivered
	stopped   bool
}

// notify runs without the store's locks: a listener that receives a pause reserves slots behind it.
func (l *listener) notify(upstream string, news store.News) {
	if l.upstream != upstream {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	l.news = append(l.news, news)
	if l.notifying {
		return
	}
	l.notifying = true
	for len(l.news) > 0 {
		next := l.news[0]
		l.news = l.news[1:]
		l.mu.Unlock()
		l.receive(next)
		l.mu.Lock()
	}
	l.notifying = false
	l.idle.Broadcast()
}

// stop returns after the last delivery.
func (l *listener) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped, l.news = true, nil
	for l.notifying {
		l.idle.Wait()
	}
}

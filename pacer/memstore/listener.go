package memstore

import (
	"sync"

	"github.com/headway-go/headway/pacer/store"
)

// memoryListener is somebody who wants to hear of pauses, and of who is called. Hearing of one may make the next news, so
// they stand in a queue: who is told already hears the rest from the same goroutine.
type listener struct {
	upstream string
	heard    func(store.News)

	mu      sync.Mutex
	news    []store.News
	telling bool
	told    sync.Cond // nobody is telling
	stopped bool
}

// tell is called without the store's locks: who hears of a pause asks the store for slots behind it.
func (l *listener) tell(upstream string, said store.News) {
	if l.upstream != upstream {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	l.news = append(l.news, said)
	if l.telling {
		return
	}
	l.telling = true
	for len(l.news) > 0 {
		next := l.news[0]
		l.news = l.news[1:]
		l.mu.Unlock()
		l.heard(next)
		l.mu.Lock()
	}
	l.telling = false
	l.told.Broadcast()
}

// stop returns when nothing is heard any more.
func (l *listener) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped, l.news = true, nil
	for l.telling {
		l.told.Wait()
	}
}

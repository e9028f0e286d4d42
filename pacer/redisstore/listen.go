package redisstore

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/pacer/internal/numbers"
	"github.com/headway-go/headway/pacer/store"
)

// subscriber is what a client needs, besides scripts, for pauses. Every client of go-redis has it.
type subscriber interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// listeners share one subscription of a Store: a connection and a goroutine that exist while there is a listener.
type listeners struct {
	mu       sync.Mutex
	all      map[string][]*listener // by channel
	pubsub   *redis.PubSub
	dial     func(context.Context) error // connects once: see Store.dialOnce
	closing  chan struct{}               // closed when nobody listens any more
	finished chan struct{}               // closed when the goroutine has ended
	latest   time.Time                   // when a message came, or it was pinged
	pinging  bool
}

// pingEvery is how long a subscription may be silent before it is pinged.
const pingEvery = 5 * time.Second

type listener struct {
	receive func(store.News)

	mu      sync.Mutex
	stopped bool
}

func (l *listener) notify(n store.News) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.receive(n)
	}
}

var _ store.Notifier = (*Store)(nil)

// Listen implements [store.Notifier] by publish and subscribe. If the client cannot subscribe, or is a redis.Ring, which subscribes to only
// one of its servers, receive is never called.
func (s *Store) Listen(upstream string, receive func(store.News)) (stop func()) {
	client, ok := s.rdb.(subscriber)
	if _, ring := s.rdb.(*redis.Ring); !ok || ring {
		return func() {}
	}
	channel := upstreamKey(upstream) + pausesMark
	l := &listener{receive: receive}
	s.listeners.add(client, s.dialOnce, channel, l)
	return sync.OnceFunc(func() { s.listeners.remove(channel, l) })
}

func (s *listeners) add(client subscriber, dial func(context.Context) error, channel string, l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[string][]*listener)
	}
	first := s.all[channel] == nil
	s.all[channel] = append(s.all[channel], l)
	if s.pubsub == nil {
		s.pubsub, s.dial, s.closing, s.finished = client.Subscribe(context.Background()), dial, make(chan struct{}), make(chan struct{})
		go s.run(client, s.pubsub, s.closing, s.finished)
	}
	if first {
		inBackground(s.pubsub.Subscribe, channel)
	} else {
		go l.notify(store.News{Missed: true})
	}
}

// ping checks whether a silent subscription still has its connection. Each heartbeat calls it, so large fleets ping less often. If the
// connection is gone, go-redis makes another one.
func (s *listeners) ping() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pubsub == nil || s.pinging || time.Since(s.latest) < pingEvery {
		return
	}
	s.pinging, s.latest = true, time.Now()
	pubsub := s.pubsub
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), pingEvery)
		defer cancel()
		_ = caught(func() error { return pubsub.Ping(ctx) })
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pinging = false
	}()
}

func (s *listeners) remove(channel string, l *listener) {
	s.mu.Lock()
	kept := slices.DeleteFunc(slices.Clone(s.all[channel]), func(other *listener) bool { return other == l })
	var closing *redis.PubSub
	finished := s.finished
	if s.all[channel] = kept; len(kept) == 0 {
		delete(s.all, channel)
		if len(s.all) == 0 {
			closing, s.pubsub = s.pubsub, nil
			close(s.closing)
		} else {
			inBackground(s.pubsub.Unsubscribe, channel)
		}
	}
	s.mu.Unlock()
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	if closing != nil {
		_ = caught(closing.Close)
		<-finished
	}
}

// inBackground subscribes to channels, or unsubscribes. It does not block on a new connection. Failed work is repeated with the next
// connection.
func inBackground(do func(context.Context, ...string) error, channels ...string) {
	go func() { _ = caught(func() error { return do(context.Background(), channels...) }) }()
}

// run delivers messages until there is no listener.
func (s *listeners) run(client subscriber, pubsub *redis.PubSub, closing <-chan struct{}, finished chan<- struct{}) {
	defer close(finished)
	for pubsub != nil {
		s.passOn(pubsub, closing)
		pubsub = s.replace(client, pubsub)
	}
}

// replace replaces a broken subscription; it returns nil if there is no listener.
func (s *listeners) replace(client subscriber, broken *redis.PubSub) *redis.PubSub {
	_ = caught(broken.Close)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pubsub != broken {
		return nil
	}
	s.pubsub = client.Subscribe(context.Background())
	inBackground(s.pubsub.Subscribe, slices.Collect(maps.Keys(s.all))...)
	return s.pubsub
}

// listenAgain is the wait after an error. While the server is gone, it grows up to listenSeldom.
const (
	listenAgain  = 100 * time.Millisecond
	listenSeldom = 2 * time.Second
)

// passOn delivers a subscription's messages until it is closed, or the server answers nonsense. If the connection breaks, go-redis connects
// and subscribes again by itself.
func (s *listeners) passOn(pubsub *redis.PubSub, closing <-chan struct{}) {
	for {
		var m any
		err := caught(func() (err error) {
			m, err = pubsub.Receive(context.Background())
			return err
		})
		switch {
		case errors.Is(err, redis.ErrClosed):
			return
		case err != nil:
			if s.awaitServer(closing); errors.Is(err, errPanicked) {
				return
			}
		default:
			s.notify(m)
		}
	}
}

// awaitServer waits a moment, and then until it can connect to a server, or there is no listener. The client would make five attempts at a
// time, and log each.
func (s *listeners) awaitServer(closing <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for pause := listenAgain; ; pause = min(2*pause, listenSeldom) {
		select {
		case <-closing:
			return
		case <-time.After(pause - rand.N(pause/4)):
		}
		dialed := make(chan error, 1)
		go func() { dialed <- s.dial(ctx) }()
		select {
		case <-closing:
			return
		case err := <-dialed:
			if err == nil {
				return
			}
		}
	}
}

// notify passes a message to its listeners.
func (s *listeners) notify(m any) {
	channel, news := "", store.News{}
	switch m := m.(type) {
	case *redis.Subscription:
		if m.Kind != "subscribe" {
			return
		}
		channel, news.Missed = m.Channel, true
	case *redis.Message:
		channel, news.Changes = m.Channel, parseChanges(m.Channel, m.Payload)
	}
	s.mu.Lock()
	s.latest = time.Now()
	to := append([]*listener(nil), s.all[channel]...)
	s.mu.Unlock()
	for _, l := range to {
		l.notify(news)
	}
}

// maxChanges bounds the lines of a message that are read: more than the limits of any stack.
const maxChanges = 1024

// parseChanges reads a message of the scripts (see report.lua and heartbeat.lua): a line with the store's now, then "kind until key" for
// each change, or a call's id in place of until. It omits other payloads, for anyone may publish.
func parseChanges(channel, payload string) []store.Change {
	upstream := strings.TrimSuffix(channel, pausesMark)
	head, rest, _ := strings.Cut(payload, "\n")
	now, err := strconv.ParseInt(head, 10, 64)
	if err != nil || now < 0 {
		return nil
	}
	var changes []store.Change
	for line := range strings.SplitSeq(rest, "\n") {
		if len(changes) == maxChanges {
			break
		}
		kind, line, _ := strings.Cut(line, " ")
		until, key, _ := strings.Cut(line, " ")
		end, err := strconv.ParseInt(until, 10, 64)
		name, ok := strings.CutPrefix(key, upstream)
		if err != nil || !ok || end < 0 {
			continue
		}
		p := store.Change{Now: store.Instant(now)}
		switch kind {
		case strconv.Itoa(numbers.ChangePaused):
			p.Kind, p.Until = store.Paused, store.Instant(end)
		case strconv.Itoa(numbers.ChangeResumed):
			p.Kind = store.Resumed
		case strconv.Itoa(numbers.ChangeSlowed):
			p.Kind = store.Slowed
		case strconv.Itoa(numbers.ChangeCalled):
			p.Kind, p.ID = store.Wake, end
		case strconv.Itoa(numbers.ChangeBegun):
			if end != 0 {
				continue
			}
			p.Kind = store.EpochBegan
		default:
			continue
		}
		k, ok := keyOf(name)
		if !ok {
			continue
		}
		p.Policy, p.Scope = k.Policy, k.Scope
		changes = append(changes, p)
	}
	return changes
}

// keyOf reads what follows an upstream's key in the key of an account; nothing stands for the whole upstream.
func keyOf(name string) (k store.Key, ok bool) {
	if name == "" {
		return k, true
	}
	if name, ok = strings.CutPrefix(name, ":"); ok {
		k.Policy, k.Scope, _ = strings.Cut(name, ":")
	}
	return k, ok
}

package redisstore

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/pacer"
)

// pausesMark ends the name of the channel on which the scripts publish the pauses of an upstream.
const pausesMark = "/pauses"

// subscriber is what a client needs besides running scripts so that a Store hears of pauses. Every client of
// go-redis has it.
type subscriber interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// listeners share one subscription of a Store: a connection and a goroutine that exist while somebody listens.
type listeners struct {
	mu       sync.Mutex
	all      map[string][]*listener // by channel
	pubsub   *redis.PubSub
	finished chan struct{} // closed when the goroutine has ended
}

type listener struct {
	heard func(pacer.News)

	mu      sync.Mutex
	stopped bool
}

func (l *listener) tell(n pacer.News) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.heard(n)
	}
}

var _ pacer.Notifier = (*Store)(nil)

// Listen implements [pacer.Notifier] by publish and subscribe. If the client cannot subscribe, nothing is ever heard. Nor is
// with a redis.Ring, which subscribes at one of its servers only.
func (s *Store) Listen(upstream string, heard func(pacer.News)) (stop func()) {
	client, ok := s.rdb.(subscriber)
	if _, ring := s.rdb.(*redis.Ring); !ok || ring {
		return func() {}
	}
	channel := upstreamKey(upstream) + pausesMark
	l := &listener{heard: heard}
	s.listeners.add(client, channel, l)
	return sync.OnceFunc(func() { s.listeners.remove(channel, l) })
}

func (s *listeners) add(client subscriber, channel string, l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[string][]*listener)
	}
	first := s.all[channel] == nil
	s.all[channel] = append(s.all[channel], l)
	if s.pubsub == nil {
		s.pubsub, s.finished = client.Subscribe(context.Background()), make(chan struct{})
		// go-redis connects anew, and subscribes again, by itself.
		go s.run(s.pubsub.ChannelWithSubscriptions(), s.finished)
	}
	if first {
		// It must not block: the connection may have to be made. What fails is done again with the next connection.
		pubsub := s.pubsub
		go func() { _ = pubsub.Subscribe(context.Background(), channel) }()
	} else {
		go l.tell(pacer.News{Missed: true})
	}
}

func (s *listeners) remove(channel string, l *listener) {
	s.mu.Lock()
	kept := s.all[channel][:0:0]
	for _, other := range s.all[channel] {
		if other != l {
			kept = append(kept, other)
		}
	}
	var closing *redis.PubSub
	finished := s.finished
	if s.all[channel] = kept; len(kept) == 0 {
		delete(s.all, channel)
		if len(s.all) == 0 {
			closing, s.pubsub = s.pubsub, nil
		} else {
			pubsub := s.pubsub
			go func() { _ = pubsub.Unsubscribe(context.Background(), channel) }()
		}
	}
	s.mu.Unlock()
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	if closing != nil {
		_ = closing.Close()
		<-finished
	}
}

func (s *listeners) run(messages <-chan any, finished chan<- struct{}) {
	defer close(finished)
	for m := range messages {
		channel, news := "", pacer.News{}
		switch m := m.(type) {
		case *redis.Subscription:
			if m.Kind != "subscribe" {
				continue
			}
			channel, news.Missed = m.Channel, true
		case *redis.Message:
			channel, news.Changes = m.Channel, parseChanges(m.Channel, m.Payload)
		}
		s.mu.Lock()
		to := append([]*listener(nil), s.all[channel]...)
		s.mu.Unlock()
		for _, l := range to {
			l.tell(news)
		}
	}
}

// maxChanges bounds how many lines of a message are read: more than the limits of any stack.
const maxChanges = 1024

// parseChanges reads what the scripts publish (see report.lua): a line with the store's now, then "kind until key" for each
// change, or a call's id in place of until. What is not of that form is left out, for anybody may publish.
func parseChanges(channel, payload string) []pacer.Change {
	upstream := strings.TrimSuffix(channel, pausesMark)
	head, rest, _ := strings.Cut(payload, "\n")
	now, err := strconv.ParseInt(head, 10, 64)
	if err != nil || now < 0 {
		return nil
	}
	var said []pacer.Change
	for line := range strings.SplitSeq(rest, "\n") {
		if len(said) == maxChanges {
			break
		}
		kind, line, _ := strings.Cut(line, " ")
		until, key, _ := strings.Cut(line, " ")
		end, err := strconv.ParseInt(until, 10, 64)
		name, ok := strings.CutPrefix(key, upstream)
		if err != nil || !ok || end < 0 {
			continue
		}
		p := pacer.Change{Now: pacer.Instant(now)}
		switch kind {
		case "1":
			p.Kind, p.Until = pacer.Paused, pacer.Instant(end)
		case "2":
			p.Kind = pacer.Resumed
		case "3":
			p.Kind = pacer.Slowed
		case "4":
			p.Kind, p.ID = pacer.Called, end
		default:
			continue
		}
		if name != "" {
			if name, ok = strings.CutPrefix(name, ":"); !ok {
				continue
			}
			p.Policy, p.Scope, _ = strings.Cut(name, ":")
		}
		said = append(said, p)
	}
	return said
}

package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/pacer/internal/scripts"
	"github.com/headway-go/headway/pacer/store"
)

var _ store.Readier = (*Store)(nil)

// A Problem keeps a [Store] from working.
type Problem uint8

// The problems.
const (
	// Unreachable: no server answers at the address, or not in time.
	Unreachable Problem = iota
	// Credentials: the server does not accept the user or the password.
	Credentials
	// Certificate: the server's certificate is not trusted.
	Certificate
	// Commands: the user may not run some commands.
	Commands
	// Keys: the user may not use the upstream's keys.
	Keys
	// Channels: the user may not publish on the upstream's channel, or subscribe to it.
	Channels
	// ReadOnly: the server is a replica, or takes no writes for another reason.
	ReadOnly
	// Loading: the server is loading its data.
	Loading
	// Full: the server's memory is full, and it must not evict anything.
	Full
	// Refused: the server replies with another error.
	Refused
)

// A NotReadyError reports what keeps a Store from working, and what to do about it. It matches [store.ErrUnreachable] if the problem is
// Unreachable or Loading.
type NotReadyError struct {
	Problem Problem
	What    []string // the commands, keys or channels at fault
	Err     error    // the client's error, or the server's

	_ struct{}
}

// Error implements error.
func (e *NotReadyError) Error() string {
	what := strings.Join(e.What, ", ")
	switch e.Problem {
	case Unreachable:
		return fmt.Sprintf("redisstore: no server answers: %v: check the address, the network, and whether the server expects TLS", e.Err)
	case Credentials:
		return fmt.Sprintf("redisstore: the server does not let this user in: %v: check the client's Username and Password", e.Err)
	case Certificate:
		return fmt.Sprintf("redisstore: the server's certificate is not trusted: %v: check the client's TLSConfig", e.Err)
	case Commands:
		return fmt.Sprintf("redisstore: the user may not run %s: %v: grant it the commands that docs/redis.md lists", what, e.Err)
	case Keys:
		return fmt.Sprintf("redisstore: the user may not use the keys %s: %v: grant it ~pacer:*", what, e.Err)
	case Channels:
		return fmt.Sprintf("redisstore: the user may not use the channel %s: %v: grant it &pacer:*, or pauses do not reach calls that wait already", what, e.Err)
	case ReadOnly:
		return fmt.Sprintf("redisstore: the server takes no writes: %v: connect to the master, and do not read from replicas", e.Err)
	case Loading:
		return fmt.Sprintf("redisstore: the server is loading its data: %v: try again soon", e.Err)
	case Full:
		return fmt.Sprintf("redisstore: the server's memory is full: %v: raise maxmemory, or delete what is not needed", e.Err)
	case Refused:
	}
	return fmt.Sprintf("redisstore: the server refuses: %v", e.Err)
}

// Unwrap returns what the error matches.
func (e *NotReadyError) Unwrap() []error {
	if e.Problem == Unreachable || e.Problem == Loading {
		return []error{store.ErrUnreachable, e.Err}
	}
	return []error{e.Err}
}

// Ready implements [store.Readier]: it connects, loads the scripts into the server, and tries every command that they run on the upstream's
// keys and channel. It leaves no key behind. Its error is a [*NotReadyError].
func (s *Store) Ready(ctx context.Context, upstream string) error {
	// The client may take longer than the context allows, if its ContextTimeoutEnabled is not set.
	done := make(chan error, 1)
	go func() { done <- caught(func() error { return s.ready(ctx, upstream) }) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	default:
		return &NotReadyError{Problem: Unreachable, Err: ctx.Err()}
	}
}

func (s *Store) ready(ctx context.Context, upstream string) error {
	if err := s.dialOnce(ctx); err != nil {
		return notReady(err)
	}
	scratch := upstreamKey(upstream) + readyMark
	channel := upstreamKey(upstream) + pausesMark
	if err := s.load(ctx, scratch); err != nil {
		return err
	}
	q := newRequest()
	q.key(scratch)
	q.args = append(q.args, channel, "") // no message begins like that
	reply, err := s.query(ctx, scripts.Ready, q)
	if err != nil {
		return notReady(err, scratch)
	}
	if err := mayNot(reply, channel); err != nil {
		return err
	}
	q = newRequest() // it may be on another server, and have rights of its own
	q.key(upstreamsKey)
	if _, err := s.query(ctx, scripts.Upstreams, q); err != nil {
		return notReady(err, upstreamsKey)
	}
	return s.subscribes(ctx, channel)
}

// load loads all scripts into the server of a key. It runs them on a missing key, without arguments: those that would write something fail,
// because writing needs an argument. That is no error here.
func (s *Store) load(ctx context.Context, scratch string) error {
	for script := range scripts.Ready {
		q := newRequest()
		q.key(scratch)
		if _, err := s.query(ctx, script, q); err != nil && !strings.HasPrefix(err.Error(), "ERR ") {
			return notReady(err, scratch)
		}
	}
	return nil
}

// notReady converts an error of the client, or the server's answer to a script that uses some keys.
func notReady(err error, keys ...string) error {
	e := &NotReadyError{Problem: Refused, What: keys, Err: err}
	var certificate *tls.CertificateVerificationError
	var answer redis.Error
	switch {
	case redis.IsAuthError(err):
		e.Problem = Credentials
	case errors.As(err, &certificate):
		e.Problem = Certificate
	case redis.IsPermissionError(err) && strings.Contains(err.Error(), " key"):
		e.Problem = Keys
	case redis.IsPermissionError(err) && strings.Contains(err.Error(), " channel"):
		e.Problem = Channels
	case redis.IsPermissionError(err):
		e.Problem, e.What = Commands, []string{deniedCommand(err.Error())}
	case isReadOnly(err.Error()):
		e.Problem = ReadOnly
	case redis.IsLoadingError(err):
		e.Problem = Loading
	case redis.IsOOMError(err):
		e.Problem = Full
	case !errors.As(err, &answer), redis.IsClusterDownError(err), redis.IsMasterDownError(err):
		e.Problem = Unreachable
	}
	if e.Problem == Unreachable || e.Problem == Credentials {
		e.What = nil
	}
	return e
}

// isReadOnly reports whether a server's reply means that it takes no writes now.
func isReadOnly(reply string) bool {
	return slices.ContainsFunc([]string{"READONLY", "MISCONF", "NOREPLICAS"}, func(p string) bool { return strings.HasPrefix(reply, p) })
}

// deniedCommand returns the command that a user may not run, from a server's reply. Servers word it differently.
func deniedCommand(reply string) string {
	if _, after, ok := strings.Cut(reply, "run the '"); ok {
		if name, _, ok := strings.Cut(after, "'"); ok {
			return name
		}
	}
	return "scripts"
}

// mayNot returns the error for what ready.lua could not do.
func mayNot(reply []any, channel string) error {
	failed, err := texts(reply)
	if err != nil {
		return &NotReadyError{Problem: Refused, Err: err}
	}
	var commands []string
	var denied error
	for command, reply := range inTurn(failed) {
		switch lower := strings.ToLower(command); {
		case isReadOnly(reply):
			return &NotReadyError{Problem: ReadOnly, What: []string{lower}, Err: errors.New(reply)}
		case strings.HasPrefix(reply, "OOM"):
			return &NotReadyError{Problem: Full, What: []string{lower}, Err: errors.New(reply)}
		case lower == "publish" && strings.Contains(reply, "channel"):
			return &NotReadyError{Problem: Channels, What: []string{channel}, Err: errors.New(reply)}
		default:
			commands, denied = append(commands, lower), errors.New(reply)
		}
	}
	if commands == nil {
		return nil
	}
	return &NotReadyError{Problem: Commands, What: commands, Err: denied}
}

// subscribes tries to subscribe to a channel.
func (s *Store) subscribes(ctx context.Context, channel string) error {
	client, ok := s.rdb.(subscriber)
	if _, ring := s.rdb.(*redis.Ring); !ok || ring {
		return nil // nothing is ever received: see Listen
	}
	pubsub := client.Subscribe(ctx)
	defer func() { _ = pubsub.Close() }()
	for _, step := range []struct {
		command string
		send    func() error
	}{
		{"subscribe", func() error { return pubsub.Subscribe(ctx, channel) }},
		{"ping", func() error { return pubsub.Ping(ctx) }},
		{"unsubscribe", func() error { return pubsub.Unsubscribe(ctx, channel) }},
	} {
		err := step.send()
		if err == nil {
			_, err = pubsub.Receive(ctx)
		}
		if err != nil {
			e := notReady(err, channel).(*NotReadyError) //nolint:forcetypeassert,errorlint // it returns no other
			if e.Problem == Commands {
				e.What = []string{step.command}
			}
			return e
		}
	}
	return nil
}

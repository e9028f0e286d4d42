package pools

import (
	"context"
	"sync"
	"time"
)

// A Stick is the credential that calls of a context use.
type Stick struct {
	mu sync.Mutex
	id string // "" if no call has got one yet
}

type stickKey struct{ pool *Pool }

// Stick returns a context whose calls all use the credential that the first of them gets.
func (l *Pool) Stick(ctx context.Context) context.Context {
	return context.WithValue(ctx, stickKey{l}, &Stick{})
}

// StickOf returns the Stick of a context; nil without one.
func (l *Pool) StickOf(ctx context.Context) *Stick {
	s, _ := ctx.Value(stickKey{l}).(*Stick)
	return s
}

// Kept returns the name of the account to whose credential calls stick; "" if they may have any account, because they stick to none yet or
// theirs is left.
func (l *Pool) Kept(s *Stick) string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	id := s.id
	s.mu.Unlock()
	of := l.AccountOf(id)
	l.mu.Lock()
	defer l.mu.Unlock()
	if of == nil || time.Now().Before(l.left[id]) {
		return ""
	}
	return of.Name
}

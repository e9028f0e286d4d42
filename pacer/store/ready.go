package store

import "context"

// A Readier is a [Store] that can report whether it would work, before a call depends on it.
type Readier interface {
	// Ready returns nil if every operation of an upstream's processes could be done now, as far as that can be found out without charging
	// or leaving anything; otherwise what is wrong, and what to do about it. An error that matches [ErrUnreachable] means that nobody
	// answers, or cannot answer now. Ready ends when its context does.
	Ready(ctx context.Context, upstream string) error
}

package store

import "context"

// A Readier is a [Store] that can check whether it would work, before a call depends on it.
type Readier interface {
	// Ready returns nil if all operations for an upstream would work now, as far as it can find out without charging or leaving anything;
	// otherwise what is wrong and what to do about it. An error that matches [ErrUnreachable] means that no server answers, or can answer
	// now. Ready ends when its context does.
	Ready(ctx context.Context, upstream string) error
}

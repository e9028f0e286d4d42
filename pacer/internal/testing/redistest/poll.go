package redistest

import (
	"context"
	"fmt"
	"time"
)

// poll calls done until it returns nil. When ctx ends, or after limit, it gives up and returns what done
// lacked last.
func poll(ctx context.Context, limit time.Duration, done func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	tick := time.NewTicker(pollInterval)
	defer tick.Stop()

	var last error

	for {
		err := done(ctx)
		if err == nil {
			return nil
		}

		if last == nil || ctx.Err() == nil { // the end of ctx explains less than the error before it
			last = err
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), last)
		case <-tick.C:
		}
	}
}

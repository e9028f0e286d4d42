// Package telemetry calls functions of a user where nothing else would recover from their panics: hooks, which receive events, and loggers.
// It also limits how often something is logged.
//
// # Purpose
//
// A hook must not delay the call whose event it receives, nor another set of hooks. So an event is put into the queue of each set, and a
// goroutine that exists only while the queue is not empty calls the hooks. The package knows neither the hooks nor the events: both are
// type parameters, and the caller picks the function for an event. Logging without hooks uses a [Throttle].
//
// # Flow
//
//	Emit --pick--> no such hook: nothing happens
//	       |
//	       v
//	     queue of the set --full--> dropped: counted
//	       |                           |
//	       | in order, one at a time   | as soon as there is room: Dropped, with the count
//	       v                           |
//	     the hook  <-------------------+
//
//	a set:   idle ----an event----> delivering ----the queue is empty----> idle
//
// # Invariants
//
//   - The hooks of one set are called one at a time, in the order of their events; sets do not wait for each other.
//   - Emit never blocks on a hook, and calls none in its own goroutine or under a lock.
//   - At most [MaxQueued] events of a set wait. Further ones are counted, and the count is delivered exactly once.
//   - An idle set has no goroutine. A nil [Dispatcher] has no hooks, and costs only a test for nil.
//
// # Failures
//
// slog's default logger logs a hook that panics, unless it panics, too: see [Guard]. A hook that ends its goroutine, as t.FailNow does,
// gets another one. Both are called again for the next event. A hook that hangs loses the events of its own set beyond the bound, and
// delays [Dispatcher.Close] by at most [CloseTimeout] for all sets together; it is called again if it ever returns.
package telemetry

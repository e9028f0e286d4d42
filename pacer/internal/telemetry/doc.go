// Package telemetry calls functions of a user where nobody else would recover from their panics: hooks, which receive events, and loggers. It
// also limits how often something may be logged.
//
// # Purpose
//
// A hook must not delay the call whose event it receives, nor another set of hooks. So an event is put into the queue of each set, and a
// goroutine that is there only while the queue holds something calls the hooks. The package knows neither the hooks nor the events: both
// are type parameters, and the caller picks the function that an event is for. Logging without hooks goes through a [Throttle].
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
//   - Emit never blocks on a hook, and no hook is called under a lock or in the goroutine of the one who emits.
//   - At most [MaxQueued] events of a set wait. Each further one is counted, and the count is delivered exactly once.
//   - An idle set has no goroutine. A nil [Dispatcher] has no hooks: a test for nil is all that it costs.
//
// # Failures
//
// A hook that panics is logged by slog's default logger, if that does not panic, too: see [Guard]. One that ends its goroutine, as t.FailNow
// does, gets another one. Both are called again for the next event. One that hangs loses the events of its own set beyond the bound, and
// delays [Dispatcher.Close] by at most [CloseTimeout] for all sets together; it is called again if it ever returns.
package telemetry

// Package warnings logs, for people, that a shared store is lost or back, that the processes of an upstream have different policies, and
// that the upstream states a wait of over an hour.
//
// # States
//
//	a Store:      reachable --lost--> warned, again after 1 min, 2 min, 4 min ... 10 min --back--> logged once, if the loss was
//	a Versions:   one version --others are seen--> waiting for 3 min --still--> warned, at most once an hour --one version--> ...
//
// # Invariants
//
//   - A line is written in a goroutine of its own and under no lock, so neither a call nor a heartbeat waits for a log.
//   - All Pacers of an upstream in the process share the intervals: ten warn as often as one.
//   - A return is logged only if its loss was.
//
// # Failures
//
// A logger that hangs loses the lines beyond maxLines, and logs how many when it returns. One that panics loses the line. After Close
// nothing starts.
package warnings

//go:build race

package simulate_test

// underRace reports whether the race detector runs, which makes a simulation some ten times as slow.
const underRace = true

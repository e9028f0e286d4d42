//go:build !race

package pacer_test

// underRace says that the race detector is on.
const underRace = false

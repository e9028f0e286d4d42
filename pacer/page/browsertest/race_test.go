//go:build race

package browsertest_test

// underRace reports whether the race detector is on. Under it no pictures are taken.
const underRace = true

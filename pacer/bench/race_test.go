//go:build race

package bench_test

// underRace reports whether the race detector is on. Under it nothing is drawn, and what takes minutes is sampled.
const underRace = true

//go:build !measure

package main

// measures reports whether this run measures: how much went, and whether any call was late.
const measures = false

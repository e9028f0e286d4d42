//go:build !measure

package measure

// On reports whether this run measures: the build tag measure is set.
const On = false

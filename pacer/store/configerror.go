package store

import (
	"cmp"
	"fmt"
)

// A ConfigError reports which setting or argument is wrong and what to do about it.
type ConfigError struct {
	In     string // the package whose setting it is, such as "transport"; "" for pacer
	Field  string // such as "Upstream" or "Cost"
	Value  string // the value that was given
	Reason string // what is wrong with it, or what to do
	Err    error  // the cause, if there is one: a *policies.Error

	_ struct{}
}

// Error implements error.
func (e *ConfigError) Error() string {
	in := cmp.Or(e.In, "pacer")
	if e.Err != nil && e.Value != "" {
		return fmt.Sprintf("%s: %s is %s: %v", in, e.Field, e.Value, e.Err)
	}
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", in, e.Field, e.Err)
	}
	return fmt.Sprintf("%s: %s is %s: %s", in, e.Field, e.Value, e.Reason)
}

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.Err }

package config

import (
	"errors"
	"fmt"
	"strings"
)

// An Error is one mistake in a file. [Load], [Parse] and others return all mistakes, joined: [Mistakes] lists them.
type Error struct {
	File   string // the file's name
	Line   int    // from 1; 0 if the mistake has no position in the file
	Column int    // from 1, in characters; 0 if only the line is known
	Path   string // the part of the file at fault, such as "upstreams.zendesk.policies[1]"; "" for the file
	Err    error  // what to correct, and how

	_ struct{}
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
		if e.Column > 0 {
			fmt.Fprintf(&b, ":%d", e.Column)
		}
	}
	b.WriteString(": ")
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	return b.String() + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrRestart matches errors about a change in the file that takes effect only when the program is started again.
var ErrRestart = errors.New("has changed, and takes effect when the program restarts")

// ErrOverruled matches errors about changed policies that limits set at run time override: see [fleet.Operator.SetPolicies] and
// [fleet.Operator.SetLimit]. The file's policies hold once these are unset or have ended.
var ErrOverruled = errors.New("has changed, but limits that were set at run time hold instead")

// Mistakes returns the mistakes in an error of this package, in the order of the file.
func Mistakes(err error) []*Error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok { //nolint:errorlint // what it wraps is not another mistake
		return []*Error{e}
	}
	var all []*Error
	switch e := err.(type) { //nolint:errorlint // it goes through the tree by itself
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			all = append(all, Mistakes(one)...)
		}
	case interface{ Unwrap() error }:
		all = Mistakes(e.Unwrap())
	}
	return all
}

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/report"
)

// Exit codes of the command.
const (
	ExitDone    = 0 // it was done
	ExitFailed  = 1 // it failed: the store is out of reach, the answer was not yes, or a file has mistakes
	ExitUsage   = 2 // the command line is wrong
	ExitUnknown = 3 // no process paces the upstream
)

// A coded error has an exit code.
type coded struct {
	code int
	err  error
}

// Error implements error.
func (e *coded) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *coded) Unwrap() error { return e.err }

// ExitCode returns the code.
func (e *coded) ExitCode() int { return e.code }

// usagef returns an error about the command line.
func usagef(format string, args ...any) error {
	return &coded{ExitUsage, fmt.Errorf(format, args...)}
}

// codeOf returns the exit code of an error: its ExitCode, if it has one.
func codeOf(err error) int {
	if err == nil {
		return ExitDone
	}
	if c, ok := errors.AsType[interface {
		error
		ExitCode() int
	}](err); ok {
		return c.ExitCode()
	}
	return ExitFailed
}

// failure is an error in JSON.
type failure struct {
	Error string `json:"error"`
	Code  int    `json:"code"`
}

// printError writes an error as a sentence, or as JSON.
func printError(w io.Writer, err error, asJSON bool) {
	if m, ok := errors.AsType[*mistaken](err); ok {
		m.print(w, asJSON)
		return
	}
	text := report.Clean(oneLine(err.Error()))
	if asJSON {
		line, _ := json.Marshal(failure{text, codeOf(err)}) //nolint:errchkjson // a string and a number always can be
		_, _ = fmt.Fprintf(w, "%s\n", line)
		return
	}
	_, _ = fmt.Fprintf(w, "headway: %s\n", text)
}

// oneLine joins lines by semicolons. The answer follows its question.
func oneLine(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			continue
		case strings.HasSuffix(b.String(), "?"):
			b.WriteByte(' ')
		case b.Len() > 0:
			b.WriteString("; ")
		}
		b.WriteString(line)
	}
	return b.String()
}

// explain adds advice to an error of the store.
func (a *app) explain(err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted: %w", err)
	}
	return fmt.Errorf("the Redis at %s is out of reach or refuses: %w: check --redis or HEADWAY_REDIS, and whether the server runs", a.place(), err)
}

// unknown returns an error for an unknown upstream, which lists the known ones.
func (a *app) unknown(ctx context.Context, store Store, upstream string) error {
	names, err := store.Upstreams(ctx)
	if err != nil {
		return a.explain(err)
	}
	if len(names) == 0 {
		return &coded{ExitUnknown, fmt.Errorf("no process paces %q, or any other upstream, through the Redis at %s: "+
			"start one, or set --redis to the Redis that your processes use", upstream, a.place())}
	}
	return &coded{ExitUnknown, fmt.Errorf("no process paces %q: the upstreams in the Redis at %s are %s",
		upstream, a.place(), strings.Join(names, ", "))}
}

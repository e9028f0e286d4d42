package redisstore

import (
	"errors"
	"fmt"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// appendStack appends the head of ARGV that all scripts share: the number of entries, then each entry's
// algorithm and parameters.
func appendStack(args []any, stack *pacer.Stack, from, until int64) ([]any, error) {
	args = append(args, len(stack.Limits))
	for i := range stack.Limits {
		l := &stack.Limits[i]
		s := &l.Spec
		switch s.Algorithm {
		case policies.GCRA:
			args = append(args, int(s.Algorithm), s.Limit, s.Interval)
			if a := s.Adapt; a != nil {
				args = append(args, 1, a.Floor, a.Decrease, a.Hold, a.Recovery)
			} else {
				args = append(args, 0)
			}
		case policies.Window:
			var bounds []int64
			if s.Calendar != nil {
				bounds = s.Calendar.Bounds(from, until)
			}
			args = append(args, int(s.Algorithm), s.Limit, s.Interval, s.Buckets, s.Guard, len(bounds))
			for _, b := range bounds {
				args = append(args, b)
			}
		default:
			return nil, &algorithmError{l.Policy, s.Algorithm}
		}
	}
	return args, nil
}

// algorithmError says that a policy wants what the scripts do not know.
type algorithmError struct {
	policy    string
	algorithm policies.Algorithm
}

// Error implements error.
func (e *algorithmError) Error() string {
	return fmt.Sprintf("policy %q: unknown algorithm %d", e.policy, e.algorithm)
}

// reply walks through a script's reply: a flat array of integers.
type reply struct {
	values []any
	err    error
}

func parseReply(v any) *reply {
	switch v := v.(type) {
	case []any:
		return &reply{values: v}
	case int64:
		return &reply{values: []any{v}}
	}
	return &reply{err: fmt.Errorf("the reply is %T, not an array of integers: does something stand between this program and Redis?", v)}
}

func (r *reply) int() int64 {
	if r.err != nil {
		return 0
	}
	if len(r.values) == 0 {
		r.err = errors.New("the reply is too short: does something stand between this program and Redis?")
		return 0
	}
	n, ok := r.values[0].(int64)
	if !ok {
		r.err = fmt.Errorf("the reply holds %T where an integer belongs", r.values[0])
		return 0
	}
	r.values = r.values[1:]
	return n
}

func (r *reply) instant() pacer.Instant { return pacer.Instant(r.int()) }

// done returns the first error; values left over are one, too.
func (r *reply) done() error {
	if r.err == nil && len(r.values) > 0 {
		r.err = fmt.Errorf("the reply is %d values too long", len(r.values))
	}
	return r.err
}

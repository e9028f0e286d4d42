package pacer

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/policies"
)

// An Option sets something for one call. Options override the context and the Config.
type Option struct {
	kind     optionKind
	name     string
	value    string
	n        int64
	estimate bool             // of optCostOf: the cost is settled later
	learned  policies.Learned // of an estimate: how it is improved
}

type optionKind uint8

const (
	optScope optionKind = iota + 1
	optCost
	optMaxWait
	optNotBefore
	optCostOf
	optTracked
	optKeep
	optAttempt
)

// Scope gives the call a value for a scope, as [WithScope] does by context.
func Scope(name, value string) Option { return Option{kind: optScope, name: name, value: value} }

// Cost sets what the call costs, in units of the policies: at least 1. Defaults to 1.
func Cost(n int64) Option { return Option{kind: optCost, n: n} }

// CostOf sets what the call costs one policy, in place of [Cost]: tokens, points, bytes. A policy that a call costs 0
// does not bind it. It may still be charged by [Reservation.Settle].
func CostOf(policy string, n int64) Option { return Option{kind: optCostOf, name: policy, n: n} }

// EstimateOf is [CostOf] for a cost that is only known afterwards, by [Reservation.Settle]: a limit that never admits so much at once,
// such as the part of a lane, is charged what it admits, in place of refusing the call for ever.
func EstimateOf(policy string, n int64) Option {
	return Option{kind: optCostOf, name: policy, n: n, estimate: true}
}

// LearnedOf is [EstimateOf] for a cost that resembles those of calls before, such as the tokens of an answer. Once 20 calls of the same
// policy and scope were settled, in this process, a call is charged what it is known to cost, and for the rest as much as the
// cheapest quarter of them cost at most, but never more than it can cost; until then n. Settle each of them: what is not settled
// is not learned, and neither is a cost of 0, which is that of a call that failed.
func LearnedOf(policy string, n int64, how policies.Learned) Option {
	return Option{kind: optCostOf, name: policy, n: n, estimate: true, learned: how}
}

// Lane puts the call in a lane, as [WithLane] does by context.
func Lane(name string) Option { return Option{kind: optScope, name: laneScope, value: name} }

// Weight sets how much of a fair share the call's tenant gets, compared with others, from 1 to [MaxWeight]: a tenant
// of weight 3 gets three times as much as one of weight 1 while they compete. All calls of a tenant should have the
// same weight. Defaults to 1. See policies.Policy.Fair.
func Weight(n int64) Option {
	return Option{kind: optScope, name: weightScope, value: strconv.FormatInt(n, 10)}
}

// MaxWeight is the highest [Weight].
const MaxWeight = 100

// Tracked promises that you will call [Reservation.Report] when the upstream has answered the call, or when the call
// has failed. Until then the call counts as in flight, so that it is not taken for a call of another consumer when
// the upstream reports how much is left.
func Tracked() Option { return Option{kind: optTracked} }

// MaxWait sets the longest wait for this call: it is refused at once, without a charge, if its slot lies further
// away. 0 means that it goes now or not at all; [Forever] sets no bound. Defaults to Config.MaxWait.
func MaxWait(d time.Duration) Option { return Option{kind: optMaxWait, n: int64(d)} }

// NotBefore asks for a slot no earlier than d from now: a back-off that keeps its position. d is at most [Forever].
// Defaults to 0.
func NotBefore(d time.Duration) Option { return Option{kind: optNotBefore, n: int64(d)} }

// An ask is one call as its context and options describe it.
type ask struct {
	cost      int64
	maxWait   time.Duration
	notBefore time.Duration
	tracked   bool
	byPolicy  bool // an option is a CostOf
	permits   bool // the caller gives permits back
	waits     bool // the caller waits until the call may go
	untried   bool // the store was not asked yet whether it may go at once
	weight    int64
	lane      string
	opts      []Option
	scopes    *scopeContext
	set       *policySet // by which the call is bound
	wrong     error      // what a call is refused with whose policies are enforced
	part      part       // which of its limits are meant
}

// A part is some of the limits of a stack.
type part uint8

const (
	wholeStack part = iota
	enforcedPart
	observedPart
)

// newAsk reads what a call requests.
func (p *Pacer) newAsk(ctx context.Context, opts []Option) (ask, error) {
	a := ask{cost: 1, maxWait: p.maxWait, weight: 1, opts: opts, set: p.set()}
	if a.set.scoped {
		a.scopes = scopesOf(ctx)
	}
	for i := range opts {
		switch o := &opts[i]; o.kind {
		case optCost:
			if o.n < 1 {
				return a, badNumber("Cost", o.n, "must be at least 1")
			}
			a.cost = o.n
		case optMaxWait:
			if o.n < 0 {
				return a, badDuration("MaxWait", time.Duration(o.n))
			}
			a.maxWait = time.Duration(o.n)
		case optNotBefore:
			if o.n < 0 {
				return a, badDuration("NotBefore", time.Duration(o.n))
			}
			if o.n > int64(Forever) {
				return a, &ConfigError{Field: "NotBefore", Value: time.Duration(o.n).String(), Reason: "must be at most Forever"}
			}
			a.notBefore = time.Duration(o.n)
		case optCostOf:
			if o.n < 0 {
				return a, badNumber("CostOf("+o.name+")", o.n, "must not be negative; 0 means that the policy does not bind the call")
			}
			a.byPolicy = true
		case optTracked:
			a.tracked = true
		case optScope, optKeep, optAttempt:
		}
	}
	err := p.placeAsk(&a)
	if err != nil && a.set.free { // no lane is enforced
		a.wrong, a.lane, a.weight, err = err, "", 1, nil
	}
	return a, err
}

// placeAsk reads a call's lane and weight.
func (p *Pacer) placeAsk(a *ask) error {
	if len(a.set.lanes) > 0 {
		if a.lane = a.scope(laneScope); a.lane != "" && !slices.Contains(a.set.lanes, a.lane) {
			return &ConfigError{
				Field: "Lane", Value: strconv.Quote(a.lane),
				Reason: fmt.Sprintf("no policy of upstream %q has that lane, but %s: give a policy one with Lane; 100 per cent will do", p.upstream, strings.Join(a.set.lanes, ", ")),
			}
		}
	}
	if a.set.fairBy != "" {
		if v := a.scope(weightScope); v != "" {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || n < 1 || n > MaxWeight {
				return &ConfigError{Field: "Weight", Value: v, Reason: fmt.Sprintf("must be from 1 to %d", MaxWeight)}
			}
			a.weight = n
		}
	}
	return nil
}

// costOf returns what the call costs a policy: the last CostOf for it, or else other.
func (a *ask) costOf(policy string, other int64) int64 {
	if o := a.costOption(policy); o != nil {
		return o.n
	}
	return other
}

// costOption returns the option that sets what the call costs a policy; nil if none does.
func (a *ask) costOption(policy string) *Option {
	for i := len(a.opts) - 1; i >= 0; i-- {
		if o := &a.opts[i]; o.kind == optCostOf && o.name == policy {
			return o
		}
	}
	return nil
}

// scope returns the value that the call carries for a scope; "" if none.
func (a *ask) scope(name string) string {
	for i := len(a.opts) - 1; i >= 0; i-- {
		if o := &a.opts[i]; o.kind == optScope && o.name == name {
			return o.value
		}
	}
	for s := a.scopes; s != nil; s = s.outer {
		if s.name == name {
			return s.value
		}
	}
	return ""
}

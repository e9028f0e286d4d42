package pacer

import (
	"context"
	"strconv"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/policies"
)

// Options configure one call. Each function takes only the options that apply to it. An option of a narrow type, such as [Scope], can be
// given wherever a wider type is taken.
type (
	// A BookOption configures [Pacer.Book]: any [Option], or [Keep].
	BookOption interface{ book() }
	// An Option configures a call that may wait: any [TryOption], [MaxWait] or [NotBefore].
	Option interface {
		BookOption
		call()
	}
	// A TryOption configures any call, also of [Pacer.TryAcquire]: its costs, and any [ScopeOption].
	TryOption interface {
		Option
		try()
	}
	// A ScopeOption describes whose a call is: [Scope], [Lane], [Weight], [Caller] and [Nested]. Functions about calls that make none, such
	// as [Pacer.Status], take it, too.
	ScopeOption interface {
		TryOption
		scope()
	}
	// A RedeemOption configures [Pacer.Redeem]: an [Attempt], or [Early].
	RedeemOption interface{ redeem() }
)

// option is every option of a call: functions return it as different types.
type option struct{ is binding.Option }

func (option) book()  {}
func (option) call()  {}
func (option) try()   {}
func (option) scope() {}

// fewOptions is the most options that calls usually have. Up to that, they take no allocation.
const fewOptions = 4

// optionsOf unpacks options, in room if there is enough.
func optionsOf[O any](room []binding.Option, opts []O) []binding.Option {
	for i := range opts {
		if o, ok := any(opts[i]).(option); ok {
			room = append(room, o.is)
		}
	}
	return room
}

// Scope gives the call a value for a scope, such as the tenant, the user or the endpoint. Every policy that is Per that scope uses it.
func Scope(name, value string) ScopeOption {
	return option{binding.Option{Kind: binding.Scope, Name: name, Value: value}}
}

// Cost sets what the call costs, in units of the policies: at least 1. Defaults to 1.
func Cost(n int64) TryOption { return option{binding.Option{Kind: binding.Cost, N: n}} }

// CostOf sets what the call costs one policy, in place of [Cost]: in tokens, points or bytes, for example. A policy that a call costs 0
// does not bind it, but [Reservation.Settle] can still charge it.
func CostOf(policy string, n int64) TryOption {
	return option{binding.Option{Kind: binding.CostOf, Name: policy, N: n}}
}

// EstimateOf is [CostOf] for an estimate that [Reservation.Settle] corrects afterwards. If a limit can never admit that much at once, such
// as a lane's part, the call is charged the most that the limit admits, and is not refused.
//
// The zero how charges n. Otherwise the cost resembles those of earlier calls, such as the tokens of an answer: until 20 calls of the same
// policy and scope were settled in this process, a call is charged n. From then on it is charged the part that is known beforehand, plus
// the first quartile of the rest in earlier calls, but never more than how.Most. Settle each call: one that is not settled, or costs 0
// because it failed, teaches nothing.
func EstimateOf(policy string, n int64, how policies.Learned) TryOption {
	return option{binding.Option{Kind: binding.CostOf, Name: policy, N: n, Estimate: true, Learned: how}}
}

// Lane puts the call in a lane: of each policy, it may use the part that [policies.Policy.Lane] sets for that lane. A policy that does not
// name the lane does not bound it further. If a Pacer's policies have lanes, a call in a lane that none of them names is refused with a
// [*ConfigError]. Calls without a lane may use everything.
func Lane(name string) ScopeOption { return Scope(binding.LaneScope, name) }

// Weight sets how much of a fair share the call's tenant gets, from 1 to 100: a tenant of weight 3 gets three times as much as one of
// weight 1 while they compete. All calls of a tenant should have the same weight. Defaults to 1. See policies.Policy.Fair.
func Weight(n int64) ScopeOption { return Scope(binding.WeightScope, strconv.FormatInt(n, 10)) }

// Caller names the part of the program that makes the call, such as "sync/contacts". It limits nothing. Status, page and metrics show what
// the 100 busiest callers of an upstream have spent. The first 64 bytes of a name count.
func Caller(name string) ScopeOption { return Scope(binding.CallerScope, name) }

// maxWeight is the highest [Weight], also of a [Credential].
const maxWeight = 100

// Tracked promises that you will call [Reservation.Report] when the call was answered, or has failed. Until then, or for ten to twenty
// seconds if you do not, the call counts as under way, and has its part of the allowance that the upstream states. [Pacer.Wait] ignores it.
func Tracked() TryOption { return tracked }

var tracked TryOption = option{binding.Option{Kind: binding.Tracked}} //nolint:gochecknoglobals // a constant, which takes no allocation

// MaxWait sets the longest wait for this call: it is refused at once, without a charge, if its slot lies further away. With 0 it goes now
// or is refused; [Forever] sets no bound. Defaults to Config.MaxWait.
func MaxWait(d time.Duration) Option {
	return option{binding.Option{Kind: binding.MaxWait, N: int64(d)}}
}

// NotBefore requests a slot no earlier than d from now, at most [Forever]. Use it to back off with a reserved slot. Defaults to 0.
func NotBefore(d time.Duration) Option {
	return option{binding.Option{Kind: binding.NotBefore, N: int64(d)}}
}

// With returns a context whose calls have the options, as if each call had them. Use it where you cannot give a call options, such as for
// an SDK over package transport. The innermost value of a name counts, and a call's own option overrides it. A call does not carry a scope
// with an empty value.
func With(ctx context.Context, opts ...ScopeOption) context.Context {
	var room [fewOptions]binding.Option
	for _, o := range optionsOf(room[:0], opts) {
		ctx = binding.WithScope(ctx, o.Name, o.Value) //nolint:fatcontext // one for each option
	}
	return ctx
}

// Nested makes a call inside another one share the outer call's permits: it takes no permit of a policy for which the outer call holds one
// with the same scopes. All other limits, rates and quotas, charge it. An upstream that counts both calls therefore sees one more in flight
// than the policy allows. End the nested call before the outer one: nothing counts it afterwards.
//
// The outer call is the one that the context carries: see [Reservation.Context]. Without an outer call, Nested makes no difference.
func Nested() ScopeOption { return Scope(binding.NestedScope, "yes") }

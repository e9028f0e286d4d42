package pacer

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/pacer/internal/pools"
	"github.com/headway-go/headway/pacer/internal/readings"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// maxCredentials is the most credentials of a [Pool]. The store reads the limits of each before every call that has to wait.
const maxCredentials = 256

// A Credential is one of several keys, tokens or accounts for calls to an upstream. See [Pacer.Pool].
type Credential struct {
	// ID is the credential's name in the store, in errors and for operators. It must not be the secret.
	ID string
	// Account is the account whose limits the credential's calls count against. Set it if the upstream limits accounts and not single
	// credentials: two credentials with one Account do not admit twice as many calls. Defaults to ID.
	Account string
	// Weight is how often the credential is used compared with others that can be used equally soon, from 1 to 100. A call waits only if no
	// credential admits it at once, whatever the weights. Defaults to 1.
	Weight int
}

// A Pool spreads calls over several credentials, each with limits of its own. Each call uses the credential that is available soonest.
// Make one with [Pacer.Pool]. It is safe for concurrent use.
type Pool struct {
	pacer *Pacer
	of    *binding.Pool
}

// Pool returns a pool of credentials. A policy that is Per one of the given scopes, alone or with others, applies to each account, and the
// account is the scope's value; calls carry the values of the others, such as the model. All other policies apply to the whole pool. If you
// give several scopes and a call already carries some of them, the pool fills in only those: the vendor's profile decides which limits bind
// a call, and the pool decides for which credential. A call that no policy of the credentials binds goes by any one, at random.
//
// Pool returns a [*ConfigError] for a scope of no policy, an ID that is empty or occurs twice, a weight out of range, no credentials, or
// more than 256. Pool, or a call of the pool, also returns one for a policy with fair shares: pools do not support [policies.Policy.Fair].
// A lane has its part of each credential's limit. Under [policies.InFlight], a call holds a permit of its credential until
// [Reservation.Release].
func (p *Pacer) Pool(credentials []Credential, scopes ...string) (*Pool, error) {
	set := p.set()
	if len(scopes) == 0 {
		return nil, &ConfigError{Field: "Pool", Value: "without a scope", Reason: "name the one that the policies of each credential are Per"}
	}
	for _, scope := range scopes {
		if len(ownOf(set, scope)) == 0 {
			return nil, &ConfigError{
				Field: "Pool", Value: strconv.Quote(scope),
				Reason: fmt.Sprintf("no policy of upstream %q is Per(%q): each credential needs a limit of its own", p.upstream, scope),
			}
		}
	}
	if err := p.calls.FitsPool(set); err != nil {
		return nil, err
	}
	if n := len(credentials); n == 0 || n > maxCredentials {
		return nil, badNumber("Pool", int64(n), fmt.Sprintf("must have from 1 to %d credentials", maxCredentials))
	}
	all, seen := make([]pools.Credential, 0, len(credentials)), make(map[string]bool)
	for _, c := range credentials {
		if c.ID == "" || seen[c.ID] {
			return nil, &ConfigError{Field: "Credential.ID", Value: strconv.Quote(c.ID), Reason: "must not be empty, and no other credential of the pool may have it"}
		}
		if c.Weight < 0 || c.Weight > maxWeight {
			return nil, badNumber("Credential.Weight", int64(c.Weight), fmt.Sprintf("must be from 1 to %d, or 0 for 1", maxWeight))
		}
		seen[c.ID] = true
		all = append(all, pools.Credential(c))
	}
	return &Pool{pacer: p, of: &binding.Pool{Pool: pools.New(all, scopes)}}, nil
}

// ownOf returns the names of the policies that are Per at least one of the scopes.
func ownOf(set *binding.Set, scopes ...string) (names []string) {
	for i := range set.Limits {
		if l := &set.Limits[i]; scopeOf(l, scopes) != "" {
			names = append(names, l.Policy)
		}
	}
	return names
}

// scopeOf returns the first of some scopes that a limit is per; "" if it is per none of them.
func scopeOf(l *binding.Limit, scopes []string) string {
	for _, scope := range l.Scopes {
		if slices.Contains(scopes, scope) {
			return scope
		}
	}
	return ""
}

// Acquire is [Pacer.Acquire] for a call with any one of the credentials. [Reservation.Credential] returns which one to use: the one that is
// available soonest, which the store finds in the same request that charges it. A waiting call may get another credential, because the
// first is paused.
//
// Acquire returns the same errors as Pacer.Acquire. A [*LimitError] is about the credential that would be available soonest; for
// [NoCredential], none is in use.
func (l *Pool) Acquire(ctx context.Context, opts ...Option) (*Reservation, error) {
	if r := l.pacer.carried(ctx, opts, l); r != nil {
		return r, nil
	}
	r, err := l.reserve(ctx, opts, true)
	if err != nil {
		return nil, err
	}
	if err := r.Wait(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// Reserve is [Pacer.Reserve] for a call with any one of the credentials. Always call [Reservation.Wait]: the credential is known only after
// it.
func (l *Pool) Reserve(ctx context.Context, opts ...Option) (*Reservation, error) {
	return l.reserve(ctx, opts, false)
}

func (l *Pool) reserve(ctx context.Context, opts []Option, waits bool) (*Reservation, error) {
	r, a, err := newReservation(ctx, l.pacer, opts)
	if err != nil {
		return nil, err
	}
	a.Waits, a.Untried, r.pool = waits, waits, l
	l.pacer.calls.ByAnyOrStick(ctx, &a, l.of)
	if err := l.whileInUse(ctx, func(ctx context.Context) error { return r.reserve(ctx, &a) }); err != nil {
		return nil, err
	}
	return r, nil
}

// whileInUse waits until a call may go, but no longer than the pool has a credential in use. A nil pool sets no bound.
func (l *Pool) whileInUse(ctx context.Context, wait func(context.Context) error) error {
	if l == nil {
		return wait(ctx)
	}
	inUse, cancel := context.WithCancel(ctx)
	defer cancel()
	defer l.of.OnOut(cancel)()
	out := l.of.Out()
	if out > 0 {
		cancel()
	}
	err := wait(inUse)
	if err != nil && ctx.Err() == nil && inUse.Err() != nil {
		return &LimitError{Upstream: l.pacer.upstream, Reason: NoCredential, Wait: max(out, l.of.Out())}
	}
	return err
}

// Book is [Pacer.Book] for a call by any one of the credentials: the one that may be used soonest, which the booking keeps when it moves.
// Redeem its token with [Pool.Redeem]; to cancel it, use [Pacer.CancelBooking].
func (l *Pool) Book(ctx context.Context, opts ...BookOption) (tok string, wait time.Duration, err error) {
	return l.pacer.book(ctx, opts, l.of)
}

// Redeem is [Pacer.Redeem] for a token that [Pool.Book] returned, in any process that has a pool of these credentials. For any other token
// it returns a [*LimitError] for [BadToken].
func (l *Pool) Redeem(ctx context.Context, tok string, opts ...RedeemOption) (*Reservation, error) {
	name, err := l.pacer.bookings.AccountOf(tok, l.of)
	if err != nil {
		return nil, l.pacer.toUser(err)
	}
	r, err := l.pacer.Redeem(ctx, tok, opts...)
	if err != nil {
		return nil, err
	}
	r.pool = l
	r.call.PickOf(l.of, name)
	return r, nil
}

// Pacer returns the Pacer that made the pool.
func (l *Pool) Pacer() *Pacer { return l.pacer }

// Credential returns the ID of the credential to make the call with, once [Reservation.Wait] has returned nil; before that, and for a call
// that no [Pool] made, "".
func (r *Reservation) Credential() string { return r.call.Credential() }

// Leave takes a credential out of use for d. Call it if the credential was revoked, or is refused for a reason that no policy describes.
// Waiting calls of any process then use other credentials. If the credential has an account of its own, Leave pauses all calls by it, so
// that one reply is enough for every process of the fleet; the pause lasts at most Config.MaxPause. If it shares an account, each process
// must leave it, because the other credentials of the account stay in use. After d the credential is used again: if it still fails, call
// Leave again.
//
// If no credential is in use any more, calls of this process, waiting ones included, are refused for [NoCredential] at once. The credential
// that was left last is then not paused: other processes find out by their own calls, without a wait.
//
// It returns a [*ConfigError] if the pool has no such ID or d is not positive, and the errors of [Pacer.Report].
func (l *Pool) Leave(ctx context.Context, credential string, d time.Duration) error {
	if d <= 0 {
		return &ConfigError{Field: "Leave", Value: d.String(), Reason: "must be positive"}
	}
	of, wait := l.of.Leave(credential, d)
	if of == nil {
		return &ConfigError{Field: "Leave", Value: strconv.Quote(credential), Reason: "is not a credential of the pool"}
	}
	if wait == 0 { // another credential of the account can be used, or none of the pool
		return nil
	}
	p := l.pacer
	return p.notApplied(p.reports.Rest(ctx, p.set().Rules, l.of.Scopes, of.Name, wait, "Pool.Leave"))
}

// backOff makes the limits of a credential rest after a refusal, if the upstream requested no wait and named no limit of others. A nil pool
// changes nothing.
func (l *Pool) backOff(set *binding.Set, a *readings.Answer, credential string, now time.Time, fs []policies.Feedback) []policies.Feedback {
	if l == nil || credential == "" {
		return fs
	}
	went := now.Add(-a.Took)
	if !slices.ContainsFunc(fs, func(f policies.Feedback) bool { return f.Refused }) {
		l.of.Accepted(credential, went)
		return fs
	}
	own := ownOf(set, l.of.Scopes...)
	i := slices.IndexFunc(fs, func(f policies.Feedback) bool {
		return f.Refused && f.Wait == 0 && f.Within == "" && !slices.ContainsFunc(f.Policies, func(name string) bool { return !slices.Contains(own, name) })
	})
	j := slices.IndexFunc(a.Limits, func(l store.Limit) bool { return slices.Contains(own, l.Policy) })
	if i >= 0 && j >= 0 {
		fs = slices.Clone(fs) // the profile may return the same one each time
		fs[i].Wait, fs[i].Within = l.of.Refused(credential, went), scopeOf(set.Named(a.Limits[j].Policy), l.of.Scopes)
	}
	return fs
}

// Stick returns a context whose calls all use the credential that the first of them gets: for the pages of one listing, or a session. If
// this process knows that the credential is paused or out of use (see [Pool.Leave]), the next call gets another one, which later calls
// keep.
func (l *Pool) Stick(ctx context.Context) context.Context {
	return l.of.Stick(ctx)
}

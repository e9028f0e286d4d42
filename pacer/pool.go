package pacer

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/pacer/internal/binding"
	"github.com/headway-go/headway/policies"
)

// MaxCredentials is the largest number of credentials in a [Pool]. The store looks at the limits of each of them before every call that
// has to wait.
const MaxCredentials = 256

// A Credential is one of several keys, tokens or accounts with which you can call an upstream. See [Pacer.Pool].
type Credential struct {
	// ID is the credential's name in the store, in errors and for operators. It must not be the secret itself.
	ID string
	// Account is the account whose limits the credential's calls count against. Set it if the upstream limits accounts and not single
	// credentials. Credentials with the same Account share its limits: two of them do not admit twice as many calls. Defaults to ID.
	Account string
	// Weight is how often the credential is used compared with others that can be used equally soon, from 1 to [MaxWeight]. Whatever the
	// weights, a call waits only when no credential admits it at once. Defaults to 1.
	Weight int
}

// Credentials returns credentials with these IDs, each with an account of its own.
func Credentials(ids ...string) []Credential {
	all := make([]Credential, len(ids))
	for i, id := range ids {
		all[i].ID = id
	}
	return all
}

// A Pool spreads calls over several credentials, each with limits of its own. Each call uses the credential that is available soonest.
// Make one with [Pacer.Pool]. It is safe for concurrent use.
type Pool struct {
	pacer    *Pacer
	scopes   []string
	accounts []account
	weight   int // of all

	usual atomic.Pointer[usual]

	mu   sync.Mutex
	left map[string]time.Time // until when credentials are not used, by their IDs
}

// An account is credentials that share limits.
type account struct {
	name   string
	all    []Credential
	weight int
}

// Pool returns a pool of credentials. A policy that is Per one of the given scopes applies to each account, and the account is the
// scope's value. All other policies apply to the whole pool. If you give several scopes and a call already carries some of them, the pool
// fills in only those: the vendor's profile decides which limits bind a call, and the pool decides for which credential.
//
// Pool returns a [*ConfigError] for a scope that is not the only scope of some policy, an ID that is empty or occurs twice, a weight out
// of range, no credentials, or more than [MaxCredentials]. Pool, or a call of the pool, also returns one for a policy with lanes or fair
// shares: pools do not support [policies.Policy.Lane] and [policies.Policy.Fair]. Under [policies.InFlight], a call holds a permit of its
// credential until [Reservation.Release].
func (p *Pacer) Pool(credentials []Credential, scopes ...string) (*Pool, error) {
	l := &Pool{pacer: p, scopes: slices.Clone(scopes), left: make(map[string]time.Time)}
	set := p.set()
	if len(scopes) == 0 {
		return nil, &ConfigError{Field: "Pool", Value: "without a scope", Reason: "name the one that the policies of each credential are Per"}
	}
	for _, scope := range scopes {
		if len(ownOf(set, scope)) == 0 {
			return nil, &ConfigError{
				Field: "Pool", Value: strconv.Quote(scope),
				Reason: fmt.Sprintf("no policy of upstream %q is Per(%[2]q) and nothing else: each credential needs a limit of its own", p.upstream, scope),
			}
		}
	}
	if err := p.unfit(set); err != nil {
		return nil, err
	}
	if n := len(credentials); n == 0 || n > MaxCredentials {
		return nil, badNumber("Pool", int64(n), fmt.Sprintf("must have from 1 to %d credentials", MaxCredentials))
	}
	seen := make(map[string]bool)
	for _, c := range credentials {
		if c.ID == "" || seen[c.ID] {
			return nil, &ConfigError{Field: "Credential.ID", Value: strconv.Quote(c.ID), Reason: "must not be empty, and no other credential of the pool may have it"}
		}
		if c.Weight < 0 || c.Weight > MaxWeight {
			return nil, badNumber("Credential.Weight", int64(c.Weight), fmt.Sprintf("must be from 1 to %d, or 0 for 1", MaxWeight))
		}
		seen[c.ID] = true
		l.add(c)
	}
	return l, nil
}

// add adds a credential to its account.
func (l *Pool) add(c Credential) {
	c.Weight = max(1, c.Weight)
	if c.Account == "" {
		c.Account = c.ID
	}
	i := slices.IndexFunc(l.accounts, func(a account) bool { return a.name == c.Account })
	if i < 0 {
		i = len(l.accounts)
		l.accounts = append(l.accounts, account{name: c.Account})
	}
	a := &l.accounts[i]
	a.all, a.weight, l.weight = append(a.all, c), a.weight+c.Weight, l.weight+c.Weight
}

// unfit returns an error if a pool cannot have the limits of a set.
func (p *Pacer) unfit(set *binding.Set) error {
	for i := range set.Limits {
		if l := &set.Limits[i]; l.Spec.Queue != policies.NoQueue {
			return &ConfigError{
				Field: "Pool", Value: "impossible",
				Reason: fmt.Sprintf("policy %q of upstream %q has lanes or fair shares, whose order is that of one queue, and the calls of a pool wait in a queue for each credential: use Scope and a credential of your choice, or a policy without them", l.Policy, p.upstream),
			}
		}
	}
	return nil
}

// ownOf returns the policies that are per one of some scopes and nothing else.
func ownOf(set *binding.Set, scopes ...string) (names []string) {
	for i := range set.Limits {
		if l := &set.Limits[i]; len(l.Scopes) == 1 && slices.Contains(scopes, l.Scopes[0]) {
			names = append(names, l.Policy)
		}
	}
	return names
}

// Acquire is [Pacer.Acquire] for a call with any one of the credentials: it blocks until the call may go, and returns its reservation.
// [Reservation.Credential] returns which credential to use: the one that is available soonest. The store finds it in the same request
// that charges it. While the call waits, it may get another credential, because the first is paused.
//
// Acquire returns the same errors as Pacer.Acquire. A [*LimitError] is about the credential that would be available soonest.
func (l *Pool) Acquire(ctx context.Context, opts ...Option) (*Reservation, error) {
	r, err := l.reserve(ctx, opts, true)
	if err != nil {
		return nil, err
	}
	if err := r.Wait(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// Reserve is [Pacer.Reserve] for a call with any one of the credentials. Always call [Reservation.Wait]: the credential is known only
// when it has returned.
func (l *Pool) Reserve(ctx context.Context, opts ...Option) (*Reservation, error) {
	return l.reserve(ctx, opts, false)
}

func (l *Pool) reserve(ctx context.Context, opts []Option, waits bool) (*Reservation, error) {
	r := newReservation()
	a, err := r.read(ctx, l.pacer, opts)
	if err != nil {
		return nil, err
	}
	a.permits, a.waits, a.untried = true, waits, waits
	a.pooled = &pooled{pool: l}
	a.pooled.stick, _ = ctx.Value(stickKey{l}).(*stick)
	a.pooled.only = l.keeps(a.pooled.stick, &a)
	if err := l.pacer.reserve(ctx, &a, &r.call, nil, &r.first, &r.asked); err != nil {
		return nil, err
	}
	return r, nil
}

// Book is [Pacer.Book] for a call by any one of the credentials: the booking is by the one that may be used soonest, and stays by it when it
// moves. Redeem its token with [Pool.Redeem]; to cancel it, use [Pacer.CancelBooking].
func (l *Pool) Book(ctx context.Context, opts ...Option) (tok string, wait time.Duration, err error) {
	return l.pacer.book(ctx, opts, l)
}

// Redeem is [Pacer.Redeem] for a token that [Pool.Book] returned, in any process that has a pool of these credentials. It returns a
// [*TokenError] that matches [ErrBadToken] for a token of another kind.
func (l *Pool) Redeem(ctx context.Context, tok string, opts ...Option) (*Reservation, error) {
	name := ""
	if t, err := parseToken(tok); err == nil {
		if name = l.accountIn(t); name == "" {
			return nil, &TokenError{Upstream: l.pacer.upstream, Err: errTokenPool}
		}
	}
	r, err := l.pacer.Redeem(ctx, tok, opts...)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.credential = l.pick(name, nil)
	return r, nil
}

// accountIn returns the account by which a booking is; "" if it is by none of the pool's.
func (l *Pool) accountIn(t *token) string {
	for _, o := range slices.Backward(t.scopes) {
		if slices.Contains(l.scopes, o.name) && slices.ContainsFunc(l.accounts, func(a account) bool { return a.name == o.value }) {
			return o.value
		}
	}
	return ""
}

// Pacer returns the Pacer that made the pool.
func (l *Pool) Pacer() *Pacer { return l.pacer }

// Do is [Pacer.Do] for a call with any one of the credentials: it passes the function the ID of the one that is available soonest.
func (l *Pool) Do(ctx context.Context, call func(ctx context.Context, credential string) (policies.Reading, error), opts ...Option) error {
	return do(ctx, func() (*Reservation, error) { return l.Acquire(ctx, append(slices.Clip(opts), Tracked())...) },
		func(ctx context.Context, r *Reservation) (policies.Reading, error) { return call(ctx, r.Credential()) })
}

// Credential returns the ID of the credential to make the call with, once [Reservation.Wait] has returned nil. It returns "" before that,
// and for a call that no [Pool] made.
func (r *Reservation) Credential() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.credential
}

// goes picks the credential of a call that may go, if it is one of a pool.
func (r *Reservation) goes() {
	r.mu.Lock()
	c := r.ask.pooled
	r.mu.Unlock()
	if c == nil {
		return
	}
	id := c.pool.pick(c.accounts[r.call.Choice()], c.stick) // not under mu: Bind takes it under the lock of the waiters
	r.mu.Lock()
	defer r.mu.Unlock()
	r.credential = id
}

// Leave takes a credential out of use for the time d. Call it if the credential was revoked, or is refused for a reason that no policy
// describes. Calls of any process that wait for it use other credentials instead. If the credential has limits of its own, Leave pauses
// them, so that one reply is enough for every process of the fleet; the pause lasts at most Config.MaxPause. If the credential shares an
// account, each process must leave it by itself, because the other credentials of the account stay in use. After d the credential is used
// again: if it still fails, call Leave again.
//
// It returns a [*ConfigError] if the pool has no such ID or d is not positive, and the errors of [Pacer.Report].
func (l *Pool) Leave(ctx context.Context, credential string, d time.Duration) error {
	if d <= 0 {
		return &ConfigError{Field: "Leave", Value: d.String(), Reason: "must be positive"}
	}
	of := l.accountOf(credential)
	if of == nil {
		return &ConfigError{Field: "Leave", Value: strconv.Quote(credential), Reason: "is not a credential of the pool"}
	}
	now := time.Now()
	l.mu.Lock()
	l.left[credential] = now.Add(d)
	wait := d
	for _, c := range of.all {
		wait = min(wait, max(0, l.left[c.ID].Sub(now)))
	}
	l.mu.Unlock()
	if wait == 0 { // another credential of the account can be used
		return nil
	}
	p := l.pacer
	return p.Report(ctx, policies.Feedback{Source: "Pool.Leave", Policies: ownOf(p.set(), l.scopes...), Wait: wait}, l.scoped(nil, of.name)...)
}

// A stick is the credential that calls of a context use.
type stick struct {
	mu sync.Mutex
	id string
}

type stickKey struct{ pool *Pool }

// Stick returns a context whose calls all use the credential that the first of them gets: for the pages of one listing, or a session. If
// this process knows that the credential is paused or out of use (see [Pool.Leave]), the next call gets another one, and later calls keep
// that.
func (l *Pool) Stick(ctx context.Context) context.Context {
	return context.WithValue(ctx, stickKey{l}, &stick{})
}

// keeps returns the name of the account to which a call has to stick; "" if it may have any.
func (l *Pool) keeps(s *stick, a *ask) string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	id := s.id
	s.mu.Unlock()
	of := l.accountOf(id)
	if of == nil || l.isLeft(id) {
		return ""
	}
	one := a.by(l, of.name)
	limits, err := l.pacer.bind(&one, nil)
	if err != nil || l.pacer.waiters.Paused(limits) {
		return ""
	}
	return of.name
}

// accountOf returns the account of a credential; nil if there is no such credential.
func (l *Pool) accountOf(id string) *account {
	for i := range l.accounts {
		if slices.ContainsFunc(l.accounts[i].all, func(c Credential) bool { return c.ID == id }) {
			return &l.accounts[i]
		}
	}
	return nil
}

func (l *Pool) isLeft(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.left[id])
}

// pick returns which credential of an account a call goes by: the one that it sticks to, or else one at random, by their weights. Of those
// that are left, it picks the one that comes back first, if there are no others.
func (l *Pool) pick(name string, s *stick) string {
	a := l.accounts[slices.IndexFunc(l.accounts, func(a account) bool { return a.name == name })]
	now := time.Now()
	l.mu.Lock()
	var fit []Credential
	weight, first := 0, a.all[0]
	for _, c := range a.all {
		if !now.Before(l.left[c.ID]) {
			delete(l.left, c.ID)
			fit, weight = append(fit, c), weight+c.Weight
		}
		if l.left[c.ID].Before(l.left[first.ID]) {
			first = c
		}
	}
	l.mu.Unlock()
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if slices.ContainsFunc(fit, func(c Credential) bool { return c.ID == s.id }) {
			return s.id
		}
	}
	id := first.ID
	if len(fit) > 0 {
		id = fit[weighted(len(fit), weight, func(i int) int { return fit[i].Weight })].ID
	}
	if s != nil {
		s.id = id
	}
	return id
}

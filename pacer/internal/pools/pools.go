package pools

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// A Credential is one credential of a [Pool].
type Credential struct {
	ID      string
	Account string // whose limits it shares; "" for its own
	Weight  int    // compared with others; 0 for 1
}

// An Account is credentials that share limits.
type Account struct {
	Name        string
	Credentials []Credential
	Weight      int // of all of them
}

// A Pool is some credentials, by account. It is safe for concurrent use: the exported fields are for reading.
type Pool struct {
	Scopes   []string // whose value is the name of an account
	Accounts []Account
	Weight   int // of all of them

	mu       sync.Mutex
	left     map[string]time.Time // until when credentials are not used, by their IDs
	watchers map[*func()]struct{} // called when none is used any more
	refused  map[string]refusals  // by account
}

// refusals are an account's refusals in a row without a requested wait.
type refusals struct {
	rest time.Duration // after the last one
	last time.Time     // when it was received
}

// The rest after refusals in a row doubles from the shortest to the longest.
const (
	shortestRest = time.Second
	longestRest  = time.Minute
)

// New returns a pool of credentials with different IDs, whose accounts some scopes distinguish.
func New(credentials []Credential, scopes []string) *Pool {
	l := &Pool{Scopes: slices.Clone(scopes), left: make(map[string]time.Time), watchers: make(map[*func()]struct{}), refused: make(map[string]refusals)}
	for _, c := range credentials {
		l.add(c)
	}
	return l
}

// add adds a credential to its account.
func (l *Pool) add(c Credential) {
	c.Weight = max(1, c.Weight)
	if c.Account == "" {
		c.Account = c.ID
	}
	a := l.Account(c.Account)
	if a == nil {
		l.Accounts = append(l.Accounts, Account{Name: c.Account})
		a = &l.Accounts[len(l.Accounts)-1]
	}
	a.Credentials, a.Weight, l.Weight = append(a.Credentials, c), a.Weight+c.Weight, l.Weight+c.Weight
}

// Account returns the account with a name; nil without one.
func (l *Pool) Account(name string) *Account {
	i := slices.IndexFunc(l.Accounts, func(a Account) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return &l.Accounts[i]
}

// AccountOf returns the account of a credential; nil if it is unknown.
func (l *Pool) AccountOf(id string) *Account {
	for i := range l.Accounts {
		if slices.ContainsFunc(l.Accounts[i].Credentials, func(c Credential) bool { return c.ID == id }) {
			return &l.Accounts[i]
		}
	}
	return nil
}

// Any returns the index of a random account, by their weights.
func (l *Pool) Any() int {
	return weighted(len(l.Accounts), l.Weight, func(i int) int { return l.Accounts[i].Weight })
}

// weighted returns a random index below n, by weights that sum up to all.
func weighted(n, all int, weight func(int) int) int {
	at := rand.IntN(all)
	for i := range n {
		if at -= weight(i); at < 0 {
			return i
		}
	}
	return n - 1
}

// Leave takes a credential out of use for d. It returns its account, nil if the credential is unknown, and how long to pause that: until
// its first credential comes back, or 0 if another one is in use, or if none of the whole pool is, since then no call waits.
func (l *Pool) Leave(id string, d time.Duration) (of *Account, pause time.Duration) {
	if of = l.AccountOf(id); of == nil {
		return nil, 0
	}
	l.mu.Lock()
	l.left[id] = time.Now().Add(d)
	pause = l.outFor(*of)
	var call []*func()
	if l.outFor(l.Accounts...) > 0 {
		pause, call = 0, slices.Collect(maps.Keys(l.watchers))
	}
	l.mu.Unlock()
	for _, f := range call {
		(*f)()
	}
	return of, pause
}

// Refused records that the upstream refused a call, which went at a time by a credential, and requested no wait. It returns how long the
// credential's account rests. Calls that were under way when another refusal came count as one with it: for them it returns 0.
func (l *Pool) Refused(id string, went time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := l.AccountOf(id).Name
	r := l.refused[name]
	if !went.After(r.last) {
		return 0
	}
	r = refusals{max(shortestRest, min(2*r.rest, longestRest)), time.Now()}
	l.refused[name] = r
	return r.rest
}

// Accepted records that the upstream did not refuse a call: a later refusal is the first in a row.
func (l *Pool) Accepted(id string, went time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.refused) == 0 {
		return
	}
	if name := l.AccountOf(id).Name; went.After(l.refused[name].last) {
		delete(l.refused, name)
	}
}

// Out returns how long no credential of the pool is in use; 0 if one is.
func (l *Pool) Out() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.left) == 0 {
		return 0
	}
	return l.outFor(l.Accounts...)
}

// OnOut calls f each time that the last credential in use is left, until stop is called.
func (l *Pool) OnOut(f func()) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watchers[&f] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watchers, &f)
	}
}

// outFor returns how long no credential of some accounts is in use; 0 if one is. The caller holds mu.
func (l *Pool) outFor(all ...Account) (d time.Duration) {
	now, first := time.Now(), true
	for i := range all {
		for _, c := range all[i].Credentials {
			if left := max(0, l.left[c.ID].Sub(now)); first || left < d {
				d, first = left, false
			}
		}
	}
	return d
}

// Pick returns the credential of an account for a call: the one that it sticks to, or else a random one, by their weights. A nil s sticks
// to none.
func (l *Pool) Pick(account string, s *Stick) string {
	a := l.Account(account)
	fit, weight, first := l.inUse(a)
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if slices.ContainsFunc(fit, func(c Credential) bool { return c.ID == s.id }) {
			return s.id
		}
	}
	id := first
	if len(fit) > 0 {
		id = fit[weighted(len(fit), weight, func(i int) int { return fit[i].Weight })].ID
	}
	if s != nil {
		s.id = id
	}
	return id
}

// inUse returns the credentials of an account that are in use, their weight, and the first to come back if there is none.
func (l *Pool) inUse(a *Account) (fit []Credential, weight int, first string) {
	now := time.Now()
	first = a.Credentials[0].ID
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range a.Credentials {
		if !now.Before(l.left[c.ID]) {
			delete(l.left, c.ID)
			fit, weight = append(fit, c), weight+c.Weight
		}
		if l.left[c.ID].Before(l.left[first]) {
			first = c.ID
		}
	}
	return fit, weight, first
}

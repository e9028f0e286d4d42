package dispatch_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/dispatch"
	"github.com/headway-go/headway/pacer/store"
)

// member is a member that takes its time, and grants a slot to each call at once.
type member struct {
	store.Member

	takes    time.Duration
	decides  int // calls of a request; 0 for all
	fails    error
	panics   bool
	punctual bool

	mu      sync.Mutex
	sent    []int // calls of each request
	most    int   // requests on the wire
	now     int
	granted int
	back    int
}

func (m *member) ReserveEach(_ context.Context, batches []store.Batch, errs []error) {
	m.mu.Lock()
	calls := 0
	for i := range batches {
		calls += len(batches[i].Calls)
	}
	m.sent, m.now = append(m.sent, calls), m.now+1
	m.most = max(m.most, m.now)
	m.mu.Unlock()
	time.Sleep(m.takes)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now--
	if m.panics {
		panic("a hook of its client")
	}
	n, now := 0, instant(time.Now())
	for i := range batches {
		for j := range batches[i].Calls {
			g := &batches[i].Grants[j]
			if n++; m.decides > 0 && n > m.decides {
				*g = store.Grant{Deferred: true}
				continue
			}
			m.granted++
			*g = store.Grant{OK: true, Now: now, At: now, Binds: store.BindsNothing, Charges: []store.Charge{{From: int64(m.granted)}}}
		}
		errs[i] = m.fails
	}
}

func (m *member) CancelAll(_ context.Context, batches []store.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range batches {
		m.back += len(batches[i].Grants)
	}
	return nil
}

func (m *member) Now() store.Instant                            { return instant(time.Now()) }
func (m *member) Echoes() bool                                  { return false }
func (m *member) Exchangeable(*store.Grant) bool                { return false }
func (m *member) Returning(*store.Grant) bool                   { return false }
func (m *member) Listen(string, func(store.News)) (stop func()) { return func() {} }

// given is the store below a member.
type given struct {
	store.Shared

	m *member
}

func (g given) Punctual() bool { return g.m.punctual }

func newSharing(t *testing.T, m *member) *rig {
	t.Helper()
	return newRig(t, m, func(c *dispatch.Config) { c.Member, c.Given = m, given{m: m} })
}

// each has n calls of stacks reserve at the same time, and returns how many failed when all have an answer.
func (r *rig) each(t *testing.T, n int, stack func(i int) []store.Limit, waits bool) (failed int) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			q := request(stack(i))
			q.WillWait = waits
			if r.Reserve(t.Context(), new(dispatch.Call), q) != nil {
				mu.Lock()
				defer mu.Unlock()
				failed++
			}
		})
	}
	all.Wait()
	return failed
}

func one(int) []store.Limit       { return rate }
func tenants(i int) []store.Limit { return []store.Limit{{Policy: "limit", Scope: strconv.Itoa(i)}} }

// Calls that come while one of the same stack is on the wire go together in the next request, whether they wait or not.
func TestCallsThatComeMeanwhileShareARequest(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		for _, punctual := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				m := &member{takes: 10 * ms, punctual: punctual}
				require.Zero(t, newSharing(t, m).each(t, 60, one, waits))
				require.Equal(t, []int{1, 59}, m.sent)
			})
		}
	}
}

// Calls of other stacks are on the wire at the same time, but not in any number, and share requests.
func TestFewRequestsAreOnTheWire(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := &member{takes: 10 * ms}
			require.Zero(t, newSharing(t, m).each(t, 1000, tenants, waits))
			require.Equal(t, 4, m.most)
			require.Equal(t, 1000, m.granted)
			require.LessOrEqual(t, slices.Max(m.sent), dispatch.MaxBatch)
			require.LessOrEqual(t, len(m.sent), 20)
		})
	}
}

// Calls that the store defers are sent again, in requests of the size that it decides.
func TestDeferredCallsAreRequestedAgain(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := &member{takes: 10 * ms, decides: 20}
			require.Zero(t, newSharing(t, m).each(t, 200, one, waits))
			require.Equal(t, 200, m.granted)
			require.Less(t, slices.Max(m.sent[3:]), 40, "of what the store decides")
		})
	}
}

// If the rest of a request fails, only its calls do: the others have their slots.
func TestTheRestOfARequestFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &member{takes: 10 * ms, decides: 20}
		r := newSharing(t, m)
		time.AfterFunc(25*ms, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.fails = errDown
		})
		require.Equal(t, 29, r.each(t, 50, one, true), "all but the first, and the 20 that the store decided before")
		synctest.Wait()
		require.Zero(t, m.back)
	})
}

// A store that panics in a caller's goroutine panics there, and nobody waits for ever.
func TestAPanicFailsItsRequest(t *testing.T) {
	t.Parallel()
	for _, punctual := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := &member{panics: true, punctual: punctual}
			r := newSharing(t, m)
			ask := func() error { return r.Reserve(t.Context(), new(dispatch.Call), hold()) }
			if punctual {
				require.Panics(t, func() { _ = ask() })
			} else {
				require.ErrorIs(t, ask(), store.ErrUnreachable)
			}
			m.panics = false
			require.NoError(t, ask())
			r.Close()
			require.ErrorIs(t, ask(), store.ErrClosed)
		})
	}
}

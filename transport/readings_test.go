package transport_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/memstore"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

// stating is an upstream that counts in windows, spends some of them on others, and says what is left.
type stating struct {
	limit   int
	period  time.Duration
	sliding bool
	every   int     // how many good replies one reading comes with
	others  float64 // the part of the limit that others spend

	mu      sync.Mutex
	rng     *rand.Rand
	begin   time.Time
	replies int
	next    time.Time   // when others spend one
	spent   []time.Time // by all, within a period
	windows []window
}

// window is what came of one window of the upstream.
type window struct{ own, others, refused int }

// at returns the window of an instant.
func (s *stating) at(now time.Time) *window {
	i := int(now.Sub(s.begin) / s.period)
	for len(s.windows) <= i {
		s.windows = append(s.windows, window{})
	}
	return &s.windows[i]
}

// forget forgets what counts no more.
func (s *stating) forget(now time.Time) {
	from := now.Add(-s.period)
	if !s.sliding {
		from = s.begin.Add(now.Sub(s.begin).Truncate(s.period)).Add(-1)
	}
	for len(s.spent) > 0 && !s.spent[0].After(from) {
		s.spent = s.spent[1:]
	}
}

func (s *stating) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	there, back := s.way(), s.way()
	s.mu.Unlock()
	time.Sleep(there)
	defer time.Sleep(back)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for s.others > 0 && s.next.Before(now) {
		if s.forget(s.next); len(s.spent) < s.limit {
			s.spent = append(s.spent, s.next)
			s.at(s.next).others++
		}
		s.next = s.next.Add(time.Duration(s.rng.ExpFloat64() * float64(s.period) / (s.others * float64(s.limit))))
	}
	s.forget(now)
	good := len(s.spent) < s.limit
	if good {
		s.spent = append(s.spent, now)
		s.at(now).own++
	} else {
		s.at(now).refused++
	}
	s.replies++
	if good && s.replies%s.every != 0 {
		return reply(req, http.StatusOK, "ok"), nil
	}
	reset := s.begin.Add(now.Sub(s.begin).Truncate(s.period)).Add(s.period).Sub(now)
	if s.sliding && len(s.spent) > 0 {
		reset = s.spent[0].Add(s.period).Sub(now)
	}
	status := http.StatusOK
	if !good {
		status = http.StatusTooManyRequests
	}
	return reply(req, status, "", "X-RateLimit-Limit", strconv.Itoa(s.limit), "X-RateLimit-Remaining", strconv.Itoa(s.limit-len(s.spent)),
		"X-RateLimit-Reset", strconv.Itoa(int((reset+time.Second-1)/time.Second))), nil
}

func (s *stating) way() time.Duration {
	return 10*time.Millisecond + time.Duration(s.rng.ExpFloat64()*15)*time.Millisecond
}

// A fleet uses what others leave of a limit that its upstream states, and hardly a call is refused: whether its policy is right or twice too
// high, for windows by the clock and sliding ones, with a reading on each reply and on every tenth.
func TestWhatAnUpstreamStatesIsUsed(t *testing.T) {
	t.Parallel()
	for _, every := range []int{1, 10} {
		for _, declared := range []int64{1, 2} {
			for _, sliding := range []bool{false, true} {
				t.Run(fmt.Sprintf("every %d, declared %d, sliding %t", every, declared, sliding), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						api := &stating{limit: 300, period: time.Hour, every: every, rng: rand.New(rand.NewPCG(1, 2)), begin: time.Now(), next: time.Now()}
						policy := policies.Fixed(declared*300, time.Hour)
						if sliding {
							api.limit, api.period, api.sliding, api.others = 200, 10*time.Second, true, 0.5
							policy = policies.Sliding(declared*200, 10*time.Second)
						}
						stated(t, api, policy)
					})
				})
			}
		}
	}
}

// stated runs a fleet of four processes with sixteen callers each for five windows.
func stated(t *testing.T, api *stating, policy policies.Policy) {
	t.Helper()
	shared := memstore.New()
	end := api.begin.Add(5 * api.period)
	var all sync.WaitGroup
	for range 4 {
		p, err := pacer.New(pacer.Config{Upstream: "api", Store: shared, MaxWait: pacer.Forever, Policies: []policies.Policy{policy.Named("quota")}})
		require.NoError(t, err)
		defer p.Close()
		client, err := transport.NewClient(p, transport.WithBase(api))
		require.NoError(t, err)
		for range 16 {
			all.Go(func() {
				for time.Now().Before(end) {
					resp, err := client.Get("http://api.example.com/")
					if err == nil {
						_ = resp.Body.Close()
					}
				}
			})
		}
	}
	all.Wait()
	used, left, refused := 0, 0, 0
	for _, w := range api.windows[1:5] {
		used, left, refused = used+w.own, left+api.limit-w.others, refused+w.refused
	}
	share, each := float64(used)/float64(left), float64(refused)/4
	t.Logf("used %d of %d (%.1f %%), refused %.1f a window, %d in the first", used, left, 100*share, each, api.windows[0].refused)
	require.GreaterOrEqual(t, share, 0.9)
	if api.every == 1 || api.others == 0 { // otherwise nobody can know how many others are there first
		require.LessOrEqual(t, each, 0.1*float64(api.limit))
	}
}

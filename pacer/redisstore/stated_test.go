package redisstore_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/internal/testing/redistest"
	"github.com/headway-go/headway/pacer/redisstore"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
	"github.com/headway-go/headway/transport/upstreamtest"
)

// A way to call an upstream by a Pacer.
type way func(t *testing.T, p *pacer.Pacer, api *upstreamtest.Upstream) (call func() error)

// byClient uses a client of package transport.
func byClient(t *testing.T, p *pacer.Pacer, api *upstreamtest.Upstream) func() error {
	t.Helper()
	client, err := transport.NewClient(p, transport.WithBase(api))
	require.NoError(t, err)
	return func() error {
		resp, err := client.Get("http://api.test/")
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
}

// ask makes one call, and reads its answer.
func ask(ctx context.Context, api *upstreamtest.Upstream) (policies.Reading, error) {
	resp, err := api.RoundTrip(must(http.NewRequestWithContext(ctx, http.MethodGet, "http://api.test/", http.NoBody)))
	if err != nil || resp.StatusCode == http.StatusOK {
		return policies.Reading{}, err
	}
	return policies.Reading{Verdict: policies.Limited, Feedback: []policies.Feedback{{Source: "Retry-After", Refused: true, Wait: time.Second}}}, nil
}

// An informed view passes on what the server published by the time that a report returns.
type informed struct {
	*view

	rdb       *redis.Client
	published *redis.PubSub
	mu        sync.Mutex
	receivers []func(store.News)
}

// listenTo returns a view of an upstream.
func listenTo(t *testing.T, upstream string) *informed {
	t.Helper()
	l := &informed{view: newView(t), rdb: redistest.Shared(t).Client()}
	l.published = l.rdb.Subscribe(t.Context(), "pacer:10:{"+upstream+"}/pauses")
	t.Cleanup(func() { _ = l.published.Close() })
	_ = must(l.published.Receive(t.Context()))
	return l
}

// Listen implements [store.Notifier].
func (l *informed) Listen(_ string, receive func(store.News)) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.receivers = append(l.receivers, receive)
	return func() {}
}

func (l *informed) Report(ctx context.Context, s store.Stack, notes []store.Note) (now store.Instant, changed int, err error) {
	now, changed, err = l.view.Report(ctx, s, notes)
	l.mu.Lock()
	defer l.mu.Unlock()
	var n store.News
	l.do(func() { n.Changes = l.changes("pacer:10:{" + s.Upstream + "}/pauses") }) //nolint:contextcheck // it leaves the bubble of the caller
	for _, receive := range l.receivers {
		receive(n)
	}
	return now, changed, err
}

// changes returns what was published before a mark that it publishes.
func (l *informed) changes(channel string) (all []store.Change) {
	ctx, mark := context.Background(), "mark"
	_ = must(l.rdb.Publish(ctx, channel, mark).Result())
	for {
		m := must(l.published.ReceiveMessage(ctx))
		if m.Payload == mark {
			return all
		}
		all = append(all, redisstore.ParseChanges(channel, m.Payload)...)
	}
}

// playStated has two processes of eight callers use an upstream for a time, over a real server and in virtual time, after others began. A
// call takes 15 ms and an exponential 5 ms each way.
func playStated(
	t *testing.T, upstream string, api *upstreamtest.Upstream, lasts time.Duration, policy policies.Policy, by way, begin func(end time.Time),
) {
	t.Helper()
	upstream += strconv.FormatInt(time.Now().UnixNano(), 10) // the server may have data of another run
	v := listenTo(t, upstream)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, time.March, 3, 0, 0, 0, 0, time.UTC))) // epochs of the year 2000 are not read as such
		var mu sync.Mutex
		rng := rand.New(rand.NewPCG(1, 41))
		api.Delay = func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return 15*time.Millisecond + time.Duration(rng.ExpFloat64()*float64(5*time.Millisecond))
		}
		end := time.Now().Add(lasts)
		begin(end)
		var all sync.WaitGroup
		for range 2 {
			p, err := pacer.New(pacer.Config{Upstream: upstream, Store: v, MaxWait: pacer.Forever, Policies: []policies.Policy{policy}})
			require.NoError(t, err)
			defer p.Close()
			call := by(t, p, api)
			for range 8 {
				all.Go(func() {
					for time.Now().Before(end) {
						if err := call(); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
		}
		all.Wait()
	})
}

// A window of the clock that is rightly declared, each reply of which is dated, is used for what others leave of it: see the test of this
// name in package transport.
func TestADatedWindowIsUsed(t *testing.T) {
	t.Parallel()
	const most, windows, period = 200, 3, 10 * time.Second
	api := &upstreamtest.Upstream{
		Limits: []upstreamtest.Limit{upstreamtest.Fixed(most, period)}, Refuse: bare,
		State: upstreamtest.Fields("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", upstreamtest.Unix),
	}
	var taken atomic.Int64
	playStated(t, "stated-dated", api, windows*period, policies.Fixed(most, period), byClient, func(end time.Time) {
		go func() {
			for ; time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				if api.Spend(nil) {
					taken.Add(1)
				}
			}
		}()
	})
	used := api.Admitted()
	t.Logf("%d of %d used, %d by others, %d refused", used, windows*most, taken.Load(), api.Refused())
	require.GreaterOrEqual(t, used, (windows*most-int(taken.Load()))*9/10) // 60 to 70 % before there were allowances
	require.LessOrEqual(t, api.Refused(), windows*10)
}

// bare refuses a call without a word of when to come again.
func bare(w http.ResponseWriter, r *http.Request, _ time.Duration) {
	upstreamtest.Refusal(http.StatusTooManyRequests, 0).ServeHTTP(w, r)
}

// Others have spent a sliding window, which refusals do not state: calls are rare until there is more, and none fails.
func TestBareRefusalsOfAnHour(t *testing.T) {
	t.Parallel()
	api := &upstreamtest.Upstream{Limits: []upstreamtest.Limit{upstreamtest.Sliding(1000, time.Hour)}, Refuse: bare}
	var first atomic.Int64
	playStated(t, "stated-bare", api, 4*time.Hour, policies.Sliding(1000, time.Hour), byClient, func(time.Time) {
		for range 1000 {
			require.True(t, api.Spend(nil))
			time.Sleep(3 * time.Second)
		}
		time.AfterFunc(10*time.Minute, func() { first.Store(int64(api.Refused())) }) // until then nothing is left
	})
	early := int(first.Load())
	t.Logf("%d admitted, %d refused, %d of them early", api.Admitted(), api.Refused(), early)
	require.LessOrEqual(t, early, 40)
	require.LessOrEqual(t, (api.Refused()-early)*100, api.Admitted()*5)
	require.GreaterOrEqual(t, api.Admitted(), 1000)
}

// A program that reports on its reservations uses as much of a strict limit as one that uses Do: see the test of this name in package pacer.
func TestReportsOnReservationsUseWhatDoUses(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]way{
		"do": func(t *testing.T, p *pacer.Pacer, api *upstreamtest.Upstream) func() error {
			t.Helper()
			return func() error {
				return p.Do(t.Context(), func(ctx context.Context) (policies.Reading, error) { return ask(ctx, api) })
			}
		},
		"reservation": func(t *testing.T, p *pacer.Pacer, api *upstreamtest.Upstream) func() error {
			t.Helper()
			return func() error {
				r, err := p.Acquire(t.Context(), pacer.Tracked())
				if err != nil {
					return err
				}
				defer r.Release()
				reading, err := ask(t.Context(), api)
				_ = r.Report(t.Context(), reading.Feedback...)
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const most, seconds = 50, 15
			api := &upstreamtest.Upstream{Limits: []upstreamtest.Limit{upstreamtest.Sliding(most, time.Second)}}
			playStated(t, "stated-"+name, api, seconds*time.Second, policies.AtMost(most, time.Second), by, func(time.Time) {})
			t.Logf("%d of %d used, %d refused", api.Admitted(), seconds*most, api.Refused())
			require.GreaterOrEqual(t, api.Admitted(), seconds*most*9/10)
		})
	}
}

package bench_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A rule is a limit that the upstream enforces. It shares no code with the engine.
type rule struct {
	Kind   ruleKind
	N      int           // calls per period
	Period time.Duration // of a window; for a bucket, the time in which it gets N tokens
	Burst  int           // what a bucket holds

	PerTenant    bool
	CountRefused bool // a call that is refused counts against a sliding window, too

	// While it lasts, another N.
	OtherN      int
	OtherFrom   time.Duration // since the start
	OtherLength time.Duration
}

type ruleKind string

const (
	slidingLog  ruleKind = "sliding" // at most N in any window of the period, by a log of every call
	fixedWindow ruleKind = "fixed"   // at most N in each window of the clock
	tokenBucket ruleKind = "bucket"
)

// An account is what a rule remembers of a tenant, or of all of them.
type account struct {
	log    []time.Duration // sliding
	window time.Duration   // fixed: its begin
	count  int             // fixed: calls in it
	tokens float64         // bucket
	last   time.Duration   // bucket: when tokens was right
}

// A judge enforces rules. Times are since the Unix epoch and do not go back.
type judge struct {
	rules    []rule
	begin    time.Duration
	accounts []map[string]*account
}

func newJudge(rules []rule) *judge {
	j := &judge{rules: rules}
	for range rules {
		j.accounts = append(j.accounts, make(map[string]*account))
	}
	return j
}

// admit decides about a call: 0 if it is admitted, or else how long it has to stay away.
func (j *judge) admit(at time.Duration, tenant string) (wait time.Duration) {
	for i := range j.rules {
		wait = max(wait, j.account(i, tenant, at).wait(&j.rules[i], j.limit(i, at), at))
	}
	for i := range j.rules {
		if r := &j.rules[i]; wait == 0 || r.CountRefused {
			j.account(i, tenant, at).charge(r.Kind, at)
		}
	}
	return wait
}

func (j *judge) limit(i int, at time.Duration) int {
	r := &j.rules[i]
	if since := at - j.begin - r.OtherFrom; since >= 0 && since < r.OtherLength {
		return r.OtherN
	}
	return r.N
}

func (j *judge) account(i int, tenant string, at time.Duration) *account {
	if !j.rules[i].PerTenant {
		tenant = ""
	}
	a := j.accounts[i][tenant]
	if a == nil {
		a = &account{tokens: float64(j.rules[i].Burst), last: at}
		j.accounts[i][tenant] = a
	}
	return a
}

// wait forgets what is over, and returns how long it is until n calls per period allow one more.
func (a *account) wait(r *rule, n int, at time.Duration) time.Duration {
	switch r.Kind {
	case slidingLog:
		over, _ := slices.BinarySearchFunc(a.log, at-r.Period, func(t, old time.Duration) int {
			if t <= old {
				return -1
			}
			return 1
		})
		a.log = a.log[over:]
		if len(a.log) >= n {
			first := len(a.log) - n // once this one is over, there is room
			if r.CountRefused {
				first++ // this call will be in the log, too
			}
			return append(slices.Clip(a.log), at)[first] + r.Period - at
		}
	case fixedWindow:
		if w := at.Truncate(r.Period); w != a.window {
			a.window, a.count = w, 0
		}
		if a.count >= n {
			return a.window + r.Period - at
		}
	case tokenBucket:
		perToken := float64(r.Period) / float64(n)
		a.tokens = min(float64(r.Burst), a.tokens+float64(at-a.last)/perToken)
		a.last = at
		if a.tokens < 1 {
			return max(1, time.Duration((1-a.tokens)*perToken))
		}
	}
	return 0
}

func (a *account) charge(k ruleKind, at time.Duration) {
	switch k {
	case slidingLog:
		a.log = append(a.log, at)
	case fixedWindow:
		a.count++
	case tokenBucket:
		a.tokens--
	}
}

// An arrival is a call that reached the upstream. Times are since the start.
type arrival struct {
	At      time.Duration
	Sent    time.Duration // when it was let go, by its process
	Tenant  string
	Process int
	OK      bool
}

// upstream answers calls by the judge's decisions, and keeps a log of them.
type upstream struct {
	mu    sync.Mutex
	clock clock
	judge *judge
	log   []arrival
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	a := arrival{Tenant: query.Get("tenant")}
	a.Process, _ = strconv.Atoi(query.Get("process"))
	sent, _ := strconv.ParseInt(query.Get("sent"), 10, 64)
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.clock.now()
	wait := u.judge.admit(now, a.Tenant)
	a.At, a.Sent, a.OK = now-u.judge.begin, time.Duration(sent)-u.judge.begin, wait == 0
	u.log = append(u.log, a)
	if !a.OK {
		seconds := (wait + time.Second - 1) / time.Second
		w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// beUpstream is the role of the upstream. Its rules are its job; when ready, it sends its URL; at the end of its input, its log.
func beUpstream(in *json.Decoder, out *json.Encoder) error {
	u := &upstream{clock: newClock()}
	var rules []rule
	if err := in.Decode(&rules); err != nil {
		return err
	}
	u.judge = newJudge(rules)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: u}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	if err := out.Encode("http://" + listener.Addr().String()); err != nil {
		return err
	}
	var begin time.Duration
	if err := in.Decode(&begin); err != nil {
		return err
	}
	u.mu.Lock()
	u.judge.begin = begin
	u.mu.Unlock()
	if err := in.Decode(&begin); !errors.Is(err, io.EOF) {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return out.Encode(u.log)
}

func TestTheUpstreamIsStrict(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	type call struct {
		at   time.Duration
		wait time.Duration
	}
	for name, c := range map[string]struct {
		rules []rule
		calls []call
	}{
		"sliding window": {
			[]rule{{Kind: slidingLog, N: 2, Period: time.Second}},
			[]call{{0, 0}, {300 * ms, 0}, {999 * ms, 1 * ms}, {1000 * ms, 0}, {1001 * ms, 299 * ms}, {1300 * ms, 0}},
		},
		"sliding window that counts refused calls": {
			[]rule{{Kind: slidingLog, N: 2, Period: time.Second, CountRefused: true}},
			[]call{{0, 0}, {300 * ms, 0}, {900 * ms, 400 * ms}, {1200 * ms, 700 * ms}, {1900 * ms, 0}, {2000 * ms, 900 * ms}, {2900 * ms, 0}},
		},
		"fixed window": {
			[]rule{{Kind: fixedWindow, N: 2, Period: time.Second}},
			[]call{{900 * ms, 0}, {950 * ms, 0}, {960 * ms, 40 * ms}, {1000 * ms, 0}, {1000 * ms, 0}, {1001 * ms, 999 * ms}},
		},
		"token bucket": {
			[]rule{{Kind: tokenBucket, N: 10, Period: time.Second, Burst: 2}},
			[]call{{0, 0}, {0, 0}, {0, 100 * ms}, {99 * ms, 1 * ms}, {100 * ms, 0}, {10_000 * ms, 0}, {10_000 * ms, 0}, {10_000 * ms, 100 * ms}},
		},
		"a stack charges all or nothing": {
			[]rule{{Kind: slidingLog, N: 2, Period: time.Second}, {Kind: fixedWindow, N: 1, Period: 100 * ms}},
			[]call{{0, 0}, {10 * ms, 90 * ms}, {20 * ms, 80 * ms}, {100 * ms, 0}, {200 * ms, 800 * ms}, {1000 * ms, 0}},
		},
		"a limit that is another for a while": {
			[]rule{{Kind: slidingLog, N: 3, Period: time.Second, OtherN: 1, OtherFrom: 2 * time.Second, OtherLength: time.Second}},
			[]call{{1900 * ms, 0}, {1910 * ms, 0}, {1920 * ms, 0}, {2000 * ms, 920 * ms}, {2919 * ms, 1 * ms}, {2920 * ms, 0}, {3000 * ms, 0}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJudge(c.rules)
			for i, call := range c.calls {
				assert.InDelta(t, call.wait, j.admit(call.at, "x"), 1, "call %d", i) // a bucket counts in floats
			}
		})
	}

	j := newJudge([]rule{{Kind: slidingLog, N: 1, Period: time.Second, PerTenant: true}})
	require.Zero(t, j.admit(0, "a"))
	require.Zero(t, j.admit(0, "b"))
	require.Equal(t, time.Second, j.admit(0, "a"))
}

package bench_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/headway-go/headway/transport/upstreamtest"
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

// limits are the rules as the upstream enforces them: usually, and while OtherN holds.
func limits(rules []rule, other bool) (list []upstreamtest.Limit) {
	for _, r := range rules {
		n := r.N
		if other && r.OtherN > 0 {
			n = r.OtherN
		}
		var l upstreamtest.Limit
		switch r.Kind {
		case slidingLog:
			l = upstreamtest.Sliding(n, r.Period)
		case fixedWindow:
			l = upstreamtest.Fixed(n, r.Period)
		case tokenBucket:
			l = upstreamtest.Bucket(r.Burst, r.Period/time.Duration(n))
		}
		if r.PerTenant {
			l = l.Per(func(r *http.Request) string { return r.FormValue("tenant") })
		}
		if r.CountRefused {
			l = l.CountRefused()
		}
		list = append(list, l)
	}
	return list
}

// An arrival is a call that reached the upstream. Times are since the start.
type arrival struct {
	At      time.Duration
	Sent    time.Duration // when it was let go, by its process
	Tenant  string
	Process int
	OK      bool
}

// arrivals are the calls that reached an upstream since an instant.
func arrivals(u *upstreamtest.Upstream, begin time.Duration) (log []arrival) {
	for _, c := range u.Calls() {
		query := c.Request.URL.Query()
		process, _ := strconv.Atoi(query.Get("process"))
		sent, _ := strconv.ParseInt(query.Get("sent"), 10, 64)
		log = append(log, arrival{
			At: time.Duration(c.At.UnixNano()) - begin, Sent: time.Duration(sent) - begin, Tenant: query.Get("tenant"), Process: process, OK: c.Admitted,
		})
	}
	return log
}

// beUpstream is the role of the upstream. Its rules are its job; when ready, it sends its URL; at the end of its input, its log.
func beUpstream(in *json.Decoder, out *json.Encoder) error {
	clock := newClock()
	u := &upstreamtest.Upstream{Now: func() time.Time { return time.Unix(0, int64(clock.now())) }}
	var rules []rule
	if err := in.Decode(&rules); err != nil {
		return err
	}
	u.Limits = limits(rules, false)
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
	for _, r := range rules {
		if r.OtherN > 0 {
			time.AfterFunc(clock.until(begin+r.OtherFrom), func() { u.SetLimits(limits(rules, true)...) })
			time.AfterFunc(clock.until(begin+r.OtherFrom+r.OtherLength), func() { u.SetLimits(limits(rules, false)...) })
		}
	}
	var nothing int
	if err := in.Decode(&nothing); !errors.Is(err, io.EOF) {
		return err
	}
	return out.Encode(arrivals(u, begin))
}

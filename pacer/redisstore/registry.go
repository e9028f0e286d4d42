package redisstore

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/pacer/internal/scripts"
	"github.com/headway-go/headway/pacer/store"
)

var _ store.Registry = (*Store)(nil)

// enlistEvery is how often a process enlists its upstream, and enlistSpread how often the processes of an upstream do so on average. In a
// Cluster the list is on another server, so it takes a request of its own.
const (
	enlistEvery  = time.Minute
	enlistSpread = 100 * time.Millisecond
)

// Describe implements [store.Registry].
func (s *Store) Describe(ctx context.Context, upstream string, about store.About) (versions int, err error) {
	description, version := "", ""
	if !about.Left {
		version = store.VersionOf(about.Policies)
		if description, err = describe(&about, version); err != nil {
			return 0, err
		}
	}
	q, up := newRequest(), upstreamKey(upstream)
	q.key(up)
	q.key(up + indexMark)
	q.key(up + aliveMark)
	q.args = append(q.args, about.ID, description)
	q.numbers(engine.MicrosUp(about.Keep))
	q.args = append(q.args, version)
	q.numbers(engine.MicrosUp(countsFor(about.Every)))
	q.numbers(int64(len(about.Policies)))
	for _, text := range about.Policies {
		name, _, _ := strings.Cut(text, ":")
		q.args = append(q.args, name, text)
	}
	for i := range about.Went {
		w := &about.Went[i]
		q.args = append(q.args, w.Policy)
		q.numbers(w.Second, w.What.Cost, w.What.Waits, w.What.Waited.Microseconds())
	}
	r, err := s.run(ctx, scripts.Describe, q)
	if err != nil {
		return 0, err
	}
	r.int()
	alive := r.int()
	versions = int(r.int())
	if err := r.done(); err != nil || !s.mayEnlist(upstream, alive) {
		return versions, err
	}
	q = newRequest()
	q.key(upstreamsKey)
	q.args = append(q.args, upstream)
	q.numbers(engine.MicrosUp(about.Keep))
	if _, err = s.run(ctx, scripts.Enlist, q); err != nil {
		s.mu.Lock()
		delete(s.listed, upstream) // the next description enlists it again
		s.mu.Unlock()
	}
	return versions, err
}

// longestEvery is the longest time between two reports of a process, if it announces no interval.
const longestEvery = time.Minute

// countsFor returns how long the policies of a process count that reports so often: one report may be missing, but processes with new
// policies should soon not seem to disagree with themselves.
func countsFor(every time.Duration) time.Duration {
	if every <= 0 || every > longestEvery {
		every = longestEvery
	}
	return 2*every + time.Second
}

// mayEnlist reports whether to enlist an upstream again. alive is how many processes pace it.
func (s *Store) mayEnlist(upstream string, alive int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	every := max(enlistEvery, time.Duration(min(alive, 1<<20))*enlistSpread)
	if last, ok := s.listed[upstream]; ok && time.Since(last) < every {
		return false
	}
	if s.listed == nil {
		s.listed = make(map[string]time.Time)
	}
	s.listed[upstream] = time.Now()
	return true
}

// Upstreams implements [store.Registry].
func (s *Store) Upstreams(ctx context.Context) ([]string, error) {
	q := newRequest()
	q.key(upstreamsKey)
	v, err := s.query(ctx, scripts.Upstreams, q)
	if err != nil {
		return nil, err
	}
	names, err := texts(v)
	names = slices.DeleteFunc(names, func(name string) bool { return !store.ValidUpstream(name) })
	slices.Sort(names)
	return names, err
}

// Index implements [store.Registry].
func (s *Store) Index(ctx context.Context, upstream string) (*store.Index, error) {
	q, up := newRequest(), upstreamKey(upstream)
	q.key(up)
	q.key(up + indexMark)
	q.key(up + aliveMark)
	q.key(up + cameMark)
	v, err := s.query(ctx, scripts.Index, q)
	if err != nil {
		return nil, err
	}
	return parseIndex(v)
}

var errNonsense = errors.New("the reply is not what the script returns: is there a proxy between this program and Redis?")

// parseIndex reads the reply of index.lua. It omits descriptions of another form: anyone who can write there can write anything.
func parseIndex(v []any) (*store.Index, error) {
	if len(v) != 5 {
		return nil, errNonsense
	}
	now, ok := v[0].(int64)
	alive, ok2 := v[1].(int64)
	if !ok || !ok2 || alive < 0 || alive > math.MaxInt32 {
		return nil, errNonsense
	}
	var lists [3][]string
	for i := range lists {
		list, ok := v[i+2].([]any)
		if !ok {
			return nil, errNonsense
		}
		var err error
		if lists[i], err = texts(list); err != nil {
			return nil, err
		}
	}
	x := &store.Index{Now: store.Instant(now), Alive: int(alive)}
	there, fields := lists[0], maps.Collect(inTurn(lists[2]))
	texts := make(map[string][]string)
	for id, score := range inTurn(lists[1]) {
		if !slices.Contains(there, id) {
			continue
		}
		one := store.IndexedProcess{Came: store.Instant(parseScore(score))}
		one.About, one.Version = parseAbout(fields["process/"+id])
		one.ID = id
		if one.Version != "" {
			if _, ok := texts[one.Version]; !ok {
				texts[one.Version] = textsOf(fields, one.Version)
			}
			one.Policies = texts[one.Version]
		}
		x.Processes = append(x.Processes, one)
	}
	x.Policies = currentPolicies(fields)
	x.Went = parseWent(fields)
	return x, nil
}

// texts returns a list of strings.
func texts(v []any) ([]string, error) {
	all := make([]string, len(v))
	for i := range v {
		s, ok := v[i].(string)
		if !ok {
			return nil, errNonsense
		}
		all[i] = s
	}
	return all, nil
}

// inTurn iterates over a list of keys and values in turn.
func inTurn(list []string) iter.Seq2[string, string] {
	return func(yield func(k, v string) bool) {
		for i := 0; i+1 < len(list); i += 2 {
			if !yield(list[i], list[i+1]) {
				return
			}
		}
	}
}

// maxTexts bounds the bytes of a version's texts: describe.lua writes no more.
const maxTexts = 16 << 10

// textsOf returns the policies of a version; nil if they are unknown, or of another version.
func textsOf(fields map[string]string, version string) []string {
	parts := strings.SplitN(fields["policies/"+version], " ", 3)
	if len(parts) != 3 || len(parts[2]) > maxTexts {
		return nil
	}
	all := []string{}
	if parts[2] != "" {
		all = strings.Split(parts[2], "\n")
	}
	if store.VersionOf(all) != version {
		return nil
	}
	return all
}

// parseScore reads a score, which servers write as a decimal fraction, or with an exponent.
func parseScore(s string) int64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f < 1<<53) {
		return 0
	}
	return int64(f)
}

// sayAgain is how much older than the last report, in µs, that of a policy in use may be. Processes report their policies every few
// seconds.
const sayAgain = 60_000_000

// currentPolicies returns the policies in use.
func currentPolicies(fields map[string]string) []string {
	reported, last := make(map[string]int64), int64(0)
	for field, value := range fields {
		if name, ok := strings.CutPrefix(field, "policy/"); ok {
			at, _, _ := strings.Cut(value, " ")
			n, err := strconv.ParseInt(at, 10, 64)
			if err != nil || n < 0 {
				continue
			}
			reported[name], last = n, max(last, n)
		}
	}
	var all []string
	for name, at := range reported {
		if parts := strings.SplitN(fields["policy/"+name], " ", 3); len(parts) == 3 && at > last-sayAgain {
			all = append(all, parts[2])
		}
	}
	slices.Sort(all)
	return all
}

// parseWent reads what went, in order.
func parseWent(fields map[string]string) []store.Went {
	var all []store.Went
	for field, value := range fields {
		parts, numbers := strings.SplitN(field, "/", 3), strings.Fields(value)
		if len(parts) != 3 || parts[0] != "went" || len(numbers) != 4 {
			continue
		}
		var n [4]int64
		bad := false
		for i := range n {
			var err error
			n[i], err = strconv.ParseInt(numbers[i], 10, 64)
			bad = bad || err != nil || n[i] < 0 || n[i] >= 1<<53
		}
		if !bad {
			all = append(all, store.Went{Policy: parts[2], Second: n[0], What: store.Second{Cost: n[1], Waits: n[2], Waited: time.Duration(n[3]) * time.Microsecond}})
		}
	}
	slices.SortFunc(all, func(a, b store.Went) int {
		return cmp.Or(cmp.Compare(a.Second, b.Second), cmp.Compare(a.Policy, b.Policy))
	})
	return all
}

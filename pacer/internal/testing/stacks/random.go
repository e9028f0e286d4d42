package stacks

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/policies"
)

// A Stack is some limits and their callers.
type Stack struct {
	Class     Class
	bounds    []bound
	deep      int             // tenants that always have queued calls
	light     []time.Duration // those that call now and then: so often on average
	newcomer  time.Duration   // it has one call at a time, and that so long after the one before, on average
	Processes int
	callers   int           // of each deep tenant, in each process
	takes     time.Duration // what a call takes
	seed      uint64
}

// A Class is a kind of stacks.
type Class string

// The classes.
const (
	Plain   Class = "plain"   // rates with a burst, or windows, are what tenants share
	Strict  Class = "strict"  // a rate that tenants share has a burst of 1, set explicitly
	Permits Class = "permits" // calls have permits, too
)

func between(r *rand.Rand, a, b float64) float64 { return a + r.Float64()*(b-a) }

// Random makes a stack of two to four limits whose numbers do not fit together.
func Random(seed uint64) *Stack {
	r := rand.New(rand.NewPCG(seed, 7))
	s := &Stack{Class: Plain, deep: 2 + r.IntN(6), Processes: 1 + r.IntN(3), seed: seed}
	rate := between(r, 5, 120) // what they share, a second
	n, own := 2+r.IntN(3), 0
	for i := range n {
		perTenant := i > 0 && (i == 1 || r.IntN(2) == 0)
		of := rate * between(r, 1, 1.5)
		if perTenant {
			own++
			of = rate / float64(s.deep) * between(r, 0.6, 3)
		}
		s.bounds = append(s.bounds, randomBound(r, max(0.7, of), perTenant))
	}
	if r.IntN(10) == 0 {
		s.Class, s.takes = Permits, time.Duration(between(r, 50, 900))*time.Millisecond
		b := bound{kind: permits, perTenant: r.IntN(2) == 0, takes: s.takes, n: max(1, int64(rate*s.takes.Seconds()*between(r, 0.6, 1.5)))}
		if b.perTenant {
			b.n = max(1, b.n/int64(s.deep))
		}
		s.bounds[n-1] = b
	}
	s.share(r)
	for range r.IntN(4) {
		s.light = append(s.light, time.Duration(between(r, 500, 6000))*time.Millisecond)
	}
	s.newcomer = time.Duration(float64(time.Second) * between(r, 20, 60) / rate)
	s.callers = 3 + r.IntN(10)
	for _, b := range s.bounds {
		if b.kind == permits {
			s.callers = max(s.callers, int(2*b.n)/s.Processes+2)
		}
	}
	return s
}

// share picks the limits that tenants share, and those beside permits, and makes some of the shared ones strict.
func (s *Stack) share(r *rand.Rand) {
	tenants := slices.ContainsFunc(s.bounds, func(b bound) bool { return b.perTenant })
	inFlight := slices.ContainsFunc(s.bounds, func(b bound) bool { return b.kind == permits })
	for i := range s.bounds {
		b := &s.bounds[i]
		b.shared, b.beside = tenants && !b.perTenant, inFlight
		if b.shared && b.kind == evenly && r.IntN(5) == 0 {
			b.burst = 1
			if s.Class == Plain {
				s.Class = Strict
			}
		}
	}
}

// randomBound makes a limit of about so many calls a second.
func randomBound(r *rand.Rand, rate float64, perTenant bool) bound {
	b := bound{perTenant: perTenant, kind: []boundKind{evenly, atMost, sliding, fixed}[r.IntN(4)]}
	if b.kind == evenly && r.IntN(2) == 0 {
		b.n, b.period = max(1, int64(rate)), time.Second
	} else {
		b.period = time.Duration(between(r, 500, 5000)) * time.Millisecond
		b.n = max(2, int64(rate*b.period.Seconds()))
	}
	switch b.kind {
	case evenly, atMost:
		if r.IntN(3) == 0 {
			b.burst = min(b.n, 2+r.Int64N(9))
		}
	case sliding:
		b.buckets = []int64{10, 20, 100}[r.IntN(3)]
	case fixed, permits:
	}
	if b.kind != evenly {
		b.skew = time.Duration(between(r, 0, 20)) * time.Millisecond
	}
	return b
}

// Policies returns the limits.
func (s *Stack) Policies() (list []policies.Policy) {
	for i := range s.bounds {
		list = append(list, s.bounds[i].policy(i))
	}
	return list
}

// String implements [fmt.Stringer].
func (s *Stack) String() string {
	limits := make([]string, 0, len(s.bounds))
	for i := range s.bounds {
		p := s.bounds[i].policy(i)
		limits = append(limits, strings.TrimPrefix(p.String(), p.Name()+": "))
	}
	return fmt.Sprintf("stack %d (%s): %s; %d deep tenants × %d processes × %d callers, %d light; %v a call",
		s.seed, s.Class, strings.Join(limits, " + "), s.deep, s.Processes, s.callers, len(s.light), s.takes)
}

// pace estimates the time between two calls.
func (s *Stack) pace() time.Duration {
	longest := int64(0)
	for i := range s.bounds {
		each := s.bounds[i].interval()
		if s.bounds[i].perTenant {
			each /= int64(s.deep)
		}
		longest = max(longest, each)
	}
	return time.Duration(longest) * time.Microsecond
}

// Lasts returns the duration of a stack with about so many calls: some whole windows of the longest kind.
func (s *Stack) Lasts(calls int) time.Duration {
	d, longest, whole := time.Duration(calls)*s.pace(), time.Duration(0), time.Duration(0)
	for _, b := range s.bounds {
		longest = max(longest, b.period)
		if b.kind == fixed {
			whole = max(whole, b.period)
		}
	}
	d = max(d, 10*longest)
	if whole > 0 {
		d += whole - d%whole
	}
	return d
}

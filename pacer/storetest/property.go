package storetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

func propertyCases() []Case {
	return []Case{
		{
			"property/conformance",
			"for any interleaving of reservations, cancellations, pauses and jitter, the times at which calls go conform to every policy",
			func(t testing.TB, s *Session) {
				for seed := range s.seeds(300) {
					conform(t, s.Fixture, seed, Plan{Ops: 60, Cancels: true, Pauses: true})
				}
			},
		},
		{
			"property/feedback",
			"whatever the upstream says, and however often, no call goes that a policy forbids",
			func(t testing.TB, s *Session) {
				for seed := range s.seeds(300) {
					conform(t, s.Fixture, 2_000_000+seed, Plan{Ops: 60, Cancels: true, Pauses: true, Feedback: true})
				}
			},
		},
		{
			"property/queues",
			"no matter which calls are queued, leave the queue, are late or never come, no call goes that a policy forbids, no more run at once than may, and who waits or is refused is charged nothing",
			func(t testing.TB, s *Session) {
				for seed := range s.seeds(200) {
					conform(t, s.Fixture, 3_000_000+seed, Plan{Ops: 100, Cancels: true, Pauses: seed%2 == 0, Feedback: seed%3 == 0, Queues: true})
				}
			},
		},
		{
			"property/refusals",
			"a refused call leaves nothing behind, whatever its policies are, and however far ahead others are reserved",
			func(t testing.TB, s *Session) {
				for seed := range s.seeds(300) {
					seed += 36 // a few suffice to meet a refusal in a new shape behind reservations
					plan := Plan{Ops: 40, Cancels: true, Pauses: seed%2 == 0, Feedback: seed%3 == 0, Queues: seed%5 > 2, Choices: seed%4 == 1, Exact: seed%8 == 6, Changes: true, Refusals: true}
					if _, diff := differ(NewSession(t, s.Fixture), NewSession(t, s.Fixture), plan, 4_000_000+seed); diff != "" {
						t.Fatalf("seed %d: %s", seed, diff)
					}
				}
			},
		},
		{
			"property/order",
			"without cancellations and pauses, calls of one cost that carry the same keys go in the order in which the store saw them",
			func(t testing.TB, s *Session) {
				for seed := range s.seeds(150) {
					conform(t, s.Fixture, 1_000_000+seed, Plan{Ops: 60})
				}
			},
		},
		{
			"property/work-conserving",
			"a call gets the very first slot that it could have: no capacity is left idle behind a later reservation, a cancelled one included (but for splinters shorter than one interval)",
			func(t testing.TB, s *Session) {
				for seed := range s.seeds(200) {
					conserve(t, s.Fixture, seed, seed%2 == 0)
				}
			},
		},
	}
}

// fired is a call that went.
type fired struct {
	at   store.Instant
	cost int64
	keys []Key
}

// conform plays one random history and judges when its calls went.
func conform(t testing.TB, f Fixture, seed uint64, plan Plan) {
	s := NewSession(t, f)
	h := newHistory(seed, plan)
	jitter := rand.New(rand.NewPCG(seed, 7))
	var holds []held
	gone := make(map[int]bool) // cancelled
	runs := flights{}
	type pause struct {
		after, to int // so many calls had been granted before, and before the next answer: the upstream's last word may be a shorter one
		until     store.Instant
		keys      []Key
	}
	var pauses []pause
	last := make(map[string]store.Instant)
	for range plan.Ops {
		o := h.next(s, holds)
		s.Set(s.now + o.step)
		keys := h.stackKeys(o.set)
		st := s.Stack(keys...)
		switch {
		case o.notes != nil:
			h.settle(o.notes, holds, &st)
			if slices.ContainsFunc(o.notes, func(n store.Note) bool { return n.Kind == store.NoteAnswer }) {
				for i := range pauses {
					pauses[i].to = min(pauses[i].to, len(holds))
				}
			}
			for _, n := range o.notes {
				if n.Kind != store.NoteSettle && n.Kind != store.NoteResume { // these take effect, limit or not
					s.Report(st, n)
				}
			}
		case o.asks != nil:
			batches := h.batches(s, o.asks)
			for i := range batches {
				for j := range batches[i].Calls {
					batches[i].Calls[j].Costs = nil
				}
			}
			unchanged := s.watch(batches)
			s.AskEach(batches)
			if broken := unchanged(); broken != "" {
				t.Fatalf("seed %d: a call that was not granted was charged: %s", seed, broken)
			}
			for i := range batches {
				holds = h.heed(&o.asks[i], batches[i].Stack, batches[i].Calls, batches[i].Grants, holds)
				for j, g := range batches[i].Grants {
					if !g.OK {
						continue
					}
					set, c := o.asks[i].set, batches[i].Calls[j]
					if broken := runs.begin(&batches[i].Stack, &c, &g); broken != "" {
						t.Fatalf("seed %d: %s", seed, broken)
					}
					if !plan.Cancels && !plan.Pauses && c.NotBefore == 0 {
						k := fmt.Sprint(set, c.Cost)
						if g.At < last[k] {
							t.Fatalf("seed %d: a call goes at %v, before an equal one that asked earlier, at %v", seed, Since(g.At), Since(last[k]))
						}
						last[k] = g.At
					}
				}
			}
		case o.cancel != nil:
			var left []int
			for _, i := range o.cancel {
				if holds[i].grant.At > s.now && !gone[i] && !holds[i].exchanged { // not gone yet
					gone[i], left = true, append(left, i)
					runs.end(&holds[i].stack, holds[i].call.ID)
				}
			}
			for _, batches := range cancelled(holds, left) {
				s.CancelEach(batches)
			}
		case o.about.ID != 0:
			if !o.renews {
				runs.end(&st, o.about.ID)
			} else if !runs.renew(&st, o.about.ID, s.now) {
				continue // it would run without a permit: it is too late for that
			}
			s.Report(st, o.reported(&st)...)
		case o.pause > 0:
			p := pause{len(holds), math.MaxInt, s.now + store.Instant(o.pause.Microseconds()), keys}
			p.keys = slices.DeleteFunc(p.keys, func(k Key) bool { return !k.Left })
			s.Pause(st, o.pause)
			pauses = append(pauses, p)
		}
	}
	var calls []fired
	for i, hold := range holds {
		if gone[i] || hold.exchanged {
			continue
		}
		at := hold.grant.At
		for _, p := range pauses {
			if i >= p.after && i < p.to && at < p.until && slices.ContainsFunc(h.stackKeys(hold.set), func(k Key) bool {
				return slices.ContainsFunc(p.keys, func(q Key) bool { return k.Left && q.Policy.Name() == k.Policy.Name() && q.Scope == k.Scope })
			}) {
				t.Fatalf("seed %d: a call was granted %v, inside a pause until %v that began before", seed, Since(at), Since(p.until))
			}
		}
		if slack := hold.grant.Slack.Microseconds(); slack > 0 {
			at += store.Instant(jitter.Int64N(slack + 1))
		}
		calls = append(calls, fired{at, hold.call.Cost, charged(h.stackKeys(hold.set), hold.grant.Charges)})
	}
	for _, k := range h.keys {
		if k.Left { // which no policy forbids
			continue
		}
		if broken := judge(k, calls); broken != "" {
			t.Fatalf("seed %d: %v broken: %s", seed, k.Policy, broken)
		}
	}
}

// judge is an upstream that knows one policy by its definition, and nothing of stores. It compares every pair of calls.
func judge(k Key, calls []fired) string {
	var times []store.Instant // one for each unit of cost
	for _, c := range calls {
		if slices.ContainsFunc(c.keys, func(q Key) bool { return q.Policy.Name() == k.Policy.Name() && q.Scope == k.Scope }) {
			for range c.cost {
				times = append(times, c.at)
			}
		}
	}
	slices.Sort(times)
	spec := k.Policy.Spec()
	if spec.Algorithm == specs.Concurrency {
		return "" // see flights
	}
	if spec.Algorithm == specs.GCRA {
		// N cells within Δ need (N−1)·T ≤ Δ + τ.
		for i := range times {
			for j := i + 1; j < len(times); j++ {
				if int64(j-i)*spec.Interval > int64(times[j]-times[i])+(spec.Limit-1)*spec.Interval {
					return fmt.Sprintf("%d cells from %v to %v", j-i+1, Since(times[i]), Since(times[j]))
				}
			}
		}
		// No Most + 1 of them start in less than Within.
		for i := int64(0); spec.Most > 0 && i+spec.Most < int64(len(times)); i++ {
			if first, last := times[i], times[i+spec.Most]; int64(last-first) < spec.Within {
				return fmt.Sprintf("%d calls from %v to %v", spec.Most+1, Since(first), Since(last))
			}
		}
		return ""
	}
	count := make(map[int64]int64)
	for i, at := range times {
		if spec.Buckets == 0 { // fixed and UTC calendar windows
			begin := int64(at) - int64(at)%spec.Interval
			if count[begin]++; count[begin] > spec.Limit {
				return fmt.Sprintf("%d calls in the window of %v", count[begin], Since(at))
			}
			if int64(at) >= begin+spec.Interval-spec.Guard {
				return fmt.Sprintf("a call at %v, inside the guard", Since(at))
			}
			continue
		}
		// Any window [at, at + period) holds at most the limit.
		inside := int64(0)
		for _, other := range times[i:] {
			if other-at < store.Instant(spec.Interval*spec.Buckets) {
				inside++
			}
		}
		if inside > spec.Limit {
			return fmt.Sprintf("%d calls within %v of %v", inside, time.Duration(spec.Interval*spec.Buckets)*time.Microsecond, Since(at))
		}
	}
	return ""
}

// conserve reserves and cancels at random on stacks of policies whose admission is known exactly from the times of the other calls (rates
// with a burst of 1, fixed windows), and compares each slot with the first one that a search by trial finds.
//
// Without cancellations they must be equal. With them, a piece of less than one interval may belong to the reservation beside it, so a call
// must get a slot no later than the first with one interval more on either side.
func conserve(t testing.TB, f Fixture, seed uint64, cancels bool) {
	s := NewSession(t, f)
	rng := rand.New(rand.NewPCG(seed, 11))
	var keys []Key
	for i := range 1 + rng.IntN(4) {
		p := policies.Every(time.Duration(1+rng.Int64N(30)) * 10 * ms)
		if rng.IntN(3) == 0 {
			p = policies.Fixed(1+rng.Int64N(4), time.Duration(1+rng.Int64N(50))*10*ms)
		}
		keys = append(keys, Key{Policy: p.Named(fmt.Sprintf("p%d", i))})
	}
	type call struct {
		fired

		stack store.Stack
		grant store.Grant
	}
	var calls []call
	for range 60 {
		s.Set(s.now + store.Instant(rng.Int64N(50_000)*rng.Int64N(2)))
		if i := rng.IntN(len(calls) + 1); cancels && rng.IntN(3) == 0 && i < len(calls) && calls[i].at > s.now {
			s.Cancel(calls[i].stack, calls[i].grant)
			calls = slices.Delete(calls, i, i+1)
			continue
		}
		var chosen []Key
		for _, k := range keys {
			if rng.IntN(3) > 0 {
				chosen = append(chosen, k)
			}
		}
		var others []fired
		for _, c := range calls {
			others = append(others, c.fired)
		}
		c := store.Call{Cost: 1, NotBefore: time.Duration(rng.Int64N(1000)*rng.Int64N(2)) * ms, MaxWait: store.Forever}
		st := s.Stack(chosen...)
		g := s.Ask(st, c)
		from := s.now + store.Instant(c.NotBefore.Microseconds())
		want := first(chosen, others, from, 1)
		latest := want
		if cancels {
			latest = first(chosen, others, from, 2)
		}
		if g.At < want || g.At > latest {
			t.Fatalf("seed %d: at %v, on %v, not before %v: slot %v, want from %v to %v", seed, Since(s.now), chosen, c.NotBefore, Since(g.At), Since(want), Since(latest))
		}
		calls = append(calls, call{fired{g.At, 1, chosen}, st, g})
	}
}

// first tries every instant at which something changes, in order, and returns the first at which all policies admit one more call, at a
// distance of so many intervals from the others.
func first(keys []Key, others []fired, from store.Instant, apart store.Instant) store.Instant {
	try := []store.Instant{from}
	for _, k := range keys {
		t := store.Instant(k.Policy.Spec().Interval)
		for _, o := range others {
			try = append(try, o.at+apart*t, o.at-o.at%t+t)
		}
		try = append(try, from-from%t+t)
	}
	slices.Sort(try)
	for _, at := range try {
		if at >= from && !slices.ContainsFunc(keys, func(k Key) bool { return !admits(k, others, at, apart) }) {
			return at
		}
	}
	return -1
}

// admits reports whether a policy lets one more call go at an instant, among others.
func admits(k Key, others []fired, at, apart store.Instant) bool {
	spec, inside := k.Policy.Spec(), int64(0)
	t := store.Instant(spec.Interval)
	for _, o := range others {
		if !slices.ContainsFunc(o.keys, func(q Key) bool { return q.Policy.Name() == k.Policy.Name() }) {
			continue
		}
		if spec.Algorithm == specs.GCRA && at-o.at < apart*t && o.at-at < apart*t {
			return false
		}
		if spec.Algorithm == specs.Window && at-at%t == o.at-o.at%t {
			inside++
		}
	}
	return inside < spec.Limit || spec.Algorithm == specs.GCRA
}

package simulate

import (
	"math"
	"strconv"

	"github.com/headway-go/headway/pacer/store"
)

// A crowd is the tenants of a load, as stacks: outside of the lane, and in it.
type crowd struct {
	load   *Load
	out    []*stack
	in     []*stack
	part   float64 // how much of each tenant's calls is in the lane
	greedy float64

	calls, others int64
	lanes         []int64 // calls of each tenant, to mix lanes evenly
}

// load begins the calls of a load.
func (s *sim) load(l *Load) {
	c := s.crowd(l)
	if l.Rate > 0 {
		s.arrive(c)
		return
	}
	for i := range l.Processes * l.Workers {
		s.work(i%l.Processes, c.worker(i), l)
	}
}

// crowd binds the tenants of a load.
func (s *sim) crowd(l *Load) *crowd {
	lane, part, _ := l.lane()
	c := &crowd{load: l, part: part, greedy: l.Greedy, lanes: make([]int64, l.Tenants)}
	if lane == "" {
		c.part = 0
	}
	// Groups are made on demand, the greedy tenant's first.
	groups := make(map[string]*group)
	for i := range l.Tenants {
		name, of := l.Name, l.Name
		if l.Tenants > 1 {
			name += "-" + strconv.Itoa(i+1)
		}
		switch {
		case l.Greedy > 0 && i == 0:
			of += ", the greedy one"
		case l.Greedy > 0:
			of += ", each of the others"
		}
		bind := func(lane, of string) *stack {
			st := s.binder.bind(l, name, lane)
			if groups[of] == nil {
				groups[of] = s.group(of)
			}
			st.group = groups[of]
			return st
		}
		if c.part > 0 {
			c.in = append(c.in, bind(lane, of+", in lane "+lane))
		}
		if c.part < 1 {
			c.out = append(c.out, bind("", of))
		}
	}
	return c
}

// evenly reports whether the call with this number, from 0, belongs to an evenly spread part of all calls.
func evenly(n int64, part float64) bool {
	return math.Floor(float64(n+1)*part+1e-9) > math.Floor(float64(n)*part+1e-9)
}

// of returns the stack of a tenant's next call.
func (c *crowd) of(tenant int) *stack {
	n := c.lanes[tenant]
	c.lanes[tenant]++
	if evenly(n, c.part) {
		return c.in[tenant]
	}
	return c.out[tenant]
}

// next returns the stack of the next steady call.
func (c *crowd) next() *stack {
	n := c.calls
	c.calls++
	if c.greedy == 0 {
		return c.of(int(n % int64(c.load.Tenants)))
	}
	if evenly(n, c.greedy) {
		return c.of(0)
	}
	c.others++
	return c.of(1 + int((c.others-1)%int64(c.load.Tenants-1)))
}

// worker returns the stack of a worker's calls: each stays with its tenant, and in its lane.
func (c *crowd) worker(i int) *stack {
	greedy := 0
	if c.greedy > 0 {
		greedy = c.load.greedyWorkers()
	}
	switch {
	case greedy == 0:
		return c.of(i % c.load.Tenants)
	case i < greedy:
		return c.of(0)
	}
	return c.of(1 + (i-greedy)%(c.load.Tenants-1))
}

// work makes a worker call repeatedly.
func (s *sim) work(process int, st *stack, l *Load) {
	var next func(store.Instant)
	begin := func() { s.offer(process, st, l, next) }
	next = func(over store.Instant) { s.at(over+l.Think.micros(), begin) }
	s.at(s.now, begin)
}

// arrive makes calls come at a rate, the first at once if they are steady.
func (s *sim) arrive(c *crowd) {
	gap, after, n := 1e6/c.load.Rate, 0.0, 0 // in µs
	var come func()
	later := func() { s.at(s.begun+store.Instant(math.Round(after)), come) }
	come = func() {
		process := n % c.load.Processes
		n++
		if c.load.Steady {
			s.offer(process, c.next(), c.load, nil)
			after = float64(c.calls) * gap
		} else {
			s.offer(process, s.anybody(c), c.load, nil)
			after += gap * s.rng.ExpFloat64()
		}
		later()
	}
	if !c.load.Steady {
		after = gap * s.rng.ExpFloat64()
	}
	later()
}

// anybody returns the stack of a random call.
func (s *sim) anybody(c *crowd) *stack {
	tenant := 0
	switch {
	case c.greedy == 0:
		tenant = s.rng.IntN(c.load.Tenants)
	case s.rng.Float64() >= c.greedy:
		tenant = 1 + s.rng.IntN(c.load.Tenants-1)
	}
	if c.part == 1 || c.part > 0 && s.rng.Float64() < c.part {
		return c.in[tenant]
	}
	return c.out[tenant]
}

package simulate

import (
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies/specs"
)

// maxPoints is the most points of a chart, which are at least leastPoint apart.
const (
	maxPoints  = 72
	leastPoint = store.Instant(1_000_000)
)

// A measure counts events, in order of time.
type measure struct {
	begin, end store.Instant
	every      store.Instant // between two points of the charts
	err        error         // of the store

	total  group
	groups []*group
	parts  []*partCount

	line    int64         // calls that wait
	since   store.Instant // for how long there are so many
	longest int64
	area    float64 // of the queue, in calls times µs

	points []point
}

// A group is calls that are counted together.
type group struct {
	name                       string
	offered, admitted, refused int64
	waits                      waits
}

// A point is the events between two points of a chart.
type point struct {
	offered, admitted int64
	area              float64 // of the queue
}

// A partCount is the counts of a policy, or of a lane's part of one.
type partCount struct {
	part

	waits   waits
	refused int64
	used    map[int]float64 // by key: cost, or µs of permits
	spent   map[int]store.Instant
	spells  int           // how often a window was spent, all keys together
	first   store.Instant // when that was for the first time; 0: never
	again   store.Instant // when more was available then
	empty   store.Instant // for how long that was, all keys together, as far as it was noticed
	left    []int64       // of a window, at each point: what remains
}

func newMeasure(begin, end store.Instant, all []part) *measure {
	m := &measure{begin: begin, end: end, since: begin}
	m.every = max(leastPoint, (end-begin+maxPoints-1)/maxPoints)
	m.points = make([]point, (end-begin+m.every-1)/m.every)
	for _, one := range all {
		m.parts = append(m.parts, &partCount{part: one, used: make(map[int]float64), spent: make(map[int]store.Instant)})
	}
	return m
}

// group makes a group.
func (m *measure) group(name string) *group {
	g := &group{name: name}
	m.groups = append(m.groups, g)
	return g
}

func (m *measure) point(at store.Instant) *point { return &m.points[(at-m.begin)/m.every] }

// waiting counts more waiting calls from now on.
func (m *measure) waiting(more int64, now store.Instant) {
	for m.since < now {
		until := min(now, m.since-(m.since-m.begin)%m.every+m.every)
		area := float64(m.line) * float64(until-m.since)
		m.area += area
		m.point(m.since).area += area
		m.since = until
	}
	m.line += more
	m.longest = max(m.longest, m.line)
}

// offered counts a call that arrives.
func (m *measure) offered(c *call, now store.Instant) {
	m.waiting(1, now)
	m.total.offered++
	c.group.offered++
	m.point(now).offered++
}

// refused counts a call that is refused.
func (m *measure) refused(c *call, now store.Instant) {
	m.waiting(-1, now)
	m.total.refused++
	c.group.refused++
	if c.binds >= 0 {
		m.parts[c.parts[c.binds]].refused++
	}
}

// bound records that a limit makes a call wait from now until at, or refuses it.
func (m *measure) bound(c *call, now, at store.Instant) {
	p, key := m.parts[c.parts[c.binds]], c.keys[c.binds]
	if p.Spec().Algorithm != specs.Window {
		return
	}
	until, before := p.spent[key]
	if before && now < until {
		return // known
	}
	p.spent[key] = at
	p.spells++
	p.empty += min(at, m.end) - now
	if p.first == 0 {
		p.first, p.again = now, at
	}
}

// admitted counts a call that starts, after some wait.
func (m *measure) admitted(c *call, now, wait store.Instant) {
	m.waiting(-1, now)
	m.total.admitted++
	c.group.admitted++
	m.point(now).admitted++
	m.total.waits.add(wait)
	c.group.waits.add(wait)
	if c.binds >= 0 {
		m.parts[c.parts[c.binds]].waits.add(wait)
	}
	for i, n := range c.parts {
		p, key := m.parts[n], c.keys[i]
		if spec := &c.Limits[i].Spec; spec.Algorithm == specs.Concurrency {
			p.used[key] += float64(max(0, min(m.end, now+c.runs)-min(m.end, now+store.Instant(spec.After))))
		} else {
			p.used[key] += float64(c.call.Cost)
		}
	}
}

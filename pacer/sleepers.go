package pacer

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// sleepers knows who sleeps in this process, and until when what is paused, as far as this process heard. It
// moves those whose slot falls inside a pause behind it.
//
// A pause can arrive between the moment when the store granted a slot and the moment when its owner goes to
// sleep. So an owner that goes to sleep looks at the pauses, and a pause looks at the sleepers, under one
// lock. All comparisons are between instants of the store's clock.
type sleepers struct {
	mu     sync.Mutex
	asleep map[*Reservation]struct{}
	inLine map[int64]*Reservation // by the call's id: those that may stand in line
	// The last calls that were called and are none of those: of other processes, or about to be.
	strangers [64]int64
	stranger  int
	pauses    map[pauseKey]Instant
}

// pauseKey is what can pause: one limit for one scope value, or the whole upstream (both empty).
type pauseKey struct{ policy, scope string }

func (s *sleepers) enter(ctx context.Context, r *Reservation) {
	s.mu.Lock()
	if s.asleep == nil {
		s.asleep = make(map[*Reservation]struct{})
	}
	s.asleep[r] = struct{}{}
	if id := r.call[0].ID; id != 0 {
		if s.inLine == nil {
			s.inLine = make(map[int64]*Reservation)
		}
		s.inLine[id] = r
		if s.wasCalled(r) {
			r.due = time.Now()
		}
	}
	if r.wake == nil {
		r.wake = make(chan struct{}, 1)
	}
	caught := s.catch(r)
	s.mu.Unlock()
	if caught {
		r.pacer.move(ctx, []*Reservation{r})
	}
}

func (s *sleepers) leave(r *Reservation) {
	s.mu.Lock()
	delete(s.asleep, r)
	delete(s.inLine, r.call[0].ID)
	s.mu.Unlock()
}

// catch marks r as moving if a pause covers its slot. Whoever catches a reservation must move it. The caller
// holds mu.
func (s *sleepers) catch(r *Reservation) bool {
	if r.state != reserved || r.moving != nil || !s.paused(r) {
		return false
	}
	r.catch()
	return true
}

// catch marks a reservation as moving. The caller holds pacer.sleepers.mu.
func (r *Reservation) catch() { r.moving, r.caught = make(chan struct{}), true }

// paused reports whether a pause that this process heard of covers the slot of r. The caller holds mu.
func (s *sleepers) paused(r *Reservation) bool {
	if len(s.pauses) == 0 || r.grant[0].InLine { // in line there is no slot, and who asks again hears of it
		return false
	}
	if s.pauses[pauseKey{}] > r.grant[0].At {
		return true
	}
	for i := range r.stack.Limits {
		l := &r.stack.Limits[i]
		if s.pauses[pauseKey{l.Policy, l.Scope}] > r.grant[0].At {
			return true
		}
	}
	return false
}

// heed records pauses and returns the sleepers whose slots are not good any more, in the order of their slots, marked
// as moving: those that fall inside a pause, and those of limits that were resumed or slowed down. It returns, too, which
// pauses and resumptions are news.
func (s *sleepers) heed(changes []Change) (caught []*Reservation, news []Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, t := range s.pauses {
		if t < changes[0].Now {
			delete(s.pauses, k)
		}
	}
	again := make(map[pauseKey]bool)
	for _, c := range changes {
		k := pauseKey{c.Policy, c.Scope}
		switch c.Kind {
		case Paused:
			if s.pauses == nil {
				s.pauses = make(map[pauseKey]Instant)
			}
			if c.Until > s.pauses[k] {
				s.pauses[k], news = c.Until, append(news, c)
			}
		case Resumed:
			if _, was := s.pauses[k]; was {
				delete(s.pauses, k)
				news = append(news, c)
			}
			again[k] = true
		case Slowed:
			again[k] = true
		case Called, rejoined:
		}
	}
	for r := range s.asleep {
		if r.grant[0].InLine {
			if r.boundByAny(again) {
				s.hurry(r)
			}
			continue
		}
		if r.state == reserved && r.moving == nil && (s.paused(r) || r.boundByAny(again)) {
			r.catch()
			caught = append(caught, r)
		}
	}
	return inOrder(caught), news
}

// lonely returns the sleepers whose slots this process granted alone and are still to come, in the order of their slots,
// marked as moving.
func (s *sleepers) lonely() []*Reservation {
	s.mu.Lock()
	defer s.mu.Unlock()
	var caught []*Reservation
	for r := range s.asleep {
		if r.state == reserved && r.moving == nil && r.grant[0].alone != nil && !r.grant[0].alone.over.Load() {
			r.catch()
			caught = append(caught, r)
		}
	}
	return inOrder(caught)
}

// boundByAny reports whether one of some limits, or a change of the whole upstream, concerns r.
func (r *Reservation) boundByAny(keys map[pauseKey]bool) bool {
	if len(keys) == 0 {
		return false
	}
	if keys[pauseKey{}] {
		return true
	}
	for i := range r.stack.Limits {
		if keys[pauseKey{r.stack.Limits[i].Policy, r.stack.Limits[i].Scope}] {
			return true
		}
	}
	return false
}

func inOrder(rs []*Reservation) []*Reservation {
	slices.SortFunc(rs, func(a, b *Reservation) int { return cmp.Compare(a.grant[0].At, b.grant[0].At) })
	return rs
}

// stacks returns copies of the different stacks of the sleepers, at most n.
func (s *sleepers) stacks(n int) []Stack {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := make(map[string]bool)
	var stacks []Stack
	for r := range s.asleep {
		if k := stackKey(&r.stack); !seen[k] && len(stacks) < n {
			seen[k] = true
			stacks = append(stacks, Stack{Upstream: r.stack.Upstream, Limits: slices.Clone(r.stack.Limits)})
		}
	}
	return stacks
}

func stackKey(stack *Stack) string {
	var b strings.Builder
	for i := range stack.Limits {
		b.WriteString(stack.Limits[i].Policy + "\n" + stack.Limits[i].Scope + "\n")
	}
	return b.String()
}

// maxMoving is how many stacks of sleepers move at the same time.
const maxMoving = 8

// move gives the slots of caught reservations back and reserves again, which puts them behind the pause in
// the order in which they come. Those of one stack share one operation of the store.
func (p *Pacer) move(ctx context.Context, caught []*Reservation) { p.moveAll(ctx, caught, p.moveGroup) }

// exchange gives up the slots that this process granted alone, for slots of the fleet that are not earlier. Who cannot have
// one in time keeps its own.
func (p *Pacer) exchange(ctx context.Context) {
	if caught := p.sleepers.lonely(); len(caught) > 0 {
		p.moveAll(ctx, caught, p.exchangeGroup)
	}
}

func (p *Pacer) moveAll(ctx context.Context, caught []*Reservation, moveGroup func(context.Context, []*Reservation)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	var order []string
	groups := make(map[string][]*Reservation)
	for _, r := range caught {
		k := stackKey(&r.stack)
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], r)
	}
	var moving errgroup.Group
	moving.SetLimit(maxMoving)
	for _, k := range order {
		moving.Go(func() error {
			moveGroup(ctx, groups[k])
			return nil
		})
	}
	_ = moving.Wait()
}

func (p *Pacer) moveGroup(ctx context.Context, group []*Reservation) {
	stack, asked := group[0].stack, time.Now()
	old, calls, grants := make([]Grant, len(group)), make([]Call, len(group)), make([]Grant, len(group))
	for i, r := range group {
		old[i], calls[i] = r.grant[0], r.call[0]
		calls[i].NotBefore = 0
		if !r.latest.IsZero() {
			calls[i].MaxWait = max(0, time.Until(r.latest))
		}
	}
	// A slot that cannot be given back is lost, but the call must still move.
	_ = p.store.Cancel(ctx, stack, old)
	err := p.store.Reserve(ctx, stack, calls, grants)

	p.sleepers.mu.Lock()
	defer p.sleepers.mu.Unlock()
	for i, r := range group {
		p.received(r, &calls[i], &grants[i], asked, err)
		r.moved()
	}
}

// moved wakes the owner of a reservation that is not moving any more. The caller holds pacer.sleepers.mu.
func (r *Reservation) moved() {
	close(r.moving)
	r.moving = nil
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (p *Pacer) exchangeGroup(ctx context.Context, group []*Reservation) {
	stack, asked := group[0].stack, time.Now()
	calls, grants := make([]Call, len(group)), make([]Grant, len(group))
	for i, r := range group {
		calls[i] = r.call[0]
		calls[i].NotBefore = max(0, time.Until(r.asked.Add(r.grant[0].Wait())))
		if !r.latest.IsZero() {
			calls[i].MaxWait = max(0, time.Until(r.latest))
		}
	}
	err := p.store.Reserve(ctx, stack, calls, grants)
	var old []Grant
	p.sleepers.mu.Lock()
	for i, r := range group {
		if err == nil && grants[i].OK {
			old = append(old, r.grant[0])
			r.grant[0], r.asked = grants[i], asked
			p.got(r)
		}
		r.moved()
	}
	p.sleepers.mu.Unlock()
	if len(old) > 0 {
		_ = p.store.Cancel(ctx, stack, old)
	}
}

package failover

import (
	"context"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// run sends heartbeats, and tries to return when the state is local.
func (m *member) run() {
	timer := time.NewTimer(checkEvery)
	defer timer.Stop()
	ctx := context.Background()
	var pause time.Duration
	var nextHeartbeat time.Time
	plan := func(next time.Duration) { pause, nextHeartbeat = next, time.Now().Add(roughly(next)) }
	first := func() time.Duration { s := m.standing(); return s.firstPause() }
	plan(first())
	describe := time.Now().Add(within(m.schedule().Describe / 16))
	for {
		select {
		case <-m.link.Closing:
		case <-m.kick:
		case <-m.checks:
			if soon := time.Now().Add(within(m.schedule().Spread)); soon.Before(nextHeartbeat) {
				nextHeartbeat = soon
			}
		case <-timer.C:
		}
		if m.link.IsClosing() {
			return
		}
		next := checkEvery
		if m.is(shared) && (!time.Now().Before(nextHeartbeat) || m.shouldCheck()) {
			began := m.Now()
			m.fellBack(m.renew(ctx), began)
			// Processes that came at the same time as this one are soon known: the first heartbeats come sooner.
			s := m.standing()
			plan(min(max(2*pause, s.firstPause()), m.schedule().Heartbeat, s.untilMature()))
		}
		if m.is(shared) {
			m.settings.read(ctx)
		}
		if m.is(shared) && !time.Now().Before(describe) {
			describe = time.Now().Add(sooner(m.schedule().Describe))
			m.heartbeats.describe(ctx, false)
		}
		if m.is(local) {
			var err error
			if next = m.resting(); next <= 0 {
				next, err = m.again(ctx)
			}
			switch {
			case err != nil:
				next = max(probeEvery, roughly(m.probePause()))
			case next <= 0:
				m.settings.doubt()
				plan(first())
				next = checkEvery
			}
		}
		if m.is(shared) {
			next = min(next, max(1, time.Until(nextHeartbeat)))
		}
		timer.Reset(next)
	}
}

// renew sends a heartbeat, and what is still to be reported. It returns a ForgotError if the store is not the one that it was.
func (m *member) renew(ctx context.Context) error {
	p, err := m.heartbeats.send(ctx, 0)
	if err != nil {
		return err
	}
	switch same, err := m.settings.isKnown(ctx, p.Epoch); {
	case err != nil:
		return err
	case !same:
		return &store.ForgotError{Epoch: p.Epoch}
	}
	return m.payer.pay(ctx, nil)
}

// Check implements [store.Member]. When all processes do so at once, they spread over a little while.
func (m *member) Check() {
	select {
	case m.checks <- struct{}{}:
	default:
	}
}

// shouldCheck reports whether calls wait for far slots that the store granted while it has not answered for a while. A process that loses the
// store must know when that was: until then others have got slots. Knowing it late harms only its own pace (see charges.record.startLocal).
func (m *member) shouldCheck() bool {
	_, at := m.lastSeen()
	line := m.heartbeats.ledger.Latest().Sub(m.Now())
	return line > 0 && time.Since(at) >= max(m.schedule().Check, min(heartbeatEvery, line/16))
}

// leave lets no goroutine begin any more, and waits for the one that has. It reports whether it was called before, and whether there was one.
func (m *member) leave() (again, ran bool) {
	m.mu.Lock()
	if again = m.link.IsClosing(); !again {
		close(m.link.Closing)
	}
	finished := m.finished
	m.mu.Unlock()
	if finished != nil {
		<-finished
	}
	return again, finished != nil
}

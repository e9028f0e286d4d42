package engine

import "github.com/headway-go/headway/pacer/internal/numbers"

// margin is how much longer a period a limit assumes, because calls arrive closer together than they started: the network delays some more
// than others, and machines send some late. How much is unknown until a call is refused although its account had room, which is a stray
// refusal. Each one raises the margin by a step. The margin fades with time.
//
// A second refusal soon after the first is not stray: something else is wrong. See Stray of [Account].
type margin struct {
	share  int64 // of the period, in millionths, when it was raised; 0 for none
	raised int64 // when a refusal last raised it
	until  int64 // when nothing is left of it
}

// at returns the margin that holds at now, in millionths of the period.
func (m *margin) at(now int64) int64 {
	if m.share == 0 || now >= m.until {
		return 0
	}
	return m.share * (m.until - max(now, m.raised)) / (m.until - m.raised)
}

// stray handles the refusal of a call with slot at, and reports whether there was no other refusal within a time before it. If the slot was
// before the margin was last raised, the call was under way together with one that counts already: the two count as one.
func (m *margin) stray(now, at int64, s Stray) bool {
	if at < m.raised {
		return true
	}
	alone := m.until == 0 || now-m.raised >= s.Within
	m.share, m.raised = min(s.Most, m.at(now)+s.Step), now
	m.until = now + max(1, s.Within, m.share*numbers.StepFades/max(1, s.Step))
	return alone
}

func (m *margin) forget(now int64) {
	if m.until <= now {
		*m = margin{}
	}
}

// widened returns a length of time with a margin, rounded up.
func widened(length, share int64) int64 {
	if share == 0 {
		return length
	}
	return length + (length*share+numbers.WholeShare-1)/numbers.WholeShare
}

// A Stray describes how to handle a refusal that may be stray.
type Stray struct {
	Within int64 // a refusal is stray if there was no other within this time before it
	Step   int64 // by how much it raises the margin, in millionths of the period
	Most   int64 // the largest margin
}

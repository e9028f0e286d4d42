package engine

import "github.com/headway-go/headway/luascripts/numbers"

// margin is by how much longer a limit takes its period to be than it is, because calls arrive closer together than they went: the network
// delays some of them more than others, and machines send some late. Nobody can know by how much before a call is refused for it, which
// is a stray refusal: its account had room. Each raises the margin by a step, and it fades with time.
//
// A second refusal soon after the first is no stray: then something else is wrong. See Stray of [Account].
type margin struct {
	share  int64 // of the period, in millionths, when it was raised; 0 for none
	raised int64 // when a refusal was heeded last
	until  int64 // when nothing is left of it
}

// at returns the margin that holds at now, in millionths of the period.
func (m *margin) at(now int64) int64 {
	if m.share == 0 || now >= m.until {
		return 0
	}
	return m.share * (m.until - max(now, m.raised)) / (m.until - m.raised)
}

// stray heeds a refusal of a call whose slot was at, and reports whether there was none in so much time before it. One that had its slot
// before the last refusal was heeded does not raise the margin: its slot was granted without it.
func (m *margin) stray(now, at int64, s Stray) bool {
	alone := m.until == 0 || now-m.raised >= s.Within
	if at > m.raised {
		m.share, m.raised = min(s.Most, m.at(now)+s.Step), now
		m.until = now + max(1, s.Within, m.share*numbers.StepFades/max(1, s.Step))
	}
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

// A Stray is how a refusal is to be heeded that may be a stray one.
type Stray struct {
	Within int64 // it is one if no other was heeded so much earlier
	Step   int64 // by how much it raises the margin, in millionths of the period
	Most   int64 // the largest margin
}

// Package engine is the arithmetic of pacing: what one key knows, and when a call that needs several keys may go.
//
// It is pure: no clock, no lock, no I/O. Times are store time, integer microseconds since the Unix epoch. The
// Redis store runs the same program in Lua (package luascripts); a differential test holds the two together,
// reply for reply, so a change here is a change there.
//
// # Adding an algorithm
//
// An algorithm is an [Account]: one Go file here, one Lua fragment there and one row in the conformance suite.
package engine

import (
	"math"

	"github.com/headway-go/headway/policies"
)

// A Charge is what a reservation took from one account, in the account's own terms: a [GCRA] the interval of
// virtual time [From, To), a [Window] To calls in the bucket that begins at From.
type Charge struct{ From, To int64 }

// Limit is one policy as it stands at the time of a call: its spec and, for a calendar, the bounds of its windows.
type Limit struct {
	Spec   policies.Spec
	Bounds []int64
}

// An Account is what is known of one key under one algorithm.
type Account interface {
	// Earliest returns the first instant ≥ e at which a call of cost n may go, and remembers the choice for
	// Commit. It changes nothing. With tail set it looks only behind everything that is reserved.
	Earliest(l *Limit, now, e, n int64, tail bool) int64
	// Commit charges the choice of the last Earliest for a call that goes at s, and returns the charge and the slack:
	// how much later than s the call may go and still conform.
	Commit(l *Limit, now, s, n int64) (Charge, int64)
	// Cancel gives a charge back. Giving the same charge back twice is harmless for a GCRA and bounded for a Window.
	Cancel(l *Limit, now int64, c Charge)
	// Horizon is the instant from which nothing can be reserved yet, because the calendar does not reach so far.
	Horizon(l *Limit) int64
	// Paused is the instant before which nothing goes; 0 if none.
	Paused() int64
	// Pause sets Paused to until, if that is later.
	Pause(until int64)
	// Expires is the instant from which the account means the same as a new one.
	Expires() int64
	// Inspect reports on the account at now.
	Inspect(l *Limit, now int64) Inspection
}

// An Inspection is an account seen at one instant.
type Inspection struct {
	Remaining int64 // calls of cost 1 that may go now
	Next      int64 // the first instant at which a call of cost 1 may go
	Backlog   int64 // cost that is charged to instants after now
	Paused    int64 // nothing goes before; 0 if not paused
}

// NewAccount returns an empty account for an algorithm, nil for an unknown one.
func NewAccount(a policies.Algorithm) Account {
	switch a {
	case policies.GCRA:
		return &GCRA{}
	case policies.Window:
		return &Window{}
	}
	return nil
}

// Entry is one policy of a stack: its account and its limit.
type Entry struct {
	Account Account
	Limit   Limit
}

// A Call is what Reserve is asked.
type Call struct {
	Cost      int64
	NotBefore int64 // relative to now
	MaxWait   int64 // the longest wait that is granted
}

// What binds a call, besides the index of an entry.
const (
	BindsNothing  = -1
	BindsUpstream = -2 // a pause of the whole upstream
)

// A Grant is Reserve's answer.
type Grant struct {
	OK     bool
	At     int64 // the slot; if not OK, when it would have been
	Slack  int64
	Binds  int  // the index of the entry that decided At, or BindsNothing or BindsUpstream
	Paused bool // Binds names an entry because of its pause
}

// maxRounds bounds how often every account of a stack is asked before their tails alone decide.
const maxRounds = 16

// Reserve finds the first slot at which every entry of the stack admits the call and charges it, appending
// one charge per entry to charges. A refusal changes nothing.
//
// Each account's Earliest is monotone and never goes back, so asking them in turn until a whole round has
// moved nothing ends at the least common slot, whatever the order.
func Reserve(now, pause int64, stack []Entry, c Call, charges []Charge) (Grant, []Charge) {
	g := Grant{At: now + c.NotBefore, Binds: BindsNothing}
	if pause > g.At {
		g.At, g.Binds = pause, BindsUpstream
	}
	for i := range stack {
		if p := stack[i].Account.Paused(); p > g.At {
			g.At, g.Binds, g.Paused = p, i, true
		}
	}
	for quiet, asked := 0, 0; quiet < len(stack); asked++ {
		i := asked % len(stack)
		t := stack[i].Account.Earliest(&stack[i].Limit, now, g.At, c.Cost, asked >= maxRounds*len(stack))
		if t > g.At {
			g.At, g.Binds, g.Paused = t, i, false
			quiet = 0
		}
		quiet++
	}
	if g.At-now > c.MaxWait {
		return g, charges
	}
	for i := range stack {
		if g.At >= stack[i].Account.Horizon(&stack[i].Limit) {
			g.Binds, g.Paused = i, false
			return g, charges
		}
	}
	g.OK, g.Slack = true, math.MaxInt64
	for i := range stack {
		charge, slack := stack[i].Account.Commit(&stack[i].Limit, now, g.At, c.Cost)
		charges = append(charges, charge)
		g.Slack = min(g.Slack, slack)
	}
	if len(stack) == 0 {
		g.Slack = 0
	}
	return g, charges
}

// Keeps reports whether an account is one of algorithm a.
func Keeps(account Account, a policies.Algorithm) bool {
	switch account.(type) {
	case *GCRA:
		return a == policies.GCRA
	case *Window:
		return a == policies.Window
	}
	return false
}

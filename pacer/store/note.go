package store

import (
	"fmt"
	"time"
)

// Change returns what a note means for waiting calls at now; slower reports that it made an adaptive rate slower.
func (n *Note) Change(stack Stack, now Instant, slower bool) (Change, bool) {
	c := Change{Now: now}
	c.Policy, c.Scope = stack.Limits[n.Limit].Policy, stack.Limits[n.Limit].Scope
	switch n.Kind {
	case NoteResume, NoteReset:
		c.Kind = Resumed
	case NoteSlow, NoteStray:
		c.Kind = Slowed
		return c, slower
	case NoteAnswer:
		c.Kind, c.Until = Paused, now.Add(n.For)
		return c, n.pauses()
	case NoteLearn, NoteSettle, NoteClaim, NoteRenew, NoteRelease:
		return c, false
	}
	return c, true
}

// A Note is a fact about one limit of a stack that a store must heed.
type Note struct {
	Kind  NoteKind
	Limit int // index into the stack's limits

	For       time.Duration // Learn: from now on. Answer: until there is more; 0: unknown. Stray: how long before it no other may be
	At        Instant       // Slow, Stray: the slot of the call that was refused, Answer: of the call that was answered; 0: now. Renew: when the call began
	Value     int64         // Learn: the emission interval in µs of a rate, or the limit of a window; 0: no longer. Answer: cost that is on its way and that the store does not know of. Renew, Release: the call's ID. Stray: by how much the margin grows, in millionths of the period
	Remaining int64         // Answer: what the upstream states as left; −1: it does not state it. Stray: the largest margin, in millionths of the period
	Refused   bool          // Answer: the upstream refused the call because of this limit; if Remaining is −1, nothing is left for For
	Guessed   bool          // Answer: the upstream does not state For, and the caller guesses; 0: the store does
	Teaches   bool          // Answer: the number of calls admitted until the refusal, and For, determine how fast they may go
	Charge    Charge        // Settle: of the call; without Made if it may not have gone. Claim: what is remembered; To of a window is what its bucket held at least. Release: the flow and the weight of a queued call
	Cost      int64         // Settle, Answer: what it was charged. Release: the cost of a queued call
	Actual    int64         // Settle: what it really cost. Release: what its flow owed when it was queued: see Call.Owed

	Local  bool   // Settle, Answer: the grant was [Grant].Local
	Source string // where the upstream stated For, such as "Retry-After": for people, no store keeps it

	_ struct{}
}

// Pause returns a note that the allowance of a limit, by its index, is used up for at least d.
func Pause(limit int, d time.Duration) Note {
	return Note{Kind: NoteAnswer, Limit: limit, For: d, Remaining: -1, Refused: true}
}

func (n *Note) pauses() bool { return n.Refused && n.Remaining < 0 && n.For > 0 }

// Empties returns how long a note leaves nothing of an allowance; 0 if it does not.
func (n *Note) Empties() time.Duration {
	if n.Kind == NoteAnswer && (n.Remaining == 0 || n.pauses()) {
		return n.For
	}
	return 0
}

// A NoteKind is the kind of a [Note].
type NoteKind uint8

// Kinds of notes. Their numbers are part of the wire format.
const (
	// NoteResume withdraws statements of an upstream, or an operator, about an allowance.
	NoteResume NoteKind = iota + 1
	// NoteSlow slows an adaptive rate down.
	NoteSlow
	// NoteLearn lowers a limit for a time.
	NoteLearn
	// NoteAnswer reports the answer to a call that an allowance binds, and what the upstream stated as left. It made a difference if
	// waiting calls may go earlier, or must go later, than they know.
	NoteAnswer
	// NoteSettle gives back, or charges, the difference between a call's charge and its real cost. A call without a charge has a zero
	// Charge: it is charged now.
	NoteSettle
	// NoteClaim reports an earlier charge, as the caller remembers it, and charges what is missing of it. It made a difference if a part of
	// a rate's future was missing; for a window, it never does.
	NoteClaim
	// NoteReset forgets all that is known of a limit. Like NoteResume, it begins a new epoch in a [Shared], so that no process reports
	// again what was forgotten on purpose.
	NoteReset
	// NoteRenew reports that a call is running, and extends its lease from now, even if it has lost its permit.
	NoteRenew
	// NoteRelease returns the permit of a call that is over, or removes a call from the queue: then its flow gets back what the call counted
	// there.
	NoteRelease
	// NoteStray reports a refusal of a call for which its account had room: the limit lengthens its period a little for a while. It made a
	// difference to others if it was not the only one within For: then a pause follows.
	NoteStray
)

// String returns a word for what a note does.
func (k NoteKind) String() string {
	words := [...]string{"", "resume", "slow", "learn", "answer", "settle", "claim", "reset", "renew", "release", "stray"}
	if k < NoteResume || int(k) >= len(words) {
		return fmt.Sprintf("NoteKind(%d)", k)
	}
	return words[k]
}

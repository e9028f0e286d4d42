package engine

// A Charge is what a reservation took from one account. The meaning of its integers depends on the account's algorithm. Only this file and
// charge.lua know that:
//
//   - [GCRA]: [From, To) is an interval of virtual time; [0, 0) if its slot was borrowed, and nothing was charged
//   - [Window]: To is a number of calls in the bucket that begins at From; the bucket then held Seen
//   - [Allowance]: To is a number of calls whose slot is From
//   - [Concurrency]: From is the ID of the call, and To is 1 if it has its permit, 0 if it takes the permit at its slot
//
// In a claim (see [Account.Claim]) on a window, To is the least number of calls that the bucket held. Made is when the charge was made; 0
// if that is not known. The store that keeps the account sets it.
type Charge struct{ From, To, Seen, Made int64 }

// chargeOf returns the charge of an interval of virtual time.
func chargeOf(i gap) Charge { return Charge{From: i.from, To: i.to} }

// interval returns the interval of virtual time that was charged.
func (c Charge) interval() gap { return gap{c.From, c.To} }

// chargeIn returns the charge of n calls in a bucket that now contains holds.
func chargeIn(begin, n, holds int64) Charge {
	return Charge{From: begin, To: n, Seen: holds}
}

// bucket returns the start of the bucket, and how many calls were charged to it.
func (c Charge) bucket() (begin, n int64) { return c.From, c.To }

// claimed returns the start of a bucket, and how many calls it is claimed to have held at least.
func (c Charge) claimed() (begin, n int64) { return c.From, c.To }

// permitOf returns the charge of a call that has a permit, or takes one at its slot.
func permitOf(id int64, has bool) Charge {
	c := Charge{From: id}
	if has {
		c.To = 1
	}
	return c
}

// A mark is the instant of an account's reset. Earlier charges are not given back, and do not count, because others may have used them
// since. The mark is kept while such a charge could matter.
type mark struct{ at, until int64 }

// reset returns the mark of an account that is reset, whose charges mattered until an instant.
func (m mark) reset(now, until int64) mark {
	if until = max(until, m.until); until <= now {
		return mark{}
	}
	return mark{now, until}
}

// covers reports whether a charge was made before the reset, while that matters.
func (m mark) covers(c Charge, now int64) bool { return c.Made > 0 && c.Made <= m.at && now < m.until }

// permit returns the call, and whether it has its permit.
func (c Charge) permit() (id int64, has bool) { return c.From, c.To > 0 }

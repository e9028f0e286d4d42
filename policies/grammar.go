package policies

import "time"

// A form is one way to write an item of a policy's text. N stands for a word, and * for all the remaining words.
type form struct {
	words   string
	example string
	read    func(Policy, *words) Policy
	many    bool // may be written several times
}

// limitForms are the forms of the first item: the constructors.
func limitForms() []form {
	return []form{
		{words: "at most N in any *", example: "at most 50 in any 1s", read: func(_ Policy, w *words) Policy { return AtMost(w.number(), w.duration()) }},
		{words: "N per window of *", example: "300 per window of 10s", read: func(_ Policy, w *words) Policy { return Fixed(w.number(), w.duration()) }},
		{words: "N per day", example: "10000 per day", read: func(_ Policy, w *words) Policy { return Sliding(w.number(), 24*time.Hour) }},
		{words: "N per *", example: "25 per 1s", read: func(_ Policy, w *words) Policy { return Rate(w.number(), w.duration()) }},
		{words: "N hourly *", example: "5000 hourly (UTC)", read: func(_ Policy, w *words) Policy { return Hourly(w.number(), w.zone()) }},
		{words: "N daily *", example: "100000 daily (UTC)", read: func(_ Policy, w *words) Policy { return Daily(w.number(), w.zone()) }},
		{words: "N monthly *", example: "1000000 monthly (UTC)", read: func(_ Policy, w *words) Policy { return Monthly(w.number(), w.zone()) }},
		{words: "N in flight", example: "25 in flight", read: func(_ Policy, w *words) Policy { return InFlight(w.number()) }},
		{words: "N in flight for longer than *", example: "25 in flight for longer than 20s", read: func(_ Policy, w *words) Policy {
			return InFlight(w.number()).LongerThan(w.duration())
		}},
	}
}

// settingForms are the forms of the other items, in the order in which they are applied.
func settingForms() []form {
	return []form{
		{words: "in N buckets", example: "in 10 buckets", read: func(p Policy, w *words) Policy {
			if p.shape == shapeAtMost {
				p = Sliding(p.limit, p.period)
			}
			return p.Buckets(w.number())
		}},
		{words: "burst N", example: "burst 10", read: func(p Policy, w *words) Policy { return p.Burst(w.number()) }},
		{words: "skew *", example: "skew 10ms", read: func(p Policy, w *words) Policy {
			d := w.duration()
			if p.shape == shapeAtMost && d == defaultSkew {
				return p // String writes the default, too, if no skew was set, and no period is too short for that
			}
			return p.Skew(d)
		}},
		{words: "lease *", example: "lease 15s", read: func(p Policy, w *words) Policy { return p.Lease(w.duration()) }},
		{words: "N % of it", example: "80 % of it", read: func(p Policy, w *words) Policy { return p.part(w.number()) }},
		{words: "N % for lane *", example: "80 % for lane batch", many: true, read: func(p Policy, w *words) Policy {
			percent := w.number()
			return p.Lane(w.rest(), percent)
		}},
		{words: "N % of it kept", example: "30 % of it kept", read: func(p Policy, w *words) Policy { return p.floor(w.number()) }},
		{words: "N % kept for *", example: "30 % kept for support", many: true, read: func(p Policy, w *words) Policy {
			percent := w.number()
			return p.Reserve(w.rest(), percent)
		}},
		{words: "fair by *", example: "fair by tenant", read: func(p Policy, w *words) Policy { return p.Fair(w.rest()) }},
		{words: "adaptive *", example: "adaptive (floor 10 %)", read: func(p Policy, w *words) Policy {
			p = p.Adaptive(Adaptation{})
			how := w.rest()
			if how == "" {
				return p
			}
			if how = w.inParentheses(how); w.err == nil {
				p, w.err = readAll(p, adaptationForms(), split(how))
			}
			return p
		}},
		{words: "per *", example: "per user+ticket", read: func(p Policy, w *words) Policy {
			return p.Per(w.scopes()...)
		}},
		{words: "optional", example: "optional", read: func(p Policy, _ *words) Policy { return p.Optional() }},
		{words: "observed", example: "observed", read: func(p Policy, _ *words) Policy { return p.Observed() }},
	}
}

// adaptationForms are the forms in the parentheses after "adaptive". They refuse 0, which would mean the default.
func adaptationForms() []form {
	return []form{
		{words: "floor N %", example: "floor 10 %", read: func(p Policy, w *words) Policy {
			p.adaptation.Floor = int(notZero(w, w.number()))
			return p
		}},
		{words: "decrease N %", example: "decrease 70 %", read: func(p Policy, w *words) Policy {
			p.adaptation.Decrease = int(notZero(w, w.number()))
			return p
		}},
		{words: "hold *", example: "hold 5s", read: func(p Policy, w *words) Policy {
			p.adaptation.Hold = notZero(w, w.duration())
			return p
		}},
		{words: "recovery *", example: "recovery 1m", read: func(p Policy, w *words) Policy {
			p.adaptation.Recovery = notZero(w, w.duration())
			return p
		}},
	}
}

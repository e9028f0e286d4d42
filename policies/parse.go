package policies

import (
	"fmt"
	"strings"
)

// maxText is how long a policy's text may be, in bytes. The longest that String writes is about half of it.
const maxText = 4096

// Parse reads a policy from one line of text, as [Policy.String] writes it: what it returns has the same name, Spec and
// settings as the policy that was written. A text is a name and a colon, which may be left out; a limit; and settings in any
// order, with commas between them:
//
//	peak: 25 per 1s, burst 10, per tenant
//
// A limit is written like one of these:
//
//	25 per 1s                          Rate(25, time.Second), which is PerSecond(25)
//	every 1.5s                         Every(1500 * time.Millisecond), which is also "1 per 1.5s"
//	at most 50 in any 1s               AtMost(50, time.Second)
//	at most 120 in any 1m, in 10 buckets
//	                                   Sliding(120, time.Minute)
//	300 per window of 10s              Fixed(300, 10 * time.Second)
//	5000 hourly (UTC)                  Hourly(5000, time.UTC)
//	100000 daily (Europe/Berlin)       Daily(100_000, berlin)
//	1000000 monthly (UTC)              Monthly(1_000_000, time.UTC)
//	25 in flight                       InFlight(25)
//	25 in flight for longer than 20s   InFlight(25).LongerThan(20 * time.Second)
//
// Settings are:
//
//	burst 10                           Burst(10)
//	skew 10ms                          Skew(10 * time.Millisecond)
//	lease 15s                          Lease(15 * time.Second)
//	80 % for lane batch                Lane("batch", 80)
//	80 % of it                         what InLane returns: the part of a lane
//	fair by tenant                     Fair("tenant")
//	adaptive                           Adaptive(Adaptation{})
//	adaptive (floor 10 %, decrease 70 %, hold 5s, recovery 1m)
//	                                   Adaptive, with an Adaptation that says so
//	per user+ticket                    Per("user", "ticket")
//	optional                           Optional()
//
// What is left out has its default. Keywords may be in capitals, spaces are free, and 100_000 is 100000. A duration is
// written as in Go, or in words: "25 per second", "25/s", "at most 300 in any 5 minutes". Days and months are those of a
// calendar, whose time zone has to be named as in the IANA database, and is loaded by time.LoadLocation.
//
// It returns an [*Error] if the text is longer than 4096 bytes or is not understood, and then says which part of it; and the
// one of [Policy.Validate] if it is understood, but is no valid policy.
func Parse(text string) (Policy, error) {
	if len(text) > maxText {
		return Policy{}, &Error{Field: "Text", Value: fmt.Sprintf("%d bytes long", len(text)), Reason: fmt.Sprintf("must have at most %d", maxText)}
	}
	name, rest := "", text
	if at := strings.IndexAny(text, ":,("); at >= 0 && text[at] == ':' {
		name, rest = strings.TrimSpace(text[:at]), text[at+1:]
		if name == "" {
			return Policy{}, &Error{Field: "Name", Value: `""`, Reason: "give the policy a name before the colon, or leave out both"}
		}
	}
	p, err := parse(rest)
	if err != nil {
		if ValidName(name) {
			err.Policy = name
		}
		return Policy{}, err
	}
	if name != "" && name != p.Name() {
		p = p.Named(name)
	}
	if err := p.Validate(); err != nil {
		return Policy{}, err
	}
	return p, nil
}

// parse reads a policy without its name.
func parse(text string) (Policy, *Error) {
	items := split(text)
	if limit := items[0].text; !strings.Contains(limit, "(") { // a time zone may have a slash
		items[0] = newItem(strings.Replace(limit, "/", " per ", 1))
	}
	for _, f := range limitForms() {
		if w, matched := f.match(items[0]); matched {
			p := f.read(Policy{}, w)
			if w.err != nil {
				return p, w.err
			}
			return readAll(p, settingForms(), items[1:])
		}
	}
	return Policy{}, notUnderstood(items[0], "a policy begins with a limit", limitForms())
}

// readAll reads items, in the order of the forms.
func readAll(p Policy, forms []form, items []item) (Policy, *Error) {
	for _, f := range forms {
		seen, others := false, items[:0]
		for _, one := range items {
			w, matched := f.match(one)
			if !matched {
				others = append(others, one)
				continue
			}
			if seen && !f.many {
				return p, &Error{Field: "Text", Value: quote(one.text), Reason: "says the same thing again: leave one of them out"}
			}
			if p, seen = f.read(p, w), true; w.err != nil {
				return p, w.err
			}
		}
		items = others
	}
	if len(items) > 0 {
		return p, notUnderstood(items[0], "a setting", forms)
	}
	return p, nil
}

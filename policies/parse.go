package policies

import (
	"fmt"
	"strconv"
	"strings"
)

// maxText bounds a policy's text, in bytes: about twice the longest that String writes.
const maxText = 4096

// fieldText is the Field of errors about a text.
const fieldText = "Text"

// Parse reads a policy from one line of text, as [Policy.String] writes it: what it returns has the same name, Spec and
// settings as the policy that was written. A text is a name and a colon, which may be left out; a limit; and settings in any
// order, with commas between them:
//
//	peak: 25 per 1s, burst 10, per tenant
//
// A limit is written like one of these:
//
//	25 per 1s                          Rate(25, time.Second), which is PerSecond(25); "1 per 1.5s" is Every
//	at most 50 in any 1s               AtMost(50, time.Second)
//	at most 120 in any 1m, in 10 buckets
//	                                   Sliding(120, time.Minute)
//	300 per window of 10s              Fixed(300, 10 * time.Second)
//	5000 hourly (UTC)                  Hourly(5000, time.UTC)
//	100000 daily (Europe/Berlin)       Daily(100_000, berlin)
//	1000000 monthly (UTC)              Monthly(1_000_000, time.UTC)
//	10000 per day                      Sliding(10_000, 24*time.Hour): see below
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
//	30 % kept for support              Reserve("support", 30)
//	30 % of it kept                    what InLane returns of that: the part of a party
//	fair by tenant                     Fair("tenant")
//	adaptive                           Adaptive(Adaptation{})
//	adaptive (floor 10 %, decrease 70 %, hold 5s, recovery 1m)
//	                                   Adaptive, with an Adaptation that has these values
//	per user+ticket                    Per("user", "ticket")
//	optional                           Optional()
//	observed                           Observed()
//
// A setting that is left out has its default. A slash is "per", and a second, minute or hour needs no number: "25/s", "100 per minute".
//
// A quota of a day is ambiguous. For a calendar day, give the time zone by its IANA name, which [time.LoadLocation] loads. Without a time
// zone, it is unknown when the quota resets: "10000/day" is read as at most 10,000 in any 24 hours, which also keeps the quota of a calendar
// day, whenever it begins, except on a day when clocks are put back. The calls are not spread over the day. If you know what the upstream
// means, write that:
//
//	10000 daily (UTC)                  a quota that resets at midnight
//	at most 10000 in any 24h, in 100 buckets
//	                                   one of any 24 hours, which is what 10000/day is read as
//	10000 per 24h                      a pace: one call every 8.64 seconds
//
// Parse returns an [*Error] if the text is longer than 4096 bytes or cannot be read; the error then names the part at fault. If the text
// can be read but the policy is not valid, it returns the error of [Policy.Validate].
func Parse(text string) (Policy, error) {
	if len(text) > maxText {
		return Policy{}, &Error{Field: fieldText, Value: fmt.Sprintf("%d bytes long", len(text)), Reason: fmt.Sprintf("must have at most %d", maxText)}
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
	items[0] = limitItem(items[0].text)
	for _, f := range limitForms() {
		if w, matched := f.match(items[0]); matched {
			p := f.read(Policy{}, w)
			if w.err != nil {
				return p, w.err
			}
			return readAll(p, settingForms(), items[1:])
		}
	}
	what := "a policy begins with a limit"
	if _, err := strconv.Atoi(items[0].text); err == nil && len(items) > 1 {
		what = "a number has no commas, and a policy begins with a limit"
	}
	return Policy{}, notUnderstood(items[0], what, limitForms())
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
				return p, &Error{Field: fieldText, Value: quote(one.text), Reason: "is set twice: leave one of them out"}
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

package policies

import (
	"fmt"
	"strings"

	"github.com/headway-go/headway/policies/specs"
)

// String describes the policy in one line, for people and for [Parse]: its name, its limit, and its other settings. It omits overrides and
// defaults, except the skew of AtMost and the buckets of Sliding, and writes a burst that was set.
//
//	peak: 25 per 1s, burst 10, adaptive (floor 10 %), per tenant, optional
func (p Policy) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", p.Name())
	p.writeLimit(&b)
	if p.percent > 0 {
		what := "of it"
		if p.kept {
			what = "of it kept"
		}
		fmt.Fprintf(&b, ", %d %% %s", p.percent, what)
	}
	for _, l := range p.lanes {
		what := "for lane"
		if l.kept {
			what = "kept for"
		}
		fmt.Fprintf(&b, ", %d %% %s %s", l.percent, what, l.name)
	}
	if p.fair != "" {
		fmt.Fprintf(&b, ", fair by %s", p.fair)
	}
	if p.adaptation != nil {
		b.WriteString(", " + p.adaptation.text())
	}
	if len(p.scopes) > 0 {
		fmt.Fprintf(&b, ", per %s", strings.Join(p.scopes, "+"))
	}
	if p.optional {
		b.WriteString(", optional")
	}
	if p.observed {
		b.WriteString(", observed")
	}
	return b.String()
}

// writeLimit writes the arguments of the constructor, and the settings that only some constructors have.
func (p Policy) writeLimit(b *strings.Builder) {
	switch p.shape {
	case shapeRate:
		fmt.Fprintf(b, "%d per %s%s", p.limit, compact(p.period), p.burstText())
		return
	case shapeAtMost:
		fmt.Fprintf(b, "at most %d in any %s%s, skew %s", p.limit, compact(p.period), p.burstText(), compact(p.skewOr(defaultSkew)))
		return
	case shapeFixed:
		fmt.Fprintf(b, "%d per window of %s%s", p.limit, compact(p.period), p.burstText())
	case shapeCalendar:
		fmt.Fprintf(b, "%d %s (%v)%s", p.limit, p.unit.String(), p.loc, p.burstText())
	case shapeSliding:
		fmt.Fprintf(b, "at most %d in any %s, in %d buckets", p.limit, compact(p.period), p.buckets)
	case shapeInFlight:
		fmt.Fprintf(b, "%d in flight", p.limit)
		if p.longer > 0 {
			fmt.Fprintf(b, " for longer than %s", compact(p.longer))
		}
		if p.lease != defaultLease {
			fmt.Fprintf(b, ", lease %s", compact(p.lease))
		}
	case shapeNone:
		b.WriteString("no limit set")
		return
	}
	if skew := p.skewOr(0); skew != 0 {
		fmt.Fprintf(b, ", skew %s", compact(skew))
	}
}

// burstText returns the text of the burst, if it was set.
func (p Policy) burstText() string {
	if p.burst == 0 {
		return ""
	}
	return fmt.Sprintf(", burst %d", p.burst)
}

// text returns "adaptive", and the settings that are not the default.
func (a *Adaptation) text() string {
	var how []string
	say := func(isDefault bool, format string, value any) {
		if !isDefault {
			how = append(how, fmt.Sprintf(format, value))
		}
	}
	say(a.Floor == 0 || a.Floor == defaultFloor, "floor %d %%", a.Floor)
	say(a.Decrease == 0 || a.Decrease == defaultDecrease, "decrease %d %%", a.Decrease)
	say(a.Hold == 0 || a.Hold == defaultHold, "hold %s", compact(a.Hold))
	say(a.Recovery == 0 || a.Recovery == defaultRecovery, "recovery %s", compact(a.Recovery))
	if len(how) == 0 {
		return "adaptive"
	}
	return "adaptive (" + strings.Join(how, ", ") + ")"
}

// MarshalText returns the policy as [Policy.String] writes it, so that JSON and other files can hold it. It returns an [*Error] if the
// policy is not valid, or if [Parse] would not read the same policy from the text: a calendar window must have a named time zone, not
// [time.Local] or one of [time.FixedZone], and the policy must have no overrides.
func (p Policy) MarshalText() ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if p.overrides != nil {
		return nil, &Error{Policy: p.Name(), Field: "Overrides", Value: "given", Reason: "one line cannot hold them: use Lines"}
	}
	text := p.String()
	q, err := Parse(text)
	if err != nil {
		return nil, err
	}
	if q.String() != text || !specs.SameZone(p.loc, q.loc) {
		return nil, &Error{
			Policy: p.Name(), Field: "Location", Value: fmt.Sprintf("%q", p.loc),
			Reason: "another time zone than the one of this name: take that from time.LoadLocation",
		}
	}
	return []byte(text), nil
}

// UnmarshalText reads the policy as [Parse] does.
func (p *Policy) UnmarshalText(text []byte) error {
	q, err := Parse(string(text))
	if err != nil {
		return err
	}
	*p = q
	return nil
}

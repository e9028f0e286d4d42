package report

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// None fills an empty field.
const None = "-"

// Clean removes from s what a terminal could take for a command: names and scope values come from other processes.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// Number formats n with at most three significant decimal digits, such as "0.12", "11.7" and "1200".
func Number(n float64) string {
	switch {
	case math.IsNaN(n) || math.IsInf(n, 0):
		return None
	case n == 0 || n >= 100:
		return strconv.FormatFloat(n, 'f', 0, 64)
	case n >= 10:
		return trimZeros(strconv.FormatFloat(n, 'f', 1, 64))
	case n >= 0.01:
		return trimZeros(strconv.FormatFloat(n, 'f', 2, 64))
	}
	return strconv.FormatFloat(n, 'g', 2, 64)
}

func trimZeros(s string) string {
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// Count formats a count in at most six columns, such as "412", "98.2k" and "1.5M".
func Count(n int64) string {
	const thousand, million, billion = 1_000, 1_000_000, 1_000_000_000
	switch f := float64(n); {
	case n < 10*thousand:
		return strconv.FormatInt(n, 10)
	case n < million:
		return Number(min(f/thousand, 999)) + "k"
	case n < billion:
		return Number(min(f/million, 999)) + "M"
	default:
		return Number(f/billion) + "G"
	}
}

// Duration formats d for people, rounded up, such as "350ms", "41s", "12m30s" and "3d4h".
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d <= 0:
		return "0s"
	case d < time.Second:
		return (ceil(d, time.Millisecond)).String()
	case d < time.Hour:
		return short(ceil(d, time.Second))
	case d < day:
		return short(ceil(d, time.Minute))
	}
	d = ceil(d, time.Hour)
	days := strconv.FormatInt(int64(d/day), 10) + "d"
	if h := d % day; h > 0 {
		return days + short(h)
	}
	return days
}

func ceil(d, unit time.Duration) time.Duration { return (d + unit - 1).Truncate(unit) }

// short prints a duration without its zero tail: "1m", not "1m0s".
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Describe returns a policy's text, without its name.
func Describe(p policies.Policy) string {
	return Clean(strings.TrimPrefix(p.String(), p.Name()+": "))
}

// Pace returns the cost per second, of all keys of the policy.
func Pace(p *fleet.Policy) string { return Number(p.Rate(paceSeconds)) + "/s" }

// paceSeconds is the time over which the pace is measured, as by fleet.Policy.Utilization.
const paceSeconds = 10

// Limit returns what the policy, or each key of a policy with scopes, admits now: "11.7/s" for a rate, "700/1m" for a window, "25 at once"
// for permits.
func Limit(p *fleet.Policy) string {
	n, period := p.Policy.Limit()
	if p.Pace > 0 {
		n = p.Pace
	}
	switch p.Policy.Spec().Algorithm {
	case specs.Window:
		return Count(n) + "/" + Duration(period)
	case specs.Concurrency:
		return Count(n) + " at once"
	case specs.GCRA, specs.Allowance:
	}
	return Number(p.Capacity()) + "/s"
}

// Lowered returns a note that the policy admits less than configured, because of what the upstream reported or refused; "" if it does not.
func Lowered(p *fleet.Policy) string {
	spec := p.Policy.Spec()
	switch {
	case p.Pace <= 0:
		return ""
	case spec.Algorithm == specs.GCRA && p.Pace > spec.Interval:
		return fmt.Sprintf("slowed to %s from %s/s", Limit(p), Number(float64(time.Second.Microseconds())/float64(spec.Interval)))
	case spec.Algorithm != specs.GCRA && p.Pace < spec.Limit:
		return fmt.Sprintf("lowered to %s from %s", Limit(p), Count(spec.Limit))
	}
	return ""
}

// Margin returns by how much stray refusals have lengthened the policy's period; "" if they have not.
func Margin(p *fleet.Policy) string {
	if p.Margin <= 0 {
		return ""
	}
	return "margin " + Duration(p.Margin)
}

// PerKey reports whether no key of the policy was requested: its row is then of the key that uses most, or, if none is known, of all keys.
func PerKey(p *fleet.Policy) bool { return len(p.Policy.Scopes()) > 0 && (!p.Shown || p.Busiest) }

// Used returns how much of the policy is in use, from 0 to 1, and whether that is known: it is not for a key that spends little.
func Used(p *fleet.Policy) (part float64, known bool) {
	part = p.Utilization()
	return part, p.Shown && (part > 0 || p.Busiest || len(p.Policy.Scopes()) == 0 || p.Policy.Spec().Algorithm != specs.GCRA)
}

// Scope returns a scope and its value as --scope takes it: stores keep odd bytes as %XX.
func Scope(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		s = plain
	}
	return Clean(s)
}

// Next returns when the next call may go: "now", or a duration.
func Next(d time.Duration) string {
	if d <= 0 {
		return "now"
	}
	return Duration(d)
}

// Plural returns n and its word.
func Plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(n, 10) + " " + many
}

// Until returns how long something lasts and until when, by the clock of now.
func Until(now time.Time, d time.Duration) string {
	if d >= pacer.Forever/2 {
		return "until it is resumed"
	}
	return fmt.Sprintf("for %s, until %s", Duration(d), clock(now, now.Add(d)))
}

// Gone returns when a window will be spent at its pace so far; "" if not before its end, or if unknown.
func Gone(now time.Time, p *fleet.Policy) string {
	if p.Gone == 0 {
		return ""
	}
	return "at this pace, gone at " + clock(now, now.Add(p.Gone))
}

// By returns the field in which the upstream stated something; "" if unknown.
func By(source string) string {
	if source == "" {
		return ""
	}
	return " (" + Clean(source) + ")"
}

// PausedBy returns until when a policy is paused, and the field in which the upstream stated that; "" if unknown.
func PausedBy(now time.Time, p *fleet.Policy) string {
	if p.PausedBy == "" {
		return ""
	}
	return "paused " + Until(now, p.PausedFor) + By(p.PausedBy)
}

// Allowed names the limit of an allowance: a policy, or an unknown one of the upstream.
func Allowed(a *pacer.Allowance) string {
	if a.Policy != "" {
		return a.Policy
	}
	return "upstream" + By(a.Limit)
}

// Said returns what the upstream stated as left of a policy, or of unknown limits, and until when.
func Said(f *fleet.Snapshot, policy, scope string) (all []string) {
	for i := range f.Allowances {
		if a := &f.Allowances[i]; a.Policy == policy && a.Scope == scope {
			all = append(all, "said to be left "+Count(a.Left)+" "+Until(f.At, a.For)+By(a.Source))
		}
	}
	return all
}

// ParseDuration reads the length of a pause.
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration: write one such as 30s, 10m or 2h", s)
	case d <= 0:
		return 0, fmt.Errorf("a pause of %s is too short: write one such as 30s, 10m or 2h; to lift a pause, use resume", d)
	case d > pacer.Forever:
		return 0, fmt.Errorf("a pause of %s is too long: the longest is %s", s, Duration(pacer.Forever))
	}
	return d, nil
}

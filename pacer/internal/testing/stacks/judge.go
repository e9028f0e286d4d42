package stacks

import (
	"cmp"
	"fmt"
	"slices"
)

// A sent is a call that went.
type sent struct {
	tenant              string
	requested, slot, at int64
	until               int64 // when it was over, if it had a permit
}

// breach returns how calls break a bound; "" if they do not.
func (b *bound) breach(calls []sent) string {
	groups := make(map[string][]sent)
	for _, c := range calls {
		key := ""
		if b.perTenant {
			key = c.tenant
		}
		groups[key] = append(groups[key], c)
	}
	for key, group := range groups {
		slices.SortFunc(group, func(x, y sent) int { return cmp.Compare(b.judged(x), b.judged(y)) })
		if why := b.breachOf(group); why != "" {
			return fmt.Sprintf("%v, tenant %q: %s", b.policy(0), key, why)
		}
	}
	return ""
}

// judged returns when a call went, as far as Headway is responsible: timers are late. Permits are taken when it really goes.
func (b *bound) judged(c sent) int64 {
	if b.kind == permits {
		return c.at
	}
	return c.slot
}

func (b *bound) breachOf(calls []sent) string {
	if b.kind == permits {
		return b.crowd(calls)
	}
	exact, period := b.kind == atMost || b.kind == sliding, b.period.Microseconds()
	least := int64(0) // of i·T − when the i-th call went: any (j−i+1) calls take (j−i+1−burst)·T
	for i := range calls {
		at := calls[i].slot
		if b.kind == evenly || b.kind == atMost {
			ahead := int64(i)*b.interval() - at
			if least = min(least, ahead); i == 0 {
				least = ahead
			}
			if ahead-least > (b.bursts()-1)*b.interval() {
				return fmt.Sprintf("call %d goes too soon, at %d", i, at)
			}
		}
		if i >= int(b.n) {
			before := calls[i-int(b.n)].slot
			if exact && at-before < b.within() || b.kind == fixed && at/period == before/period {
				return fmt.Sprintf("%d calls from %d to %d", b.n+1, before, at)
			}
		}
		if b.kind == fixed && at%period >= period-b.skew.Microseconds() {
			return fmt.Sprintf("a call at %d, at the end of a window", at)
		}
	}
	return ""
}

// crowd returns where more calls run than there are permits.
func (b *bound) crowd(calls []sent) string {
	ends := make([]int64, 0, len(calls))
	for _, c := range calls {
		ends = append(ends, c.until+b.skew.Microseconds())
	}
	slices.Sort(ends)
	for i, c := range calls {
		over, _ := slices.BinarySearch(ends, c.at+1) // those that end now are over
		if running := i + 1 - over; running > int(b.n) {
			return fmt.Sprintf("%d calls run at %d", running, c.at)
		}
	}
	return ""
}

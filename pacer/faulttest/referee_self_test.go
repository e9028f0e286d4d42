package faulttest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
)

// A referee that never finds anything proves nothing.
func TestRefereeFindsWhatBreaksAPolicy(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	at := func(ms ...int) (calls []gone) {
		for _, n := range ms {
			when := start.Add(time.Duration(n) * time.Millisecond)
			calls = append(calls, gone{at: when, from: when, to: when, cost: 1, tenant: 1})
		}
		slices.SortFunc(calls, func(a, b gone) int { return b.at.Compare(a.at) }) // in any order
		return calls
	}
	any3 := rule{policies.AtMost(3, time.Second), false, 3, time.Second, false, time.Second + 10*time.Millisecond}
	fixed3 := rule{policies.Fixed(3, time.Second), true, 3, time.Second, false, time.Second}
	perTenant := any3
	perTenant.scoped = true
	other := at(0, 100, 500, 900)
	other[0].tenant, other[1].tenant = 2, 0
	late := at(0, 300, 600, 1200) // the first went late: its slot was good until 200 ms before
	late[3].at, late[3].late = late[3].at.Add(400*time.Millisecond), 400*time.Millisecond
	unsure := at(500, 501, 502, 1499)
	unsure[0].to = start.Add(1600 * time.Millisecond) // an Allow that took long
	certain := at(500, 501, 502, 1400)
	certain[0].to = start.Add(1450 * time.Millisecond)
	dear := at(0, 10)
	dear[1].cost = 3
	trouble := []trouble{{"a fault", start.Add(2 * time.Second), start.Add(3 * time.Second)}}
	for name, c := range map[string]struct {
		rule  rule
		calls []gone
		bad   bool
	}{
		"three":                              {any3, at(0, 1, 2, 1010, 1011, 1012), false},
		"four":                               {any3, at(500, 501, 502, 1499), true},
		"a cost counts":                      {any3, dear, true},
		"a call that goes late":              {any3, late, false},
		"a call that may lie outside":        {any3, unsure, false},
		"a call that must lie inside":        {any3, certain, true},
		"four within the skew":               {any3, at(0, 1, 2, 1009), true},
		"four within more than the skew":     {any3, at(0, 1, 2, 1010), false},
		"in a fault, within the skew":        {any3, at(2000, 2001, 2002, 2003, 2004, 2005, 3005), false},
		"around the turn of a fixed window":  {fixed3, at(997, 998, 999, 1000, 1001, 1002), false},
		"four in a fixed window":             {fixed3, at(0, 1, 998, 999), true},
		"four of one tenant":                 {perTenant, at(0, 100, 500, 900), true},
		"four of several tenants":            {perTenant, other, false},
		"twice the limit in a fault":         {any3, at(2000, 2001, 2002, 2003, 2004, 2005), false},
		"more than that in a fault":          {any3, at(2000, 2001, 2002, 2003, 2004, 2005, 2006), true},
		"four just before a fault's window":  {any3, at(990, 992, 994, 996), true},
		"four long after a fault":            {any3, at(6001, 6002, 6003, 6004), true},
		"four just after a fault":            {any3, at(3999, 4000, 4001, 4002), false},
		"four near a fault, nobody local":    {any3, at(5999, 6000, 6001, 6002), true},
		"in a fault, in a window before it":  {any3, at(1100, 1200, 1300, 2050), false},
		"more than twice, in a fixed window": {fixed3, at(2000, 2100, 2200, 2300, 2400, 2500, 2600), true},
	} {
		j := referee{troubles: trouble, masters: 1, processes: 3}
		for i := range 3 {
			j.absences = append(j.absences, absence{i, trouble[0].from, trouble[0].to})
		}
		if got := j.judge(&c.rule, c.calls); (len(got.broken) > 0) != c.bad {
			require.Fail(t, name, "%+v", got)
		}
	}
}

// A budget may be exceeded by the shares of those that lost the store before all knew that it was spent, and by nothing else.
func TestBudgetsAreJudged(t *testing.T) {
	t.Parallel()
	known := time.Now()
	for _, c := range []struct {
		spent    int64
		absences []absence
		broken   bool
	}{
		{40, nil, false},
		{41, nil, true},
		{41, []absence{{0, known.Add(time.Second), time.Time{}}}, true},
		{50, []absence{{0, known.Add(-time.Second), known}, {0, known.Add(-time.Millisecond), time.Time{}}}, false},
		{51, []absence{{0, known.Add(-time.Second), known}, {0, known.Add(-time.Millisecond), time.Time{}}}, true},
	} {
		r := &run{site: &site{}, fleet: make([]*member, 4), known: known, absences: c.absences, budgeted: c.spent}
		require.Equal(t, c.broken, len(r.overBudget()) > 0, "%+v", c)
	}
}

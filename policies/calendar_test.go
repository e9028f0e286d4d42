package policies_test

import (
	"slices"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
)

// bounds returns the starts of windows around a wall clock time in a zone.
func bounds(t *testing.T, p policies.Policy, at time.Time, until time.Duration) []time.Time {
	t.Helper()
	var out []time.Time
	for _, us := range p.Spec().Calendar.Bounds(at.UnixMicro(), at.Add(until).UnixMicro()) {
		out = append(out, time.UnixMicro(us).In(at.Location()))
	}
	return out
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	require.NoError(t, err)
	return loc
}

func TestDaysAreAsLongAsInTheCalendar(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone  string
		noon  string // within the tested window
		hours float64
		begin string // of that window, where it is not midnight
	}{
		{"UTC", "2025-03-30", 24, ""},
		{"Europe/Berlin", "2025-03-30", 23, ""},
		{"Europe/Berlin", "2025-10-26", 25, ""},
		{"America/New_York", "2025-11-02", 25, ""},
		{"Australia/Lord_Howe", "2025-10-05", 23.5, ""},
		{"America/Sao_Paulo", "2018-11-04", 23, "01:00"}, // midnight was skipped
		{"America/Havana", "2025-11-02", 25, ""},         // 00:00 to 01:00 came twice: the day begins with the first
		{"Pacific/Apia", "2011-12-31", 24, ""},           // the day before was skipped altogether
		{"Asia/Kolkata", "2025-06-01", 24, ""},
	} {
		loc := zone(t, c.zone)
		noon, err := time.ParseInLocation("2006-01-02 15:04", c.noon+" 12:00", loc)
		require.NoError(t, err)
		b := bounds(t, policies.Daily(1, loc), noon, 0)
		require.GreaterOrEqual(t, len(b), 4)
		require.Equal(t, c.noon, b[1].Format("2006-01-02"), c.zone)
		begin := c.begin
		if begin == "" {
			begin = "00:00"
		}
		require.Equal(t, begin, b[1].Format("15:04"), c.zone)
		require.InDelta(t, c.hours, b[2].Sub(b[1]).Hours(), 0, "%s on %s", c.zone, c.noon)
	}
}

func TestMonths(t *testing.T) {
	t.Parallel()
	loc := zone(t, "Europe/Berlin")
	b := bounds(t, policies.Monthly(1, loc), time.Date(2024, 2, 10, 5, 0, 0, 0, loc), 40*24*time.Hour)
	var got []string
	for _, x := range b {
		got = append(got, x.Format("2006-01-02 15:04"))
	}
	require.Equal(t, []string{"2024-01-01 00:00", "2024-02-01 00:00", "2024-03-01 00:00", "2024-04-01 00:00", "2024-05-01 00:00"}, got)
}

// In any zone and at any time, bounds ascend, surround the time, reach far enough, and do not depend on earlier calls.
func TestBoundsEverywhere(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "America/Havana", "Africa/Casablanca", "Pacific/Apia", "America/St_Johns"} {
		loc := zone(t, name)
		for _, p := range []policies.Policy{policies.Hourly(1, loc), policies.Daily(1, loc), policies.Monthly(1, loc)} {
			warm := p.Spec().Calendar
			for at := time.Date(2024, 12, 30, 0, 7, 0, 0, time.UTC); at.Year() < 2026; at = at.Add(7*time.Hour + 13*time.Minute) {
				from, until := at.UnixMicro(), at.Add(5*time.Hour).UnixMicro()
				b := warm.Bounds(from, until)
				// Plain conditions: there are a hundred thousand of them.
				if fresh := p.Spec().Calendar.Bounds(from, until); !slices.Equal(fresh, b) {
					t.Fatalf("%s at %v: asked before it says %v, and %v if it was not", name, at, b, fresh)
				}
				if b[1] > from || b[2] <= from || b[len(b)-2] <= until {
					t.Fatalf("%s at %v: %v does not reach from %d until %d", name, at, b, from, until)
				}
				for i := 1; i < len(b); i++ {
					if b[i] <= b[i-1] {
						t.Fatalf("%s at %v: %v does not ascend", name, at, b)
					}
				}
			}
		}
	}
}

// A zone's data lists shifts up to 2037, or none at all. Later ones follow a rule, which needs care at the turns of years.
func TestTurnsOfYearsToWhichTheListOfShiftsDoesNotReach(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Europe/Berlin", "America/St_Johns", "America/New_York", "Australia/Lord_Howe"} {
		loc := zone(t, name)
		for day := time.Date(2040, 12, 28, 12, 0, 0, 0, loc); day.Year() < 2042; day = day.AddDate(0, 0, 1) {
			midnight := time.Date(day.Year(), day.Month(), day.Day(), 0, 0, 0, 0, loc)
			b := bounds(t, policies.Daily(1, loc), day, 0)
			require.Equal(t, midnight, b[1])
			require.Equal(t, midnight.AddDate(0, 0, 1), b[2])
			if day.Month() == time.January || day.Month() == time.December {
				for m := range 24 * 4 {
					at := midnight.Add(time.Duration(m) * 15 * time.Minute)
					if hour := bounds(t, policies.Hourly(1, loc), at, 0)[1]; !hour.Equal(midnight.Add(time.Duration(m/4) * time.Hour)) {
						t.Fatalf("the hour of %v begins at %v", at, hour)
					}
				}
			}
		}
	}
}

func TestBoundsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	require.Len(t, bounds(t, policies.Hourly(1, time.UTC), now, 20*365*24*time.Hour), 64)
}

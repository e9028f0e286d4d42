package specs

import (
	"sync/atomic"
	"time"
)

// A Unit is a period whose length the calendar decides.
type Unit uint8

// The units.
const (
	Hour Unit = iota + 1
	Day
	Month
)

// String returns the word that policies have for the unit.
func (u Unit) String() string {
	switch u {
	case Hour:
		return "hourly"
	case Day:
		return "daily"
	case Month:
		return "monthly"
	}
	return "unknown"
}

// Nominal returns the usual length, used for bounds and beyond the end of a table only.
func (u Unit) Nominal() time.Duration {
	switch u {
	case Hour:
		return time.Hour
	case Day:
		return 24 * time.Hour
	case Month:
		return 30 * 24 * time.Hour
	}
	return 0
}

// maxBounds is the most bounds of a table, which is sent with each call.
const maxBounds = 64

// A Calendar computes when the hours, days or months of a time zone begin. A store cannot, so the client sends it the bounds. It is safe
// for concurrent use.
type Calendar struct {
	unit Unit
	loc  *time.Location
	memo atomic.Pointer[[]int64] // the longest late list; shorter ones are parts of it
}

// NewCalendar returns a Calendar.
func NewCalendar(u Unit, loc *time.Location) *Calendar { return &Calendar{unit: u, loc: loc} }

// Bounds returns the start times, in microseconds since the Unix epoch, of the window before the one that contains from, of all windows up
// to the one that contains until, and of two more. They are strictly ascending, and at most 64. If until is further away, the list ends
// early, and slots beyond its end cannot be reserved. The caller must not change the slice.
func (c *Calendar) Bounds(from, until int64) []int64 {
	if m := c.memo.Load(); m != nil && from >= (*m)[1] && from < (*m)[2] {
		if b := upTo(*m, until); b != nil {
			return b
		}
	}
	var bounds []int64
	t := c.floor(time.UnixMicro(from))
	t = c.floor(t.Add(-time.Microsecond))
	for more := 2; len(bounds) < maxBounds && more > 0; t = c.next(t) {
		us := t.UnixMicro()
		bounds = append(bounds, us)
		if us > until {
			more--
		}
	}
	c.memo.Store(&bounds)
	return bounds
}

// upTo returns the part of a list that Bounds returns for until; nil if the list is too short.
func upTo(all []int64, until int64) []int64 {
	n := 3
	for n < len(all) && all[n-2] <= until {
		n++
	}
	if all[n-2] <= until && n < maxBounds {
		return nil
	}
	return all[:n:n]
}

// Zone returns the name of the calendar's time zone.
func (c *Calendar) Zone() string { return c.loc.String() }

// floor returns the start of the window that contains t.
func (c *Calendar) floor(t time.Time) time.Time {
	t = t.In(c.loc)
	if c.unit == Hour {
		_, offset := t.Zone()
		local := t.Unix() + int64(offset)
		begin := time.Unix(local-mod(local, 3600)-int64(offset), 0).In(c.loc)
		// If the zone shifted by less than an hour within this hour, the hour begins at the shift.
		if shift, _ := zoneBounds(t); !shift.IsZero() && shift.After(begin) {
			return shift
		}
		return begin
	}
	y, m, d := t.Date()
	if c.unit == Month {
		d = 1
	}
	return firstInstant(c.loc, y, m, d)
}

// next returns the start of the window after the one that begins at t.
func (c *Calendar) next(t time.Time) time.Time {
	t = t.In(c.loc)
	if c.unit == Hour {
		_, offset := t.Zone()
		local := t.Unix() + int64(offset)
		n := time.Unix(local-mod(local, 3600)+3600-int64(offset), 0).In(c.loc)
		return c.floor(n)
	}
	y, m, d := t.Date()
	if c.unit == Month {
		return firstInstant(c.loc, y, m+1, 1)
	}
	return firstInstant(c.loc, y, m, d+1)
}

// firstInstant returns the first instant of a civil day. Midnight may not exist (clocks that jump from 23:59 to 01:00), or occur twice
// (clocks that go back over it); time.Date does not specify which one it returns.
func firstInstant(loc *time.Location, y int, m time.Month, d int) time.Time {
	civil := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	t := civil.Add(-36 * time.Hour).In(loc) // no zone is further than 26 hours from UTC
	for {
		begin, end := zoneBounds(t)
		_, offset := t.Zone()
		at := civil.Add(-time.Duration(offset) * time.Second)
		if !begin.IsZero() && at.Before(begin) {
			return begin // the civil time was skipped: the day begins with the jump
		}
		if end.IsZero() || at.Before(end) {
			return at.In(loc)
		}
		t = end
	}
}

// zoneBounds returns times between which, at least, a zone keeps its offset at t; zero times are no bounds. Beyond the shifts that a zone's
// data lists, t.ZoneBounds also returns the turns of years in UTC, where nothing shifts, and gives all years 365 days: on the last day of a
// leap year, its end is not after t.
func zoneBounds(t time.Time) (begin, end time.Time) {
	begin, end = t.ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		end = end.Add(24 * time.Hour)
	}
	_, offset := t.Zone()
	if _, before := begin.Add(-time.Second).Zone(); before == offset {
		begin = time.Time{}
	}
	return begin, end
}

func mod(a, b int64) int64 { return ((a % b) + b) % b }

// SameZone reports whether two time zones have the same offsets and shift at the same times, from 2000 to 2100.
func SameZone(a, b *time.Location) bool {
	if a == nil || b == nil {
		return a == b
	}
	for t := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); t.Year() < 2100; {
		inA, inB := t.In(a), t.In(b)
		_, offsetA := inA.Zone()
		_, offsetB := inB.Zone()
		_, endA := zoneBounds(inA)
		_, endB := zoneBounds(inB)
		if offsetA != offsetB || !endA.Equal(endB) {
			return false
		}
		if endA.IsZero() {
			break
		}
		t = endA.UTC()
	}
	return true
}

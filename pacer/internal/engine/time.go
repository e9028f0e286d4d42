package engine

import "time"

// Micros converts a duration to store time, rounding down: for what a caller allows.
func Micros(d time.Duration) int64 { return d.Microseconds() }

// MicrosUp converts a duration to store time, rounding up: for what a caller must wait.
func MicrosUp(d time.Duration) int64 {
	us := d.Microseconds()
	if d > time.Duration(us)*time.Microsecond {
		us++
	}
	return us
}

package policies_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
)

func TestLeave(t *testing.T) {
	t.Parallel()
	type counts struct{ limit, remaining, used int64 } // −1: not reported
	feedback := func(c counts) policies.Feedback {
		return policies.Feedback{
			Limit: policies.Reported(c.limit), Window: time.Minute, Remaining: policies.Reported(c.remaining), Used: policies.Reported(c.used),
			Reset: time.Second, Source: "x",
		}
	}
	leave := func(n int64) func(policies.Profile) policies.Profile {
		return func(p policies.Profile) policies.Profile { return p.Leave(n) }
	}
	percent := func(n int) func(policies.Profile) policies.Profile {
		return func(p policies.Profile) policies.Profile { return p.LeavePercent(n) }
	}
	for _, c := range []struct {
		with           func(policies.Profile) policies.Profile
		reported, want counts
	}{
		{leave(10), counts{100, 40, -1}, counts{90, 30, -1}},
		{leave(10), counts{100, 10, -1}, counts{90, 0, -1}},
		{leave(10), counts{100, 0, -1}, counts{90, 0, -1}},
		{leave(10), counts{10, 9, -1}, counts{1, 0, -1}},
		{leave(10), counts{0, 0, -1}, counts{0, 0, -1}},
		{leave(10), counts{-1, 40, -1}, counts{-1, 30, -1}},
		{leave(10), counts{100, -1, 60}, counts{90, -1, 60}},
		{leave(10), counts{100, -1, -1}, counts{100, -1, -1}}, // a rate, without a statement of what is left
		{leave(10), counts{-1, -1, -1}, counts{-1, -1, -1}},
		{leave(0), counts{100, 40, -1}, counts{100, 40, -1}},
		{leave(math.MaxInt64), counts{100, 40, -1}, counts{1, 0, -1}},
		{percent(50), counts{100, 60, -1}, counts{50, 10, -1}},
		{percent(50), counts{101, 60, -1}, counts{50, 9, -1}},
		{percent(50), counts{100, -1, -1}, counts{50, -1, -1}},
		{percent(50), counts{100, -1, 30}, counts{50, -1, 30}},
		{percent(50), counts{-1, 41, -1}, counts{-1, 20, -1}},
		{percent(99), counts{10, 10, -1}, counts{1, 0, -1}},
		{percent(0), counts{101, 60, -1}, counts{101, 60, -1}},
		{percent(99), counts{math.MaxInt64, math.MaxInt64, -1}, counts{math.MaxInt64 / 100, math.MaxInt64 / 100, -1}},
	} {
		reported := []policies.Feedback{feedback(c.reported)}
		p := c.with(policies.Profile{
			Read: func(*policies.Reply) policies.Reading {
				return policies.Reading{Feedback: reported, Verdict: policies.Spent}
			},
			ReadEnd: func(*policies.Reply) []policies.Feedback { return reported },
		})
		want := []policies.Feedback{feedback(c.want)}
		require.Equal(t, policies.Reading{Feedback: want, Verdict: policies.Spent}, p.Read(nil), c)
		require.Equal(t, want, p.ReadEnd(nil), c)
		require.Equal(t, []policies.Feedback{feedback(c.reported)}, reported, "what the profile returned is its own")
	}
}

func TestBackOff(t *testing.T) {
	t.Parallel()
	reported := []policies.Feedback{{Refused: true}, {Refused: true, Wait: time.Second}, {Remaining: policies.Reported(0)}}
	p := policies.Profile{Read: func(*policies.Reply) policies.Reading { return policies.Reading{Feedback: reported} }}.BackOff(time.Minute)
	require.Equal(t, []policies.Feedback{{Refused: true, Wait: time.Minute, Certain: true}, reported[1], reported[2]}, p.Read(nil).Feedback)
	require.Nil(t, p.ReadEnd)
	require.Nil(t, policies.Profile{}.BackOff(time.Minute).Read)
}

func TestNumbersThatLeaveNothingSensiblePanic(t *testing.T) {
	t.Parallel()
	var p policies.Profile
	for message, f := range map[string]func(){
		"policies: Leave is -1: give what other programs need, 0 or more":                      func() { p.Leave(-1) },
		"policies: LeavePercent is 100: give the percentage that other programs need, 0 to 99": func() { p.LeavePercent(100) },
		"policies: LeavePercent is -1: give the percentage that other programs need, 0 to 99":  func() { p.LeavePercent(-1) },
		"policies: BackOff is 0s: give how long calls wait, more than 0":                       func() { p.BackOff(0) },
	} {
		require.PanicsWithError(t, message, f)
	}
}

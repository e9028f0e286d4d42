package bench_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/policies"
)

const ms = time.Millisecond

// slotsPicture shows what a rate and its burst let go.
func slotsPicture(t *testing.T) *timeline {
	t.Helper()
	l := &timeline{
		title: "Six calls ask at 0 s, and six at 1.2 s", to: 2 * time.Second, step: 200 * ms, names: 150, keys: keysOf(blue),
	}
	for _, r := range []struct {
		code, about string
		stack       []policies.Policy
	}{
		{"PerSecond(10)", "one each 100 ms", []policies.Policy{policies.PerSecond(10)}},
		{"PerSecond(10).Burst(4)", "four at once after idling", []policies.Policy{policies.PerSecond(10).Burst(4)}},
	} {
		calls := perform(t, r.stack, func(s *scene) {
			s.ask(6, "", 0)
			s.at(1200 * ms)
			s.ask(6, "", 0)
		})
		one := row{name: r.code, about: r.about, code: true}
		one.spans, one.signs = lived(calls, blue)
		l.rows = append(l.rows, oneRing(one))
	}
	return l
}

// windowsPicture shows five policies for "10 in 10 seconds", with calls that come in a crowd.
func windowsPicture(t *testing.T) *timeline {
	t.Helper()
	const window = 10 * time.Second
	l := &timeline{
		title: "“10 per 10 seconds”, said in five ways: thirty calls ask at 8 s", to: 31 * time.Second, step: time.Second * 5, names: 172,
		keys: []key{{sign{0, blue, going}, "goes"}, {sign{0, red, nil}, "the ten seconds in which most go"}},
	}
	for _, r := range []struct {
		code   string
		policy policies.Policy
	}{
		{"Rate(10, 10*time.Second)", policies.Rate(10, window)},
		{"  … .Burst(10)", policies.Rate(10, window).Burst(10)},
		{"Fixed(10, 10*time.Second)", policies.Fixed(10, window)},
		{"Sliding(10, 10*time.Second)", policies.Sliding(10, window)},
		{"AtMost(10, 10*time.Second)", policies.AtMost(10, window)},
	} {
		calls := perform(t, []policies.Policy{r.policy}, func(s *scene) {
			s.at(8 * time.Second)
			s.ask(30, "", 0)
		})
		at := went(calls)
		from, most := busiest(at, window)
		one := row{name: r.code, about: fmt.Sprintf("up to %d in ten seconds", most), code: true, room: 13}
		one.spans = []span{{from: from, to: from + window, form: brace, colour: red, label: fmt.Sprint(most)}}
		at = slices.DeleteFunc(at, func(d time.Duration) bool { return d > l.to })
		one.signs = gone(at, blue)
		l.rows = append(l.rows, one)
	}
	return l
}

// busiest returns when the window of this length begins in which most calls go, and how many those are.
func busiest(at []time.Duration, window time.Duration) (from time.Duration, most int) {
	for i := range at {
		n := 0
		for _, d := range at[i:] {
			if d < at[i]+window {
				n++
			}
		}
		if n > most {
			from, most = at[i], n
		}
	}
	return from, most
}

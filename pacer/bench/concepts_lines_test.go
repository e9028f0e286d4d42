package bench_test

import (
	"context"
	"fmt"
	"image/color"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// Colours of the tenants, in all pictures.
var (
	acme        = orange
	beta        = blue
	core        = green
	slackColour = color.RGBA{0xC9, 0xE2, 0xF2, 0xFF}
)

// oneRing leaves one ring for simultaneous calls.
func oneRing(r row) row {
	var signs []sign
	for _, s := range r.signs {
		if s.form != asking || !slices.Contains(signs, s) {
			signs = append(signs, s)
		}
	}
	r.signs = signs
	return r
}

// pausePicture shows what happens to calls that sleep when the upstream answers "slow down" to one of them.
func pausePicture(t *testing.T) *timeline {
	t.Helper()
	const reported, lasts = 450 * ms, 800 * ms
	stack := []policies.Policy{policies.PerSecond(10).Per("tenant").Named("tenant")}
	calls := perform(t, stack, func(s *scene) {
		s.ask(12, "acme", 0)
		s.ask(18, "beta", 0)
		s.at(reported)
		f := policies.Feedback{Source: "Retry-After", Policies: []string{"tenant"}, Refused: true, Wait: lasts}
		require.NoError(t, s.p.Report(t.Context(), f, pacer.Scope("tenant", "acme")))
	})
	l := &timeline{
		title: "A reply to acme says “Retry-After” at 0.45 s", to: 2 * time.Second, step: 200 * ms, names: 110,
		keys:  []key{{sign{0, acme, going}, "goes"}, {sign{0, red, lost}, "had its slot here, and gave it back"}, {sign{0, pale, nil}, "pause"}},
		lines: []instant{{reported, ""}},
	}
	for _, who := range []struct {
		name, about string
		colour      color.Color
	}{{"acme", "12 calls asleep", acme}, {"beta", "18 calls asleep", beta}} {
		r := row{name: who.name, about: who.about}
		for _, c := range of(calls, who.name) {
			if c.slot != c.goes {
				r.signs = append(r.signs, sign{c.slot, red, lost})
			}
		}
		r.signs = append(r.signs, gone(went(of(calls, who.name)), who.colour)...)
		if who.name == "acme" {
			r.room = 12
			r.spans = []span{{from: reported, to: reported + lasts, form: shade, colour: pale, label: "nothing goes"}}
		}
		l.rows = append(l.rows, r)
	}
	return l
}

// permitsPicture shows calls in flight, and those that queue for their permits.
func permitsPicture(t *testing.T) *timeline {
	t.Helper()
	runs := []int{900, 400, 1300, 700, 300, 1100, 500, 800} // milliseconds
	stack := []policies.Policy{policies.InFlight(3)}
	calls := perform(t, stack, func(s *scene) {
		for i, r := range runs {
			s.at(time.Duration(i) * 80 * ms)
			s.ask(1, fmt.Sprint("call ", i+1), time.Duration(r)*ms)
		}
	})
	l := &timeline{
		title: "InFlight(3): never a fourth at once, and first come, first served", to: 2800 * ms, step: 400 * ms, names: 50,
		keys: []key{{sign{0, blue, asking}, "asks"}, {sign{0, waitBy, nil}, "is queued"}, {sign{0, blue, nil}, "in flight"}},
	}
	for _, c := range calls {
		r := row{name: c.who, signs: []sign{{c.asks, blue, asking}}}
		r.spans = []span{{from: c.asks, to: c.goes}, {from: c.goes, to: c.over, form: bar, colour: blue}}
		l.rows = append(l.rows, r)
	}
	return l
}

// lanesPicture shows a batch that makes do with a part of a rate.
func lanesPicture(t *testing.T) *timeline {
	t.Helper()
	// In milliseconds; so many that none of their part is lent: lending depends on which call comes first in the same microsecond.
	asks := []int{337, 613, 619, 1031, 1033, 1407, 1409, 1413, 1843, 1847, 1853, 2219, 2441, 2443}
	sixty := func(policy policies.Policy, batch ...pacer.Option) []*played {
		return perform(t, []policies.Policy{policy}, func(s *scene) {
			s.ask(60, "batch", 0, batch...)
			for _, at := range asks {
				s.at(time.Duration(at) * ms)
				s.ask(1, "others", 0)
			}
		})
	}
	rate := policies.PerSecond(20).Burst(4)
	l := &timeline{
		title: "20/s with a burst of 4: sixty batch calls ask at 0 s, others now and then", to: 4000 * ms, step: 500 * ms, names: 110, keys: keysOf(grey),
	}
	for _, one := range []struct {
		about string
		calls []*played
	}{
		{"without lanes", sixty(rate)},
		{"with a lane", sixty(rate.Lane("batch", 80), pacer.Lane("batch"))},
	} {
		batch := row{name: "batch", about: one.about}
		batch.signs = gone(went(of(one.calls, "batch")), acme)
		others := row{name: "others", about: one.about}
		others.spans, others.signs = lived(of(one.calls, "others"), beta)
		l.rows = append(l.rows, batch, others)
	}
	return l
}

// fairPicture shows tenants that share a rate by their weights. One comes later.
func fairPicture(t *testing.T) *timeline {
	t.Helper()
	const comes, leaves, ends = 1500 * ms, 3 * time.Second, 4500 * ms
	names := []string{"acme", "beta", "core"}
	calls := perform(t, []policies.Policy{policies.PerSecond(12).Burst(1).Fair("tenant")}, func(s *scene) {
		ctx, cancel := context.WithTimeout(s.t.Context(), ends-ms)
		defer cancel()
		s.askUntil(ctx, 60, names[0], 0)
		s.askUntil(ctx, 60, names[1], 0, pacer.Weight(3))
		s.at(comes)
		brief, gone := context.WithTimeout(ctx, leaves-comes)
		defer gone()
		s.askUntil(brief, 60, names[2], 0, pacer.Weight(2))
		s.wg.Wait()
	})
	l := &timeline{
		title: "12/s with Burst(1) shared fairly: each tenant always has queued calls", to: ends, step: 500 * ms, names: 76,
	}
	for i, who := range names {
		r := row{name: who, about: fmt.Sprint("weight ", []int{1, 3, 2}[i]), room: 16}
		at := went(of(calls, who))
		colour := []color.Color{acme, beta, core}[i]
		r.signs = gone(at, colour)
		for from := time.Duration(0); from < ends; from += comes {
			n := 0
			for _, d := range at {
				if d >= from && d < from+comes {
					n++
				}
			}
			if n > 0 {
				r.spans = append(r.spans, span{from: from + 20*ms, to: from + comes - 20*ms, form: brace, colour: faint, label: fmt.Sprint(n, " calls")})
			}
		}
		l.rows = append(l.rows, r)
	}
	return l
}

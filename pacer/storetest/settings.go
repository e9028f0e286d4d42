package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

// settingsCases are about what a store keeps that operators have set. A store that is not Settable passes them by.
func settingsCases() []Case {
	settable := func(name, rule string, test func(t testing.TB, s *Session, backing store.Settable)) Case {
		return Case{"settings/" + name, rule, func(t testing.TB, s *Session) {
			if backing, ok := s.Store.(store.Settable); ok {
				test(t, s, backing)
			}
		}}
	}
	all := store.Setting{Text: "peak: 5 per 1s\ndaily: 100 daily (UTC)"}
	acme := store.Setting{Policy: peakName, Scope: "acme:7%2F", Text: "peak: 9 per 1s, per tenant+user"}
	return []Case{
		settable("nothing", "nothing is set at first, and looking sets nothing", func(t testing.TB, s *Session, b store.Settable) {
			s.expectSettings(b, 0)
			s.expectSettings(b, 0)
		}),
		settable("set", "what is set is kept, with since when and until when", func(t testing.TB, s *Session, b store.Settable) {
			s.set(b, all)
			s.expectSettings(b, 0, kept(all, 0, specs.MaxPeriod))
			s.At(time.Second)
			brief := acme
			brief.For = time.Minute
			s.set(b, brief)
			want := []store.Setting{kept(all, 0, specs.MaxPeriod), kept(acme, time.Second, time.Minute)}
			s.expectSettings(b, time.Second, want...)
			s.At(2 * time.Second)
			again := all
			again.Text = "peak: 6 per 1s"
			s.set(b, again)
			want[0] = kept(again, 2*time.Second, specs.MaxPeriod)
			s.expectSettings(b, 2*time.Second, want...)
		}),
		settable("unset", "what is unset is gone, and what else is set stays", func(t testing.TB, s *Session, b store.Settable) {
			s.set(b, all, acme)
			s.At(time.Second)
			s.set(b, store.Setting{})
			s.expectSettings(b, time.Second, kept(acme, 0, specs.MaxPeriod))
			s.At(2 * time.Second)
			s.set(b, store.Setting{Policy: acme.Policy, Scope: acme.Scope}, store.Setting{Policy: "never", Scope: "set"})
			s.expectSettings(b, 2*time.Second)
		}),
		settable("expire", "a setting ends by itself, and is not the reason why another one does", func(t testing.TB, s *Session, b store.Settable) {
			brief, long := acme, store.Setting{Policy: peakName, Scope: "globex", Text: "peak: 8 per 1s", For: 3 * time.Hour}
			brief.For = 90 * time.Minute
			s.set(b, brief, long)
			s.At(90*time.Minute - time.Microsecond)
			s.expectSettings(b, 0, kept(brief, 0, 90*time.Minute), kept(long, 0, 3*time.Hour))
			s.At(90 * time.Minute)
			s.expectSettings(b, 0, kept(long, 0, 3*time.Hour))
			s.set(b, all)
			s.At(3 * time.Hour)
			s.expectSettings(b, 90*time.Minute, kept(all, 90*time.Minute, specs.MaxPeriod))
		}),
		settable("upstreams", "settings are of one upstream", func(t testing.TB, s *Session, b store.Settable) {
			s.set(b, all)
			got, err := b.Settings(t.Context(), s.upstream+"-other")
			if err != nil || len(got.All) != 0 || got.Version != 0 {
				t.Fatalf("%+v %v of another upstream, want nothing", got, err)
			}
		}),
		settable("bounded", "there are at most 1024; one more changes nothing at all", func(t testing.TB, s *Session, b store.Settable) {
			many := make([]store.Setting, store.MaxSettings)
			for i := range many {
				many[i] = store.Setting{Policy: peakName, Scope: fmt.Sprintf("t%04d", i), Text: "peak: 1 per 1s", For: time.Hour}
			}
			s.set(b, many...)
			s.At(time.Minute)
			var full *store.SettingsError
			changed := many[0]
			changed.Text = "peak: 2 per 1s"
			for _, changes := range [][]store.Setting{{all}, {changed, all}, {{Policy: peakName, Scope: "t0001"}, all, acme}} {
				if _, err := b.Set(t.Context(), s.upstream, changes); !errors.As(err, &full) {
					t.Fatalf("%v, want a SettingsError", err)
				}
				if got := s.settings(b); len(got.All) != store.MaxSettings || got.All[0].Text != many[0].Text || got.Version != Epoch {
					t.Fatalf("%d settings of version %v, first %+v, want those before", len(got.All), Since(got.Version), got.All[0])
				}
			}
			s.set(b, changed, changed)
			s.set(b, store.Setting{Policy: peakName, Scope: "t0001"}, all)
			if got := s.settings(b); len(got.All) != store.MaxSettings || got.All[0].Text != all.Text || got.All[1].Text != changed.Text {
				t.Fatalf("%d settings, first %+v, want one in the place of another", len(got.All), got.All[:2])
			}
			s.At(2 * time.Hour)
			s.set(b, acme)
			s.expectSettings(b, 2*time.Hour, kept(all, time.Minute, specs.MaxPeriod), kept(acme, 2*time.Hour, specs.MaxPeriod))
		}),
		settable("epoch", "each change begins a new epoch: a process that knows the old one gets an error", func(t testing.TB, s *Session, b store.Settable) {
			backing, ok := s.Store.(store.Shared)
			if !ok {
				return
			}
			st := s.Stack(Key{Policy: policies.Fixed(10, time.Hour).Named(peakName)})
			epoch := s.heartbeat(store.Heartbeat{ID: "a", TTL: time.Minute}).Epoch
			for i, change := range []store.Setting{all, all, acme, {Policy: acme.Policy, Scope: acme.Scope}, {}} {
				st.Epoch = epoch
				s.Go(st, 1, 0)
				s.set(b, change)
				var forgot *store.ForgotError
				err := backing.Reserve(t.Context(), st, []store.Call{{Cost: 1, MaxWait: store.Forever}}, make([]store.Grant, 1))
				if !errors.As(err, &forgot) || forgot.Epoch == epoch || forgot.Epoch.IsZero() {
					t.Fatalf("change %d: %v, want a ForgotError of a later epoch than %v", i, err, epoch)
				}
				epoch = forgot.Epoch
				if left := s.Status(s.Stack(Key{Policy: policies.Fixed(10, time.Hour).Named(peakName)})).Limits[0].Remaining; left != int64(9-i) {
					t.Fatalf("change %d: %d are left, want %d: what was spent still counts, and a refusal charges nothing", i, left, 9-i)
				}
				s.settings(b) // looking is no change
			}
			st.Epoch = epoch
			s.Go(st, 1, 0)
			s.set(b, all)
			st.Epoch.Resets = store.AnyResets
			s.Go(st, 1, 0)
			var forgot *store.ForgotError
			st.Epoch.Began++
			if err := backing.Reserve(t.Context(), st, []store.Call{{Cost: 1}}, make([]store.Grant, 1)); !errors.As(err, &forgot) {
				t.Fatalf("%v, want a ForgotError: another life of the data", err)
			}
		}),
	}
}

// kept returns what a store must keep of a change.
func kept(c store.Setting, since, lasts time.Duration) store.Setting {
	c.Since, c.For = Epoch.Add(since), 0
	c.Until = c.Since.Add(lasts)
	return c
}

// set changes settings.
func (s *Session) set(b store.Settable, changes ...store.Setting) {
	s.t.Helper()
	got, err := b.Set(s.t.Context(), s.upstream, changes)
	if err != nil {
		s.t.Fatalf("Set: %v", err)
	}
	want := s.settings(b)
	if got.Now != s.now || got.Version != want.Version || !slices.Equal(got.All, want.All) {
		s.t.Fatalf("Set returns %+v, want what then holds: %+v", got, want)
	}
}

func (s *Session) settings(b store.Settable) *store.Settings {
	s.t.Helper()
	got, err := b.Settings(s.t.Context(), s.upstream)
	if err != nil {
		s.t.Fatalf("Settings: %v", err)
	}
	return got
}

// expectSettings checks what is set, and when it was changed last; without settings and at 0, never.
func (s *Session) expectSettings(b store.Settable, changed time.Duration, want ...store.Setting) {
	s.t.Helper()
	got := s.settings(b)
	version := Epoch.Add(changed)
	if len(want) == 0 && changed == 0 {
		version = 0
	}
	if got.Now != s.now || got.Version != version || !slices.Equal(got.All, want) {
		s.t.Fatalf("settings are %+v, want %+v of version %v", got, want, Since(version))
	}
}

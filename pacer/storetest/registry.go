package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
)

// registryCases are about what a store knows of those who use it. A store that is no Registry passes them by.
func registryCases() []Case {
	registry := func(name, rule string, test func(t testing.TB, s *Session, r store.Registry)) Case {
		return Case{"registry/" + name, rule, func(t testing.TB, s *Session) {
			if r, ok := s.Store.(store.Registry); ok {
				test(t, s, r)
			}
		}}
	}
	peak := policies.PerSecond(25).Burst(10).Named(peakName).String()
	daily := policies.Daily(1000, time.UTC).String()
	stated := []store.Statement{
		{Name: "60", Limit: 60, Reset: 59 * time.Second, Source: "X-RateLimit", Readings: 9, Since: Epoch, Last: Epoch + 1, Until: Epoch + 2},
		{Policy: peakName, Scope: "tenant=acme", Limit: 30, Window: time.Second, Readings: 1, Since: Epoch, Last: Epoch},
	}
	return []Case{
		registry("nothing", "of an upstream that nobody paces nothing is known", func(t testing.TB, s *Session, r store.Registry) {
			if x := s.index(r); x.Alive != 0 || len(x.Policies) > 0 || len(x.Processes) > 0 || len(x.Went) > 0 {
				t.Fatalf("%+v", x)
			}
		}),
		registry("processes", "a process is known by what it said last, until it leaves or is gone", func(t testing.TB, s *Session, r store.Registry) {
			for i, id := range []string{"b", "a"} {
				s.At(time.Duration(i) * time.Second)
				s.heartbeat(store.Heartbeat{ID: id, TTL: 10 * time.Second})
				s.describe(r, store.About{ID: id, Name: "host/" + id, Policies: []string{peak}})
			}
			s.describe(r, store.About{
				ID: "a", Name: "host/a", Policies: []string{peak},
				Waiting: []store.KeyUse{{Waiting: 2}, {Policy: peakName, Waiting: 3}},
				Keys:    []store.KeyUse{{Policy: "tenant", Scope: "acme%7B", Cost: 7, Waiting: 1}},
				Callers: []store.KeyUse{{Policy: peakName, Scope: "sync/contacts", Cost: 9}},
				Stated:  stated,
			})
			x := s.index(r)
			if x.Alive != 2 || len(x.Processes) != 2 || x.Processes[0].ID != "b" || Since(x.Processes[1].Came) != time.Second {
				t.Fatalf("%+v, want b and then a, which came at 1 s", x)
			}
			a := x.Processes[1]
			want := []store.KeyUse{{Waiting: 2}, {Policy: peakName, Waiting: 3}}
			if a.Name != "host/a" || !slices.Equal(a.Waiting, want) || !slices.Equal(a.Keys, []store.KeyUse{{Policy: "tenant", Scope: "acme%7B", Cost: 7, Waiting: 1}}) {
				t.Fatalf("a says %+v", a)
			}
			if !slices.Equal(a.Callers, []store.KeyUse{{Policy: peakName, Scope: "sync/contacts", Cost: 9}}) {
				t.Fatalf("a says of callers %+v", a.Callers)
			}
			if !slices.Equal(a.Stated, stated) {
				t.Fatalf("to a was stated %+v", a.Stated)
			}
			s.heartbeat(store.Heartbeat{ID: "b"})
			s.describe(r, store.About{ID: "b", Left: true})
			if x = s.index(r); x.Alive != 1 || len(x.Processes) != 1 || x.Processes[0].ID != "a" {
				t.Fatalf("%+v after b left, want a", x)
			}
			s.At(11500 * ms) // a is gone since 11 s
			if x = s.index(r); x.Alive != 0 || len(x.Processes) != 0 || !slices.Equal(x.Policies, []string{peak}) {
				t.Fatalf("%+v after a was gone, want its policies alone", x)
			}
		}),
		registry("policies", "a policy is as it was said last, and out of use when others are said and it is not", func(t testing.TB, s *Session, r store.Registry) {
			s.describe(r, store.About{ID: "a", Policies: []string{peak, daily}})
			s.At(time.Second)
			changed := policies.PerSecond(50).Named(peakName).String()
			s.describe(r, store.About{ID: "b", Policies: []string{changed}})
			if x := s.index(r); !slices.Equal(x.Policies, []string{daily, changed}) {
				t.Fatalf("%q", x.Policies)
			}
			s.At(59 * time.Minute)
			if x := s.index(r); len(x.Policies) != 2 {
				t.Fatalf("%q when nobody has said anything for an hour, want both", x.Policies)
			}
			s.describe(r, store.About{ID: "b", Policies: []string{changed}})
			if x := s.index(r); !slices.Equal(x.Policies, []string{changed}) {
				t.Fatalf("%q, want the one that is in use", x.Policies)
			}
		}),
		registry("went", "what went is summed up by policy and second, over all processes, for two minutes", func(t testing.TB, s *Session, r store.Registry) {
			second := int64(s.index(r).Now) / 1_000_000
			went := func(second, cost int64) store.Went {
				return store.Went{Policy: peakName, Second: second, What: store.Second{Cost: cost, Waits: 1, Waited: 1500 * time.Microsecond}}
			}
			s.describe(r, store.About{ID: "a", Went: []store.Went{went(second, 3), went(second+1, 1)}})
			s.describe(r, store.About{ID: "b", Went: []store.Went{went(second, 4)}})
			want := []store.Went{
				{Policy: peakName, Second: second, What: store.Second{Cost: 7, Waits: 2, Waited: 3 * time.Millisecond}},
				{Policy: peakName, Second: second + 1, What: store.Second{Cost: 1, Waits: 1, Waited: 1500 * time.Microsecond}},
			}
			if x := s.index(r); !slices.Equal(x.Went, want) {
				t.Fatalf("%+v, want %+v", x.Went, want)
			}
			correct := func(cost int64) store.Went {
				return store.Went{Policy: peakName, Second: second, What: store.Second{Cost: cost}}
			}
			s.describe(r, store.About{ID: "b", Went: []store.Went{correct(-3)}})
			if x := s.index(r); x.Went[0].What.Cost != 4 || x.Went[0].What.Waits != 2 {
				t.Fatalf("%+v, want 4 of the 7: a call has cost 3 less than it was taken for", x.Went)
			}
			s.describe(r, store.About{ID: "b", Went: []store.Went{correct(-9)}})
			if x := s.index(r); x.Went[0].What.Cost != 0 {
				t.Fatalf("%+v, want no less than nothing", x.Went)
			}
			s.At(110 * time.Second)
			s.describe(r, store.About{ID: "a", Went: []store.Went{went(second+110, 2)}})
			if x := s.index(r); len(x.Went) != 3 {
				t.Fatalf("%+v, want what went up to two minutes ago: large fleets tell late", x.Went)
			}
			s.At(128 * time.Second)
			s.describe(r, store.About{ID: "a", Went: []store.Went{went(second+128, 5), went(second, 9)}})
			if x := s.index(r); len(x.Went) != 2 || x.Went[1].Second != second+128 || x.Went[1].What.Cost != 5 {
				t.Fatalf("%+v, want the new second in place of the old one, which stays over", x.Went)
			}
			s.At(5 * time.Minute)
			s.describe(r, store.About{ID: "a"})
			if x := s.index(r); len(x.Went) != 0 {
				t.Fatalf("%+v after minutes, want nothing", x.Went)
			}
		}),
		registry("bounded", "it does not grow without end, and what is in it stays", func(t testing.TB, s *Session, r store.Registry) {
			s.describe(r, store.About{ID: "a", Policies: []string{peak}})
			all := make([]string, 1000)
			for round := range 40 {
				for i := range all {
					all[i] = fmt.Sprintf("p%d: 1 per 1s, burst 1", round*len(all)+i)
				}
				s.describe(r, store.About{ID: "b", Policies: all})
			}
			s.describe(r, store.About{ID: "a", Policies: []string{peak}})
			x := s.index(r)
			if n := len(x.Policies); n > 33_000 || !slices.Contains(x.Policies, peak) {
				t.Fatalf("%d policies", n)
			}
		}),
		registry("versions", "what each process has is known, from whom it is, and how many versions there are", func(t testing.TB, s *Session, r store.Registry) {
			fast := policies.PerSecond(50).Named(peakName).String()
			about := func(id, source string, texts ...string) store.About {
				s.heartbeat(store.Heartbeat{ID: id, TTL: time.Hour})
				return store.About{ID: id, Every: 3 * time.Second, Source: source, Policies: texts}
			}
			want := func(n, got int, when string) {
				t.Helper()
				if got != n {
					t.Fatalf("%d versions %s, want %d", got, when, n)
				}
			}
			want(1, s.versions(r, about("a", "", peak, daily)), "of one process")
			want(1, s.versions(r, about("b", "", daily, peak)), "in another order")
			want(2, s.versions(r, about("c", "set at noon", fast, daily)), "when another number is set")
			want(3, s.versions(r, about("d", "")), "when one has none")
			x := s.index(r)
			for i, one := range []struct {
				source string
				texts  []string
			}{{"", []string{peak, daily}}, {"", []string{peak, daily}}, {"set at noon", []string{fast, daily}}, {"", []string{}}} {
				p := x.Processes[i]
				slices.Sort(p.Policies)
				slices.Sort(one.texts)
				if p.Source != one.source || p.Policies == nil || !slices.Equal(p.Policies, one.texts) || p.Version != store.VersionOf(one.texts) {
					t.Fatalf("%s has %q of version %q from %q, want %q from %q", p.ID, p.Policies, p.Version, p.Source, one.texts, one.source)
				}
			}
			want(3, s.versions(r, store.About{ID: "d", Left: true, Every: 3 * time.Second}), "right after one left")
			s.At(5 * time.Second)
			want(3, s.versions(r, about("c", "", fast, daily)), "while all may yet report")
			s.At(8 * time.Second)
			want(1, s.versions(r, about("c", "", fast, daily)), "when others have not reported for two rounds")
			want(2, s.versions(r, about("a", "", peak, daily)), "when one still has what it had")
		}),
		registry("versions-bounded", "of many versions a bounded number counts", func(t testing.TB, s *Session, r store.Registry) {
			most := 0
			for i := range 100 {
				text := policies.PerSecond(int64(i + 1)).Named(peakName).String()
				most = max(most, s.versions(r, store.About{ID: fmt.Sprint(i), Every: 3 * time.Second, Policies: []string{text}}))
			}
			if most < 8 || most > 64 {
				t.Fatalf("%d versions are counted of 100", most)
			}
		}),
		registry("upstreams", "upstreams are known by name for as long as their policies", func(t testing.TB, s *Session, r store.Registry) {
			s.describe(r, store.About{ID: "a", Policies: []string{peak}})
			names, err := r.Upstreams(t.Context())
			if err != nil || !slices.Contains(names, s.upstream) {
				t.Fatalf("%q %v, want %q among them", names, err, s.upstream)
			}
			s.At(3 * time.Hour)
			if names, err = r.Upstreams(t.Context()); err != nil || slices.Contains(names, s.upstream) {
				t.Fatalf("%q %v after its time", names, err)
			}
		}),
	}
}

// peakName is a policy of these cases.
const peakName = "peak"

// keepFor is for how long policies are remembered in these cases.
const keepFor = 2 * time.Hour

func (s *Session) describe(r store.Registry, a store.About) {
	s.t.Helper()
	s.versions(r, a)
}

// versions describes a process, and returns how many versions of the policies there are.
func (s *Session) versions(r store.Registry, a store.About) int {
	s.t.Helper()
	a.Keep = keepFor
	n, err := r.Describe(s.t.Context(), s.upstream, a)
	if err != nil {
		s.t.Fatalf("Describe: %v", err)
	}
	return n
}

func (s *Session) index(r store.Registry) *store.Index {
	s.t.Helper()
	x, err := r.Index(s.t.Context(), s.upstream)
	if err != nil {
		s.t.Fatalf("Index: %v", err)
	}
	return x
}

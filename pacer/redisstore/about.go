package redisstore

import (
	"encoding/json"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// A description is what a process says of itself, as it is kept. Names are short, for there may be many.
type description struct {
	Name    string `json:"n"`
	Version string `json:"v,omitempty"` // of its policies
	Source  string `json:"f,omitempty"` // whom they are from
	Waiting []use  `json:"w,omitempty"`
	Keys    []use  `json:"k,omitempty"`
	Stated  []said `json:"s,omitempty"`

	Learned []learned `json:"l,omitempty"`
}

type said struct {
	Policy string        `json:"p,omitempty"`
	Limit  string        `json:"l,omitempty"`
	Scope  string        `json:"s,omitempty"`
	Source string        `json:"f,omitempty"`
	Until  store.Instant `json:"u"`
}

// learned is what replies stated of a limit. Times are in microseconds.
type learned struct {
	Policy   string `json:"p,omitempty"`
	Name     string `json:"n,omitempty"`
	Source   string `json:"f,omitempty"`
	Limit    int64  `json:"l,omitempty"`
	Window   int64  `json:"w,omitempty"`
	Reset    int64  `json:"r,omitempty"`
	Readings int64  `json:"c"`
	Since    int64  `json:"s"`
	Last     int64  `json:"a"`
}

type use struct {
	Policy  string `json:"p,omitempty"`
	Scope   string `json:"s,omitempty"`
	Cost    int64  `json:"c,omitempty"`
	Waiting int64  `json:"w,omitempty"`
}

// Bounds of what is believed of a description.
const (
	maxDescription = 16 << 10
	maxUses        = 256
	maxVersion     = 32
	maxSource      = 512
	maxLearned     = 16
	maxStated      = 64
)

func describe(a *store.About, version string) (string, error) {
	source := a.Source[:min(len(a.Source), maxSource)]
	d := description{
		Name: a.Name, Version: version, Source: source, Waiting: toUses(a.Waiting), Keys: toUses(a.Keys), Learned: toLearned(a.Learned),
	}
	for _, s := range a.Stated {
		d.Stated = append(d.Stated, said{Policy: s.Policy, Limit: s.Limit, Scope: s.Scope, Source: s.Source, Until: s.Until})
	}
	b, err := json.Marshal(d)
	return string(b), err
}

// parseAbout reads a description, and which version of the policies its process has. Of one that cannot be read, nothing is known.
func parseAbout(s string) (about store.About, version string) {
	var d description
	if len(s) > maxDescription || json.Unmarshal([]byte(s), &d) != nil || len(d.Version) > maxVersion || len(d.Source) > 4*maxSource {
		return store.About{}, ""
	}
	about = store.About{Name: d.Name, Source: d.Source, Waiting: fromUses(d.Waiting), Keys: fromUses(d.Keys), Learned: fromLearned(d.Learned)}
	for _, s := range d.Stated[:min(len(d.Stated), maxStated)] {
		about.Stated = append(about.Stated, store.Statement{Policy: s.Policy, Limit: s.Limit, Scope: s.Scope, Source: s.Source, Until: s.Until})
	}
	return about, d.Version
}

func toUses(all []store.KeyUse) []use {
	us := make([]use, 0, len(all))
	for _, k := range all {
		us = append(us, use{Policy: k.Policy, Scope: k.Scope, Cost: k.Cost, Waiting: k.Waiting})
	}
	return us
}

func fromUses(all []use) []store.KeyUse {
	const most = 1 << 40 // so that sums do not overflow
	var ks []store.KeyUse
	for _, u := range all[:min(len(all), maxUses)] {
		if 0 <= u.Cost && u.Cost < most && 0 <= u.Waiting && u.Waiting < most {
			ks = append(ks, store.KeyUse{Policy: u.Policy, Scope: u.Scope, Cost: u.Cost, Waiting: u.Waiting})
		}
	}
	return ks
}

func toLearned(all []store.Learned) []learned {
	ls := make([]learned, 0, len(all))
	for _, l := range all {
		source := l.Source[:min(len(l.Source), maxSource/maxLearned)]
		ls = append(ls, learned{
			l.Policy, l.Name, source, l.Limit, l.Window.Microseconds(), l.Reset.Microseconds(), l.Readings, int64(l.Since), int64(l.Last),
		})
	}
	return ls
}

func fromLearned(all []learned) []store.Learned {
	const most = 1 << 53
	var ls []store.Learned
	for _, l := range all[:min(len(all), maxLearned)] {
		valid := true
		for _, n := range []int64{l.Limit, l.Window, l.Reset, l.Readings, l.Since, l.Last} {
			valid = valid && 0 <= n && n < most
		}
		if valid {
			ls = append(ls, store.Learned{
				Policy: l.Policy, Name: l.Name, Source: l.Source, Limit: l.Limit, Window: time.Duration(l.Window) * time.Microsecond,
				Reset: time.Duration(l.Reset) * time.Microsecond, Readings: l.Readings, Since: store.Instant(l.Since), Last: store.Instant(l.Last),
			})
		}
	}
	return ls
}

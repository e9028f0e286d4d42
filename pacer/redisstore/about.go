package redisstore

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

// A description is what a process reports of itself, as it is stored. Names are short, for there may be many.
type description struct {
	Name    string `json:"n"`
	Version string `json:"v,omitempty"` // of its policies
	Source  string `json:"f,omitempty"` // whom they are from
	Waiting []use  `json:"w,omitempty"`
	Keys    []use  `json:"k,omitempty"`
	Callers []use  `json:"c,omitempty"`
	Stated  []said `json:"s,omitempty"`
}

// said is an upstream's statement about a limit. Times are in microseconds.
type said struct {
	Policy   string `json:"p,omitempty"`
	Name     string `json:"l,omitempty"`
	Scope    string `json:"s,omitempty"`
	Source   string `json:"f,omitempty"`
	Limit    int64  `json:"n,omitempty"`
	Window   int64  `json:"w,omitempty"`
	Reset    int64  `json:"r,omitempty"`
	Readings int64  `json:"c,omitempty"`
	Since    int64  `json:"b,omitempty"`
	Last     int64  `json:"a,omitempty"`
	Until    int64  `json:"u"`
}

type use struct {
	Policy  string `json:"p,omitempty"`
	Scope   string `json:"s,omitempty"`
	Cost    int64  `json:"c,omitempty"`
	Waiting int64  `json:"w,omitempty"`
}

// Bounds of a description.
const (
	maxDescription = 32 << 10
	maxUses        = 256
	maxVersion     = 32
	maxSource      = 512
	maxStated      = 64
	maxField       = 64 // of a reply: where something was stated
)

func describe(a *store.About, version string) (string, error) {
	source := a.Source[:min(len(a.Source), maxSource)]
	d := description{
		Name: a.Name, Version: version, Source: source, Waiting: toUses(a.Waiting), Keys: toUses(a.Keys), Callers: toUses(a.Callers), Stated: toStated(a.Stated),
	}
	b, err := json.Marshal(d)
	return string(b), err
}

// parseAbout reads a description, and the version of its process's policies; nothing from an unreadable one.
func parseAbout(s string) (about store.About, version string) {
	var d description
	if len(s) > maxDescription || json.Unmarshal([]byte(s), &d) != nil || len(d.Version) > maxVersion || len(d.Source) > 4*maxSource {
		return store.About{}, ""
	}
	about = store.About{Name: d.Name, Source: d.Source, Waiting: fromUses(d.Waiting), Keys: fromUses(d.Keys), Callers: fromUses(d.Callers), Stated: fromStated(d.Stated)}
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

func toStated(all []store.Statement) []said {
	ss := make([]said, 0, len(all))
	for _, s := range all {
		ss = append(ss, said{
			s.Policy, s.Name, s.Scope, s.Source[:min(len(s.Source), maxField)], s.Limit, s.Window.Microseconds(), s.Reset.Microseconds(), s.Readings,
			int64(s.Since), int64(s.Last), int64(s.Until),
		})
	}
	return ss
}

func fromStated(all []said) []store.Statement {
	const most = 1 << 53
	var ss []store.Statement
	for _, s := range all[:min(len(all), maxStated)] {
		if slices.ContainsFunc([]int64{s.Limit, s.Window, s.Reset, s.Readings, s.Since, s.Last, s.Until}, func(n int64) bool { return n < 0 || n >= most }) {
			continue
		}
		ss = append(ss, store.Statement{
			Policy: s.Policy, Name: s.Name, Scope: s.Scope, Source: s.Source, Limit: s.Limit, Window: time.Duration(s.Window) * time.Microsecond,
			Reset: time.Duration(s.Reset) * time.Microsecond, Readings: s.Readings, Since: store.Instant(s.Since), Last: store.Instant(s.Last),
			Until: store.Instant(s.Until),
		})
	}
	return ss
}

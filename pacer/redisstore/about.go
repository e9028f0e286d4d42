package redisstore

import (
	"encoding/json"
	"slices"

	"github.com/headway-go/headway/pacer/store"
)

// A description is what a process reports of itself, as it is stored. Names are short, for there may be many.
type description struct {
	Name    string            `json:"n"`
	Version string            `json:"v,omitempty"` // of its policies
	Source  string            `json:"f,omitempty"` // whom they are from
	Waiting []store.KeyUse    `json:"w,omitempty"`
	Keys    []store.KeyUse    `json:"k,omitempty"`
	Callers []store.KeyUse    `json:"c,omitempty"`
	Stated  []store.Statement `json:"s,omitempty"`
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
	stated := slices.Clone(a.Stated)
	for i := range stated {
		stated[i].Source = stated[i].Source[:min(len(stated[i].Source), maxField)]
	}
	b, err := json.Marshal(description{a.Name, version, a.Source[:min(len(a.Source), maxSource)], a.Waiting, a.Keys, a.Callers, stated})
	return string(b), err
}

// parseAbout reads a description, and the version of its process's policies; nothing from an unreadable one.
func parseAbout(s string) (about store.About, version string) {
	var d description
	if len(s) > maxDescription || json.Unmarshal([]byte(s), &d) != nil || len(d.Version) > maxVersion || len(d.Source) > 4*maxSource {
		return store.About{}, ""
	}
	stated := slices.DeleteFunc(d.Stated[:min(len(d.Stated), maxStated)], func(s store.Statement) bool {
		return min(s.Limit, int64(s.Window), int64(s.Reset), s.Readings, int64(s.Since), int64(s.Last), int64(s.Until)) < 0 ||
			max(s.Limit, s.Readings, int64(s.Since), int64(s.Last), int64(s.Until)) >= maxInstant
	})
	return store.About{Name: d.Name, Source: d.Source, Waiting: sound(d.Waiting), Keys: sound(d.Keys), Callers: sound(d.Callers), Stated: stated}, d.Version
}

// sound returns the uses whose numbers are so small that their sums do not overflow.
func sound(all []store.KeyUse) []store.KeyUse {
	const most = 1 << 40
	return slices.DeleteFunc(all[:min(len(all), maxUses)], func(u store.KeyUse) bool { return min(u.Cost, u.Waiting) < 0 || max(u.Cost, u.Waiting) >= most })
}

package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/pacer/store"
)

var _ store.Settable = (*Store)(nil)

// Settings implements [store.Settable].
func (m *Store) Settings(_ context.Context, upstream string) (*store.Settings, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.settingsOf(upstream), nil
}

// settingsOf returns what is set. The caller holds mu.
func (m *Store) settingsOf(upstream string) *store.Settings {
	s := &store.Settings{Now: m.Now()}
	m.allowances.Range(func(key, _ any) bool {
		if of := key.([2]string); of[0] == upstream { //nolint:forcetypeassert // all are of that type
			s.Allowances = append(s.Allowances, of[1])
		}
		return true
	})
	if known := m.settings[upstream]; known != nil {
		s.Version = known.Version
		s.All = slices.DeleteFunc(slices.Clone(known.All), func(one store.Setting) bool { return one.Until <= s.Now })
	}
	return s
}

// Set implements [store.Settable].
func (m *Store) Set(_ context.Context, upstream string, changes []store.Setting) (*store.Settings, error) {
	s, err := m.set(upstream, changes)
	if err == nil {
		m.notify(upstream, []store.Change{{Kind: store.EpochBegan}})
	}
	return s, err
}

func (m *Store) set(upstream string, changes []store.Setting) (*store.Settings, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.settingsOf(upstream)
	for _, c := range changes {
		s.All = slices.DeleteFunc(s.All, func(one store.Setting) bool { return one.Policy == c.Policy && one.Scope == c.Scope })
		if c.Text == "" {
			continue
		}
		lasts := c.For
		if lasts <= 0 {
			lasts = store.ForGood
		}
		s.All = append(s.All, store.Setting{Policy: c.Policy, Scope: c.Scope, Text: c.Text, Since: s.Now, Until: s.Now.Add(lasts.Round(time.Microsecond))})
	}
	if len(s.All) > store.MaxSettings {
		return nil, &store.SettingsError{}
	}
	store.SortSettings(s.All)
	s.Version = s.Now
	if m.settings == nil {
		m.settings = make(map[string]*store.Settings)
	}
	m.settings[upstream] = s
	kept := *s
	kept.All = slices.Clone(s.All)
	return &kept, nil
}

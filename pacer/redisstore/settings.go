package redisstore

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/headway-go/headway/pacer/internal/engine"
	"github.com/headway-go/headway/pacer/internal/scripts"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/specs"
)

var _ store.Settable = (*Store)(nil)

// Fields of the hash of settings.
const (
	versionField  = "version"
	policiesField = "policies"
	limitField    = "limit/" // and then a policy, "/" and a scope
)

// Settings implements [store.Settable].
func (s *Store) Settings(ctx context.Context, upstream string) (*store.Settings, error) {
	return s.Set(ctx, upstream, nil)
}

// Set implements [store.Settable].
func (s *Store) Set(ctx context.Context, upstream string, changes []store.Setting) (*store.Settings, error) {
	q, up := newRequest(), upstreamKey(upstream)
	q.key(up)
	q.key(up + settingsMark)
	q.key(up + resetsMark)
	q.key(up + allowancesMark)
	for i := range changes {
		c := &changes[i]
		lasts := engine.MicrosUp(c.For)
		if lasts <= 0 {
			lasts = specs.MaxPeriod.Microseconds()
		}
		field := policiesField
		if c.Policy != "" {
			field = limitField + c.Policy + "/" + c.Scope
		}
		q.args = append(q.args, field, strconv.FormatInt(lasts, 10), c.Text)
	}
	v, err := s.query(ctx, scripts.Settings, q)
	if err != nil {
		return nil, err
	}
	return parseSettings(up, v)
}

// parseSettings reads the reply of settings.lua. It omits settings of another form.
func parseSettings(up string, v []any) (*store.Settings, error) {
	if len(v) == 1 {
		return nil, &store.SettingsError{}
	}
	if len(v) != 4 {
		return nil, errNonsense
	}
	now, ok := v[0].(int64)
	list, ok2 := v[1].([]any)
	resets, ok3 := v[2].([]any)
	names, ok4 := v[3].([]any)
	if !ok || !ok2 || !ok3 || !ok4 {
		return nil, errNonsense
	}
	fields, err := texts(list)
	reported, err2 := texts(resets)
	allowances, err3 := texts(names)
	if err := cmp.Or(err, err2, err3); err != nil {
		return nil, err
	}
	all := &store.Settings{Now: store.Instant(now), Allowances: allowances}
	for field, value := range inTurn(fields) {
		if field == versionField {
			all.Version = store.Instant(parseScore(value))
			continue
		}
		parts := strings.SplitN(value, " ", 3)
		if len(parts) != 3 {
			continue
		}
		one := store.Setting{Text: parts[2], Until: store.Instant(parseScore(parts[0])), Since: store.Instant(parseScore(parts[1]))}
		if one.Until <= all.Now || one.Until > all.Now.Add(specs.MaxPeriod) {
			continue
		}
		if field != policiesField {
			name, isLimit := strings.CutPrefix(field, limitField)
			policy, scope, ok := strings.Cut(name, "/")
			one.Policy, one.Scope = policy, scope
			if !isLimit || !ok || !policies.ValidName(one.Policy) {
				continue
			}
		}
		all.All = append(all.All, one)
	}
	store.SortSettings(all.All)
	for _, value := range inTurn(reported) {
		if r, ok := parseReset(up, value); ok {
			all.Resets = append(all.Resets, r)
		}
	}
	slices.SortFunc(all.Resets, func(a, b store.Reset) int { return cmp.Compare(a.Epoch.Resets, b.Epoch.Resets) })
	return all, nil
}

// parseReset reads the record of an epoch that began on purpose, as account.lua writes it: "epoch now", and then a line for each account. A
// line in another form means all accounts.
func parseReset(up, text string) (r store.Reset, ok bool) {
	head, lines, _ := strings.Cut(text, "\n")
	epoch, now, ok := strings.Cut(head, " ")
	began, resets, ok2 := strings.Cut(epoch, ".")
	r.Now, r.Epoch.Began, r.Epoch.Resets = store.Instant(parseScore(now)), store.Instant(parseScore(began)), parseScore(resets)
	if !ok || !ok2 || r.Now <= 0 || r.Epoch.Began <= 0 || r.Epoch.Resets <= 0 {
		return r, false
	}
	if lines == "" {
		return r, true
	}
	for line := range strings.SplitSeq(lines, "\n") {
		forgotten, isForgotten := strings.CutPrefix(line, "="+up)
		resumed, isResumed := strings.CutPrefix(line, "-"+up)
		if k, ok := keyOf(forgotten); ok && isForgotten {
			r.Keys = append(r.Keys, k)
		} else if k, ok := keyOf(resumed); ok && isResumed {
			r.Resumed = append(r.Resumed, k)
		} else {
			r.All = true
		}
	}
	return r, true
}

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// A done is a completed intervention.
type done struct {
	Done string `json:"done"`
}

// act intervenes: POST to act, with a form of action (pause, resume, reset), upstream (default: the first), scope (name=value, repeated for
// each), and for a pause for (a duration) and policy (default: the policies with exactly these scopes; without scopes, the whole upstream).
func (h *Handler) act(w http.ResponseWriter, r *http.Request) {
	if !h.intervene {
		fail(w, http.StatusForbidden, errors.New("this page only shows: it intervenes if page.Config.Intervene is set"))
		return
	}
	if err := h.origins.Check(r); err != nil {
		fail(w, http.StatusForbidden, fmt.Errorf("this request comes from another site (%w): use the page itself; a proxy in front must keep the Host header", err))
		return
	}
	if path.Base(r.URL.Path) != "act" {
		http.NotFound(w, r)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		fail(w, http.StatusBadRequest, fmt.Errorf("the form cannot be read: %w", err))
		return
	}
	f := h.feedOf(w, r.PostForm.Get("upstream"))
	if f == nil {
		return
	}
	did, err := f.intervene(r.Context(), r.PostForm)
	if err != nil {
		fail(w, statusOf(err), err)
		return
	}
	f.refresh()
	answer(w, http.StatusOK, done{did})
}

// intervene does what a form requests, and returns a sentence about it.
func (f *feed) intervene(ctx context.Context, form url.Values) (string, error) {
	opts, scopes, err := scopesOf(form["scope"], f.source.Policies())
	if err != nil {
		return "", err
	}
	who := cmp.Or(strings.Join(form["scope"], " "), "the upstream")
	switch action := form.Get("action"); action {
	case "pause":
		return f.pause(ctx, form, who, scopes, opts)
	case "resume":
		return "Resumed " + who + ".", f.source.Resume(ctx, opts...)
	case "reset":
		return "Reset " + who + ".", f.source.Reset(ctx, opts...)
	default:
		return "", bad("action", action, "must be pause, resume or reset")
	}
}

func (f *feed) pause(ctx context.Context, form url.Values, who string, scopes []string, opts []pacer.ScopeOption) (string, error) {
	text := form.Get("for")
	d, err := time.ParseDuration(text)
	switch longest := f.source.MaxPause(); {
	case err != nil:
		return "", bad("for", text, "must be a duration such as 30s or 5m")
	case d <= 0:
		return "", bad("for", text, "must be longer than nothing; to lift a pause, resume")
	case d > longest:
		return "", bad("for", text, fmt.Sprintf("must be at most %s, the pacer's MaxPause", longest))
	}
	names, err := meant(form.Get("policy"), scopes, f.source.Policies())
	if err != nil {
		return "", err
	}
	if len(names) > 0 {
		who = strings.Join(names, ", ") + " for " + who
	}
	return fmt.Sprintf("Paused %s for %s.", who, d), f.source.Pause(ctx, d, names, opts...)
}

// meant returns the policies to pause: the named one, or else those with exactly these scopes; none for the whole upstream. A policy
// without one of the scopes would be paused for everyone, which was not requested.
func meant(policy string, scopes []string, all []policies.Policy) ([]string, error) {
	if policy == "" && len(scopes) == 0 {
		return nil, nil
	}
	var every, just []string
	for _, p := range all {
		own := p.Scopes()
		others := slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return slices.Contains(own, s) })
		if p.Name() == policy && len(others) > 0 {
			return nil, bad("policy", policy, fmt.Sprintf("it is not per %s: to pause it for everyone, leave scope out", others[0]))
		}
		every = append(every, p.Name())
		if len(others) == 0 && len(own) == len(scopes) {
			just = append(just, p.Name())
		}
	}
	switch {
	case policy != "":
		return []string{policy}, nil
	case len(just) == 0:
		return nil, bad("scope", strings.Join(scopes, " "), fmt.Sprintf("no policy is per %s: say by policy which one is meant, of %s",
			strings.Join(scopes, " and "), strings.Join(every, ", ")))
	}
	return just, nil
}

// scopesOf reads scopes such as tenant=acme, and also returns their names. A name of no policy is a mistake.
func scopesOf(given []string, all []policies.Policy) (opts []pacer.ScopeOption, names []string, err error) {
	for _, one := range given {
		name, value, ok := strings.Cut(one, "=")
		known := slices.ContainsFunc(all, func(p policies.Policy) bool { return slices.Contains(p.Scopes(), name) })
		switch {
		case !ok || value == "":
			return nil, nil, bad("scope", one, "must be a name and a value, such as tenant=acme")
		case !known:
			return nil, nil, bad("scope", one, "no policy is per "+name)
		case slices.Contains(names, name):
			return nil, nil, bad("scope", one, name+" is given twice: a call has one")
		}
		opts, names = append(opts, pacer.Scope(name, value)), append(names, name)
	}
	return opts, names, nil
}

func bad(field, value, reason string) error {
	return &pacer.ConfigError{In: "page", Field: field, Value: fmt.Sprintf("%q", value), Reason: reason}
}

// statusOf distinguishes the client's mistakes from the store's.
func statusOf(err error) int {
	var config *pacer.ConfigError
	if errors.As(err, &config) || errors.Is(err, pacer.NoScope) {
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}

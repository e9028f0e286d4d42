package config

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/store"
	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/transport"
)

// Bounds of an upstream, and names of fields that are used twice.
const (
	maxPolicies  = 1000
	maxProcesses = 10_000
	fieldLimits  = "limits"
)

// An upstream is a file's definition of one.
type upstream struct {
	name        string
	at          place
	store       *storeDef
	policies    []policies.Policy
	policyAt    []value  // where each one stands
	policiesAt  place    // where all of them stand
	overrides   []string // each as a text, for comparing
	profile     policies.Profile
	profileName string
	changes     []func(policies.Profile) policies.Profile // the file's changes of the profile's reports
	changed     string                                    // the same, for comparing
	hosts       []string
	hostsAt     place
	base        *url.URL // nil: that of its first host

	config pacer.Config     // the rest: durations and such
	given  map[string]value // where the fields of config stand
}

// An upstreamReader reads one upstream.
type upstreamReader struct {
	*upstream

	vendors   *vendors
	unlimited bool             // it has no policies, on purpose
	vendor    map[string]bool  // whose policies it has
	taken     map[string]place // hosts of all upstreams
	waiting   []value          // overrides, which need the policies
	plain     []policies.Policy
	keys      map[string]bool // that have overrides
}

// readUpstream reads an upstream. The reader collects its mistakes.
func readUpstream(name string, at, v value, stores known, taken map[string]place) *upstream {
	u := &upstreamReader{
		upstream: &upstream{
			name: name, at: at.place(), policiesAt: at.place(), hostsAt: at.place(), store: stores.otherwise, given: make(map[string]value),
		},
		vendors: stores.vendors, vendor: make(map[string]bool), taken: taken, keys: make(map[string]bool),
	}
	before := v.count()
	if !store.ValidUpstream(name) {
		at.failf("is not a valid upstream name: start with a letter or digit, and write at most 100 letters, digits, '.', '_' or '-'")
	}
	known := map[string]func(value){
		"store":     func(v value) { u.store = storeOf(v, stores.stores) },
		"policies":  u.readPolicies,
		"overrides": func(v value) { v.items("overrides", func(v value) { u.waiting = append(u.waiting, v) }) },
		"profile":   u.readProfile,
		"leave":     u.readLeave,
		"backOff":   u.readBackOff,
		"hosts":     u.readHosts,
		"url":       u.readURL,
	}
	maps.Copy(known, u.settings())
	v.fields(known)
	if u.store != memory {
		u.store.used = true
	}
	u.plain = slices.Clone(u.policies)
	for _, one := range u.waiting {
		u.readOverride(one)
	}
	u.chooseProfile(at)
	switch {
	case v.count() > before:
	case len(u.policies) == 0 && !u.unlimited:
		at.failf("has no policies: add some, such as [10/s], or write policies: none if replies state its limits")
	default:
		u.check(at)
	}
	return u.upstream
}

// outages are the names of outage modes in files.
var outages = map[string]pacer.Outage{ //nolint:gochecknoglobals // a constant; Go has no constant maps
	"pace locally": pacer.PaceLocally, "refuse calls": pacer.RefuseCalls, "let through": pacer.LetThrough,
}

// settings are the fields that pacer.Config also has.
func (u *upstreamReader) settings() map[string]func(value) {
	c := &u.config
	forever := map[string]time.Duration{"forever": pacer.Forever}
	span := func(d *time.Duration, words map[string]time.Duration) func(value) {
		return func(v value) { *d = v.duration(words) }
	}
	all := map[string]func(value){
		"maxWait":      span(&c.MaxWait, forever),
		"maxPause":     span(&c.MaxPause, nil),
		"jitter":       span(&c.Jitter, map[string]time.Duration{"none": pacer.NoJitter}),
		"maxLate":      span(&c.MaxLate, forever),
		"storeTimeout": span(&c.StoreTimeout, nil),
		"ignoreCounts": func(v value) { c.IgnoreCounts = v.truth() },
		"processes": func(v value) {
			n := v.number(1, maxProcesses)
			c.Processes = int(n)
		},
		"outage": func(v value) {
			c.Outage, _ = word(v, "a way to handle outages", outages)
		},
	}
	for name, read := range all {
		all[name] = func(v value) {
			u.given[name] = v
			read(v)
		}
	}
	return all
}

// readPolicies reads the list: texts, and policies of vendors.
func (u *upstreamReader) readPolicies(v value) {
	u.policiesAt = v.place()
	if v, ok := v.real(); ok && v.node.Value == "none" {
		u.unlimited = true
		return
	}
	hint := ""
	if v, ok := v.real(); ok && v.node.Style&yaml.FlowStyle != 0 && len(v.node.Content) > 1 {
		hint = "; in brackets, a policy that has commas needs quotes"
	}
	v.items(`policies, such as ["25/s, burst 10"]`, func(v value) {
		list := u.readItem(v, hint)
		if len(u.policies)+len(list) > maxPolicies {
			if len(u.policies) <= maxPolicies {
				v.failf("is too many: an upstream has at most %d policies", maxPolicies)
			}
			return
		}
		for _, p := range list {
			u.policies, u.policyAt = append(u.policies, p), append(u.policyAt, v)
		}
	})
}

// readItem reads a text, or the policies of a vendor.
func (u *upstreamReader) readItem(v value, hint string) []policies.Policy {
	if v.isScalar() {
		return readPolicy(v, "", hint)
	}
	if v, ok := v.real(); ok && v.node.Kind == yaml.MappingNode && len(v.node.Content) == 2 {
		// YAML reads a policy with a name as a mapping.
		name, rest := v.under(v.node.Content[0], v.path), v.under(v.node.Content[1], v.path)
		if name, ok := name.real(); ok && name.isScalar() && rest.isScalar() && name.node.Value != fieldLimits {
			return readPolicy(rest, name.node.Value+": ", hint)
		}
	}
	list, vendor := u.vendors.readLimits(v)
	if vendor != "" {
		u.vendor[vendor] = true
	}
	return list
}

// readPolicy reads a text, which begins with the name if there is one. It returns no policy or one.
func readPolicy(v value, name, hint string) []policies.Policy {
	s, ok := v.text("a policy")
	if !ok {
		return nil
	}
	p, err := policies.Parse(name + s)
	if e, ok := errors.AsType[*policies.Error](err); ok {
		if part, quoted := strings.CutPrefix(e.Value, `"`); quoted { // what is not understood: the column shows it
			part, _, _ = strings.Cut(part, `"`)
			if i := strings.Index(s, part); i > 0 && v.node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
				v.column = i + 1
			} else if i > 0 {
				v.column = i
			}
			again, _ := strconv.QuotedPrefix(e.Reason)
			err = errors.New(strings.TrimLeft(e.Reason[len(again):], "… "))
		}
		v.wrong(fmt.Errorf("%w%s", err, hint))
		return nil
	}
	return []policies.Policy{p}
}

// readOverride reads the numbers for one key of a policy.
func (u *upstreamReader) readOverride(v value) {
	name, limit := "", policies.Policy{}
	var values []string
	given := 0
	before := v.count()
	v.fields(map[string]func(value){
		"policy": func(v value) {
			given++
			name, _ = v.text("the name of a policy")
		},
		"for": func(v value) {
			given++
			if v.isScalar() {
				if s, ok := v.text("the key's value"); ok {
					values = []string{s}
				}
				return
			}
			v.items("values, one for each scope of the policy", func(v value) {
				s, _ := v.text("a value")
				values = append(values, s)
			})
		},
		"limit": func(v value) {
			given++
			if list := readPolicy(v, "", ""); list != nil {
				limit = list[0]
			}
		},
	})
	switch {
	case v.count() > before:
		return
	case given < 3:
		v.failf("an override needs policy, the name of a policy; for, the values of its key; and limit, the limit for that key")
		return
	}
	i := slices.IndexFunc(u.plain, func(p policies.Policy) bool { return p.Name() == name })
	if i < 0 {
		v.failf("unknown policy: this upstream has %s", u.names())
		return
	}
	if err := u.plain[i].Override(limit, values...).Validate(); err != nil {
		v.wrong(err)
		return
	}
	key := fmt.Sprintf("%q %q", name, values)
	if u.keys[key] {
		v.failf("the key already has an override: remove one")
		return
	}
	u.keys[key] = true
	u.policies[i] = u.policies[i].Override(limit, values...)
	u.overrides = append(u.overrides, key+": "+limit.String())
}

// names writes the names of the policies.
func (u *upstream) names() string {
	names := make([]string, 0, len(u.policies))
	for _, p := range u.policies {
		names = append(names, p.Name())
	}
	return strings.Join(names, ", ")
}

// readHosts reads a host or a list of them.
func (u *upstreamReader) readHosts(v value) {
	u.hostsAt = v.place()
	u.hosts = hostsOf(v, u.taken, false)
}

// allHosts stands for all hosts that the file does not name otherwise.
const allHosts = "*"

// hostsOf returns the hosts in a value, or all hosts if it may. taken are those listed before.
func hostsOf(v value, taken map[string]place, all bool) (hosts []string) {
	read := func(v value) {
		host, ok := v.text("a host such as api.github.com")
		if !ok {
			return
		}
		_, err := transport.NewRouter(transport.WithHost(host, http.DefaultTransport))
		if e, ok := errors.AsType[*pacer.ConfigError](err); ok && (host != allHosts || !all) {
			v.failf("%s", e.Reason) // without the value
			return
		}
		key := strings.ToLower(strings.TrimSuffix(host, "."))
		if other, twice := taken[key]; twice {
			v.failf("the host is already listed, on line %d (%s): remove one", other.line, other.path)
			return
		}
		taken[key] = v.place()
		hosts = append(hosts, host)
	}
	if v.isScalar() {
		read(v)
	} else {
		v.items("hosts", read)
	}
	return hosts
}

// readURL reads where a proxy sends the requests.
func (u *upstreamReader) readURL(v value) {
	s, ok := v.text("a URL such as https://api.github.com")
	if !ok {
		return
	}
	base, err := url.Parse(s)
	var wrong string
	switch {
	case err != nil:
		wrong = "is malformed"
	case base.Scheme != "https" && base.Scheme != "http":
		wrong = "does not begin with https:// or http://"
	case base.Host == "":
		wrong = "names no host"
	case base.User != nil:
		wrong = "has a user"
	case base.RawQuery != "":
		wrong = "has a query"
	case base.Fragment != "":
		wrong = "has a fragment"
	default:
		u.base = base
		return
	}
	v.failf("is not a URL of the form https://host or https://host/path: it %s", wrong)
}

// check checks that a pacer can be made of all of it.
func (u *upstreamReader) check(at value) {
	c := u.config
	c.Upstream, c.Policies = u.name, u.policies
	p, err := pacer.New(c)
	if err == nil {
		_ = p.Close() // it has no calls
		return
	}
	if e, ok := errors.AsType[*pacer.ConfigError](err); ok {
		i := 0
		if n, _ := fmt.Sscanf(e.Field, "Policies[%d]", &i); n == 1 && i < len(u.policyAt) {
			at = u.policyAt[i]
		}
		for name, v := range u.given {
			if strings.EqualFold(name, e.Field) {
				at = v
			}
		}
	}
	at.wrong(err)
}

// settingsKey returns the same text for upstreams with the same settings, policies and store apart.
func (u *upstream) settingsKey() string {
	c := &u.config
	return fmt.Sprint(c.MaxWait, c.MaxPause, c.Jitter, c.MaxLate, c.StoreTimeout, c.IgnoreCounts, c.Processes, c.Outage)
}

// textOf returns the same text for upstreams in which a policy and its overrides are the same.
func (u *upstream) textOf(policy string) string {
	var texts []string
	for _, p := range u.policies {
		if p.Name() == policy {
			texts = append(texts, p.String())
		}
	}
	for _, one := range u.overrides {
		if strings.HasPrefix(one, strconv.Quote(policy)+" ") {
			texts = append(texts, one)
		}
	}
	return strings.Join(texts, "\n")
}

// policiesKey returns the same text for upstreams with the same policies.
func (u *upstream) policiesKey() string {
	texts := make([]string, 0, len(u.policies)+len(u.overrides))
	for _, p := range u.policies {
		texts = append(texts, p.String())
	}
	return strings.Join(append(texts, u.overrides...), "\n")
}

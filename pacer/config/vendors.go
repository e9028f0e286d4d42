package config

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/policies"
	"github.com/headway-go/headway/policies/airtable"
	"github.com/headway-go/headway/policies/anthropic"
	"github.com/headway-go/headway/policies/atlassian"
	"github.com/headway-go/headway/policies/github"
	"github.com/headway-go/headway/policies/google"
	"github.com/headway-go/headway/policies/hubspot"
	"github.com/headway-go/headway/policies/ietf"
	"github.com/headway-go/headway/policies/intercom"
	"github.com/headway-go/headway/policies/msgraph"
	"github.com/headway-go/headway/policies/notion"
	"github.com/headway-go/headway/policies/okta"
	"github.com/headway-go/headway/policies/openai"
	"github.com/headway-go/headway/policies/salesforce"
	"github.com/headway-go/headway/policies/shopify"
	"github.com/headway-go/headway/policies/slack"
	"github.com/headway-go/headway/policies/specs"
	"github.com/headway-go/headway/policies/stripe"
	"github.com/headway-go/headway/policies/twilio"
	"github.com/headway-go/headway/policies/zendesk"
)

// profiles returns the profiles that a file can name.
func profiles() map[string]policies.Profile {
	return map[string]policies.Profile{
		"airtable": airtable.Profile, "anthropic": anthropic.Profile, "atlassian": atlassian.Profile, "github": github.Profile,
		"google": google.Profile, "hubspot": hubspot.Profile, "ietf": ietf.Profile, "intercom": intercom.Profile,
		"msgraph": msgraph.Profile, "notion": notion.Profile, "okta": okta.Profile, "openai": openai.Profile,
		"openai.Reserved": openai.Reserved, "salesforce": salesforce.Profile, "shopify": shopify.Profile, "slack": slack.Profile,
		"stripe": stripe.Profile, "twilio": twilio.Profile, "zendesk": zendesk.Profile,
	}
}

// A kind is the type of a parameter.
type kind uint8

const (
	aNumber kind = iota + 1
	aWord
	aZone
	aName
	aDuration
)

// A param is a parameter of a constructor.
type param struct {
	name  string
	kind  kind
	words map[string]int64 // of aWord: what it may be
}

// A constructor makes policies of a vendor. Its parameters have their names of Go, unless there is a better one.
type constructor struct {
	params []param
	make   func(a args) []policies.Policy
}

// args are a file's values of parameters.
type args struct {
	numbers   map[string]int64
	names     map[string]string
	durations map[string]time.Duration
	zone      *time.Location
}

func one(p policies.Policy) []policies.Policy { return []policies.Policy{p} }

// numbers makes a constructor of whole numbers.
func numbers(f func(n ...int64) []policies.Policy, names ...string) constructor {
	c := constructor{make: func(a args) []policies.Policy {
		n := make([]int64, 0, len(names))
		for _, name := range names {
			n = append(n, a.numbers[name])
		}
		return f(n...)
	}}
	for _, name := range names {
		c.params = append(c.params, param{name: name, kind: aNumber})
	}
	return c
}

// words makes a constructor that takes a word, and whole numbers.
func words[T ~int | ~int64](f func(word T, n ...int64) []policies.Policy, name string, known map[string]T, more ...string) constructor {
	c := numbers(nil, more...)
	meanings := make(map[string]int64, len(known))
	for word, meaning := range known {
		meanings[word] = int64(meaning)
	}
	c.params = append(c.params, param{name: name, kind: aWord, words: meanings})
	c.make = func(a args) []policies.Policy {
		n := make([]int64, 0, len(more))
		for _, one := range more {
			n = append(n, a.numbers[one])
		}
		return f(T(a.numbers[name]), n...)
	}
	return c
}

// constructors returns the constructors that a file can name, as vendor.Constructor.
func constructors() map[string]constructor {
	all := vendorsOfNumbers()
	maps.Copy(all, vendorsOfPlans())
	return all
}

// vendorsOfNumbers are the constructors that take numbers, or nothing.
func vendorsOfNumbers() map[string]constructor {
	return map[string]constructor{
		"airtable.Limits": numbers(func(...int64) []policies.Policy { return airtable.Limits() }),
		"anthropic.Limits": numbers(func(n ...int64) []policies.Policy {
			return anthropic.Limits(n[0], n[1], n[2])
		}, "requests", "inputTokens", "outputTokens"),
		"atlassian.Limits":          numbers(func(...int64) []policies.Policy { return atlassian.Limits() }),
		"atlassian.AppQuota":        numbers(func(...int64) []policies.Policy { return one(atlassian.AppQuota()) }),
		"atlassian.TenantQuota":     numbers(func(n ...int64) []policies.Policy { return one(atlassian.TenantQuota(n[0])) }, "points"),
		"github.Concurrent":         numbers(func(...int64) []policies.Policy { return one(github.Concurrent()) }),
		"google.Limits":             numbers(func(n ...int64) []policies.Policy { return google.Limits(n[0], n[1]) }, "perProject", "perUser"),
		"intercom.Limits":           numbers(func(...int64) []policies.Policy { return intercom.Limits() }),
		"msgraph.Global":            numbers(func(...int64) []policies.Policy { return one(msgraph.Global()) }),
		"msgraph.Mailbox":           numbers(func(...int64) []policies.Policy { return one(msgraph.Mailbox()) }),
		"msgraph.SharePoint":        numbers(func(n ...int64) []policies.Policy { return one(msgraph.SharePoint(n[0])) }, "perMinute"),
		"notion.Limits":             numbers(func(...int64) []policies.Policy { return notion.Limits() }),
		"okta.Limits":               numbers(func(n ...int64) []policies.Policy { return okta.Limits(n[0]) }, "perMinute"),
		"openai.Limits":             numbers(func(n ...int64) []policies.Policy { return openai.Limits(n[0], n[1]) }, "requests", "tokens"),
		"openai.RequestsPerDay":     numbers(func(n ...int64) []policies.Policy { return one(openai.RequestsPerDay(n[0])) }, "requests"),
		"openai.TokensPerDay":       numbers(func(n ...int64) []policies.Policy { return one(openai.TokensPerDay(n[0])) }, "tokens"),
		"salesforce.Concurrent":     numbers(func(n ...int64) []policies.Policy { return one(salesforce.Concurrent(n[0])) }, "calls"),
		"salesforce.Daily":          numbers(func(n ...int64) []policies.Policy { return one(salesforce.Daily(n[0])) }, "calls"),
		"slack.Limits":              numbers(func(...int64) []policies.Policy { return slack.Limits() }),
		"slack.NonMarketplace":      numbers(func(...int64) []policies.Policy { return one(slack.NonMarketplace()) }),
		"stripe.Concurrent":         numbers(func(n ...int64) []policies.Policy { return one(stripe.Concurrent(n[0])) }, "calls"),
		"stripe.EndpointConcurrent": numbers(func(n ...int64) []policies.Policy { return one(stripe.EndpointConcurrent(n[0])) }, "calls"),
		"twilio.Calls":              numbers(func(n ...int64) []policies.Policy { return one(twilio.Calls(n[0])) }, "perSecond"),
		"twilio.Concurrent":         numbers(func(n ...int64) []policies.Policy { return one(twilio.Concurrent(n[0])) }, "calls"),
		"twilio.Limits":             numbers(func(n ...int64) []policies.Policy { return twilio.Limits(n[0]) }, "perSecond"),
		"github.Installation": numbers(func(n ...int64) []policies.Policy {
			return github.Limits(github.Installation(n[0], n[1]))
		}, "repositories", "users"),
	}
}

// vendorsOfPlans are the constructors that take a plan, or another word.
func vendorsOfPlans() map[string]constructor {
	zendeskPlans := map[string]zendesk.Plan{
		"SuiteTeam": zendesk.SuiteTeam, "SuiteGrowth": zendesk.SuiteGrowth, "SuiteProfessional": zendesk.SuiteProfessional,
		"SuiteEnterprise": zendesk.SuiteEnterprise, "SuiteEnterprisePlus": zendesk.SuiteEnterprisePlus,
		"SupportEssential": zendesk.SupportEssential, "SupportTeam": zendesk.SupportTeam, "SupportProfessional": zendesk.SupportProfessional,
		"SupportEnterprise": zendesk.SupportEnterprise, "HighVolume": zendesk.HighVolume,
	}
	sizes := map[string]msgraph.Size{"Small": msgraph.Small, "Medium": msgraph.Medium, "Large": msgraph.Large}
	return map[string]constructor{
		"github.Limits": words(func(k github.Kind, _ ...int64) []policies.Policy { return github.Limits(k) }, "kind", map[string]github.Kind{
			"Anonymous": github.Anonymous, "Actions": github.Actions, "User": github.User, "Enterprise": github.Enterprise,
		}),
		"hubspot.Limits": {
			params: []param{
				{name: "tier", kind: aWord, words: map[string]int64{
					"Starter": int64(hubspot.Starter), "Professional": int64(hubspot.Professional),
					"Enterprise": int64(hubspot.Enterprise), "Increased": int64(hubspot.Increased),
				}},
				{name: "zone", kind: aZone},
			},
			make: func(a args) []policies.Policy { return hubspot.Limits(hubspot.Tier(a.numbers["tier"]), a.zone) },
		},
		"msgraph.Identity": words(func(s msgraph.Size, _ ...int64) []policies.Policy { return one(msgraph.Identity(s)) }, "size", sizes),
		"msgraph.Limits":   words(func(s msgraph.Size, _ ...int64) []policies.Policy { return msgraph.Limits(s) }, "size", sizes),
		"msgraph.Tenant": {
			params: []param{{name: "calls", kind: aNumber}, {name: "period", kind: aDuration}},
			make:   func(a args) []policies.Policy { return one(msgraph.Tenant(a.numbers["calls"], a.durations["period"])) },
		},
		"okta.Concurrent": words(func(p okta.Plan, _ ...int64) []policies.Policy { return one(okta.Concurrent(p)) }, "plan", map[string]okta.Plan{
			"IntegratorFree": okta.IntegratorFree, "CustomerIdentity": okta.CustomerIdentity, "WorkforceIdentity": okta.WorkforceIdentity,
		}),
		"salesforce.Limits": words(func(e salesforce.Edition, n ...int64) []policies.Policy {
			return salesforce.Limits(e, n[0])
		}, "edition", map[string]salesforce.Edition{
			"Developer": salesforce.Developer, "Professional": salesforce.Professional, "Enterprise": salesforce.Enterprise,
			"Unlimited": salesforce.Unlimited, "Performance": salesforce.Performance, "Sandbox": salesforce.Sandbox,
		}, "licences"),
		"salesforce.Share": {
			params: []param{{name: "calls", kind: aNumber}, {name: "percent", kind: aNumber}, {name: "scope", kind: aName}},
			make: func(a args) []policies.Policy {
				return one(salesforce.Share(a.numbers["calls"], a.numbers["percent"], a.names["scope"]))
			},
		},
		"shopify.Limits": words(func(p shopify.Plan, _ ...int64) []policies.Policy { return shopify.Limits(p) }, "plan", map[string]shopify.Plan{
			"Standard": shopify.Standard, "Advanced": shopify.Advanced, "Plus": shopify.Plus, "Enterprise": shopify.Enterprise,
		}),
		"stripe.Limits": words(func(m stripe.Mode, _ ...int64) []policies.Policy { return stripe.Limits(m) }, "mode", map[string]stripe.Mode{
			"Sandbox": stripe.Sandbox, "Live": stripe.Live,
		}),
		"zendesk.Account":    words(func(p zendesk.Plan, _ ...int64) []policies.Policy { return one(zendesk.Account(p)) }, "plan", zendeskPlans),
		"zendesk.Endpoints":  words(func(p zendesk.Plan, _ ...int64) []policies.Policy { return zendesk.Endpoints(p) }, "plan", zendeskPlans),
		"zendesk.HelpCenter": words(func(p zendesk.Plan, _ ...int64) []policies.Policy { return one(zendesk.HelpCenter(p)) }, "plan", zendeskPlans),
		"zendesk.Limits":     words(func(p zendesk.Plan, _ ...int64) []policies.Policy { return zendesk.Limits(p) }, "plan", zendeskPlans),
	}
}

// vendors are the tables, made once.
type vendors struct {
	profiles     map[string]policies.Profile
	constructors map[string]constructor
}

// readLimits reads the call of a vendor's constructor, and returns its policies and the vendor's name.
func (t *vendors) readLimits(v value) (list []policies.Policy, vendor string) {
	name := ""
	before := v.count()
	v.entries("policies of a vendor, such as {limits: github, kind: User}", func(key string, _, v value) {
		if key == fieldLimits {
			name, _ = v.text("a vendor, such as github")
		}
	})
	switch {
	case v.count() > before:
		return nil, ""
	case name == "":
		v.failf("needs the field %s, which names a vendor: choose one of %s", fieldLimits, t.names(""))
		return nil, ""
	}
	vendor, _, whole := strings.Cut(name, ".")
	if !whole {
		name += ".Limits"
	}
	c, ok := t.constructors[name]
	if !ok {
		v.failf("unknown limits: choose one of %s", t.names(vendor))
		return nil, ""
	}
	a := args{numbers: make(map[string]int64), names: make(map[string]string), durations: make(map[string]time.Duration)}
	known := map[string]func(value){fieldLimits: func(value) {}}
	given := make(map[string]bool)
	for _, p := range c.params {
		known[p.name] = func(v value) {
			given[p.name] = true
			a.read(p, v)
		}
	}
	v.fields(known)
	for _, p := range c.params {
		if !given[p.name] {
			v.failf("%s needs %s", name, p.describe())
		}
	}
	if v.count() > before {
		return nil, vendor
	}
	list = c.make(a)
	for _, p := range list {
		if err := p.Validate(); err != nil {
			v.wrong(err)
			return nil, vendor
		}
	}
	return list, vendor
}

// names returns the constructors of a vendor, or all if it has none.
func (t *vendors) names(vendor string) string {
	var own, all []string
	for name := range t.constructors {
		if strings.HasPrefix(name, vendor+".") {
			own = append(own, name)
		}
		if first, isLimits := strings.CutSuffix(name, ".Limits"); isLimits {
			all = append(all, first)
		}
	}
	if len(own) == 0 {
		own = all
	}
	slices.Sort(own)
	return strings.Join(own, ", ")
}

// describe returns what a parameter is.
func (p param) describe() string {
	switch p.kind {
	case aWord:
		return p.name + ", one of " + strings.Join(slices.Sorted(maps.Keys(p.words)), ", ")
	case aZone:
		return p.name + ", a time zone such as Europe/Berlin"
	case aName:
		return p.name + ", the name of a scope"
	case aDuration:
		return p.name + ", a duration such as 10s"
	case aNumber:
	}
	return p.name + ", a number"
}

// read reads one parameter.
func (a *args) read(p param, v value) {
	switch p.kind {
	case aNumber:
		a.numbers[p.name] = v.number(0, specs.MaxLimit)
	case aWord:
		a.numbers[p.name], _ = word(v, "a "+p.name, p.words)
	case aName:
		name, ok := v.text("the name of a scope")
		if ok && !policies.ValidName(name) {
			v.failf("is not a valid scope name: start with a letter or digit, and write at most 64 letters, digits, '.', '_' or '-'")
		}
		a.names[p.name] = name
	case aDuration:
		a.durations[p.name] = v.duration(nil)
	case aZone:
		if name, ok := v.text("a time zone such as Europe/Berlin"); ok {
			var err error
			if a.zone, err = zone(name); err != nil {
				v.wrong(err)
			}
		}
	}
}

// zone returns a time zone of the IANA database.
func zone(name string) (*time.Location, error) {
	if name == "" || strings.EqualFold(name, "Local") {
		return nil, errors.New("differs from machine to machine: name a time zone, such as Europe/Berlin")
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, errors.New("is not a time zone that this machine knows: name one of the IANA database, such as UTC or Europe/Berlin")
	}
	return loc, nil
}

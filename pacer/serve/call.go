package serve

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/pacer"
)

// Header fields of requests to the proxy. None is forwarded.
const (
	headerPrefix  = "Headway-"
	headerScope   = "Headway-Scope" // tenant=acme, user=7: values may be percent-encoded
	headerCost    = "Headway-Cost"  // 3, or tokens=500
	headerMaxWait = "Headway-Max-Wait"
	headerParty   = "Headway-Party" // the lane
	headerCaller  = "Headway-Caller"
	headerHost    = "Headway-Host" // which of the upstream's hosts
	headerToken   = "Headway-Authorization"
)

// A call is a client's description of a call.
type call struct {
	scopes  map[string]string
	costs   map[string]int64 // by policy; of "", what it costs the others
	maxWait time.Duration    // below 0: the upstream's
	party   string
	caller  string
}

// options returns the call as the pacer is given it.
func (c *call) options() []pacer.Option {
	opts := make([]pacer.Option, 0, len(c.scopes)+len(c.costs)+4) //nolint:mnd // and four more
	for _, scope := range scopeOptions(c.scopes) {
		opts = append(opts, scope)
	}
	for policy, n := range c.costs {
		if policy == "" {
			opts = append(opts, pacer.Cost(n))
		} else {
			opts = append(opts, pacer.CostOf(policy, n))
		}
	}
	if c.party != "" {
		opts = append(opts, pacer.Lane(c.party))
	}
	if c.caller != "" {
		opts = append(opts, pacer.Caller(c.caller))
	}
	if c.maxWait >= 0 {
		opts = append(opts, pacer.MaxWait(min(c.maxWait, pacer.Forever)))
	}
	return opts
}

func scopeOptions(scopes map[string]string) (opts []pacer.ScopeOption) {
	for name, value := range scopes {
		opts = append(opts, pacer.Scope(name, value))
	}
	return opts
}

// readCall reads the fields of a request.
func readCall(h http.Header) (*call, error) {
	c := &call{maxWait: -1}
	for name, values := range h {
		if !strings.HasPrefix(name, headerPrefix) {
			continue
		}
		var err error
		switch name {
		case headerScope:
			c.scopes, err = readScopes(values)
		case headerCost:
			c.costs, err = readCosts(values)
		case headerMaxWait:
			c.maxWait, err = readWait(values)
		case headerParty:
			c.party, err = one(name, values)
		case headerCaller:
			c.caller, err = one(name, values)
		case headerHost, headerToken:
		default:
			err = refusef(http.StatusBadRequest, "no field has the name %s: there are %s, %s, %s, %s, %s, %s and %s",
				name, headerScope, headerCost, headerMaxWait, headerParty, headerCaller, headerHost, headerToken)
		}
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// one returns the value of a field that a request has once.
func one(name string, values []string) (string, error) {
	if len(values) != 1 || values[0] == "" {
		return "", refusef(http.StatusBadRequest, "%s must be there once, with a value", name)
	}
	return values[0], nil
}

// members calls each for the members of a list.
func members(values []string, each func(string) error) error {
	for _, value := range values {
		for member := range strings.SplitSeq(value, ",") {
			if err := each(strings.TrimSpace(member)); err != nil {
				return err
			}
		}
	}
	return nil
}

func readScopes(values []string) (map[string]string, error) {
	scopes := make(map[string]string)
	err := members(values, func(member string) error {
		name, value, found := strings.Cut(member, "=")
		value, err := url.PathUnescape(value)
		if _, twice := scopes[name]; !found || name == "" || value == "" || err != nil || twice {
			return refusef(http.StatusBadRequest, "%s must be a list such as tenant=acme, user=7, with each name once; write a comma in a value as %%2C", headerScope)
		}
		scopes[name] = value
		return nil
	})
	return scopes, err
}

func readCosts(values []string) (map[string]int64, error) {
	costs := make(map[string]int64)
	err := members(values, func(member string) error {
		policy, number, found := strings.Cut(member, "=")
		if !found {
			policy, number = "", member
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if _, twice := costs[policy]; err != nil || n < 0 || twice || found && policy == "" {
			return refusef(http.StatusBadRequest, "%s must be a number such as 3, or a list of costs by policy such as tokens=500", headerCost)
		}
		costs[policy] = n
		return nil
	})
	return costs, err
}

// readWait reads a duration such as 30s, or a number of seconds.
func readWait(values []string) (time.Duration, error) {
	text, err := one(headerMaxWait, values)
	if err != nil {
		return 0, err
	}
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, refusef(http.StatusBadRequest, "%s must be a duration such as 500ms or 30s, or a number of seconds", headerMaxWait)
	}
	return d, nil
}

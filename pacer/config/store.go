package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/policies"
)

// Names of fields that several places need.
const fieldPasswordEnv = "passwordEnv"

// A storeDef is a file's definition of a store.
type storeDef struct {
	name string
	at   value
	used bool // some upstream has it

	redis       endpoint
	redisEnv    string // the environment variable that has the endpoint
	redisEnvAt  place
	cluster     bool
	master      string
	username    string
	passwordEnv string
	passwordAt  place
}

// memory is the store of upstreams without another: each process paces by itself.
var memory = &storeDef{name: "memory"} //nolint:gochecknoglobals // a constant; Go has no constant structs

// An endpoint is where a Redis is.
type endpoint struct {
	addrs              []string
	db                 int
	tls                bool
	username, password string
}

// known is what upstreams may name: stores, with a default one, and vendors.
type known struct {
	stores    map[string]*storeDef
	otherwise *storeDef
	vendors   *vendors
}

func readStores(v value, stores map[string]*storeDef) {
	v.entries("a mapping of names to stores", func(name string, at, v value) {
		switch {
		case len(stores) == maxStores:
			at.failf("is too many: a file has at most %d stores", maxStores)
			return
		case !policies.ValidName(name):
			at.failf("is not a valid store name: start with a letter or digit, and write at most 64 letters, digits, '.', '_' or '-'")
		case name == memory.name:
			at.failf("is reserved for the store in the memory of each process: choose another name")
		}
		stores[name] = readStore(name, at, v)
	})
}

func readStore(name string, at, v value) *storeDef {
	s := &storeDef{name: name, at: at}
	given := 0
	before := v.count()
	v.fields(map[string]func(value){
		"redis": func(v value) {
			given++
			s.redis = readEndpoint(v)
		},
		"redisEnv": func(v value) {
			given++
			s.redisEnv, s.redisEnvAt = variable(v), v.place()
		},
		"cluster":  func(v value) { s.cluster = v.truth() },
		"master":   func(v value) { s.master, _ = v.text("the name of the master that the sentinels watch") },
		"username": func(v value) { s.username, _ = v.text("the name of the user") },
		fieldPasswordEnv: func(v value) {
			s.passwordEnv, s.passwordAt = variable(v), v.place()
		},
	})
	if v.count() > before {
		return s
	}
	switch {
	case given != 1:
		at.failf("needs either redis or redisEnv: the address of Redis, such as redis: cache.internal:6379, or the environment variable that holds it")
	case s.cluster && s.master != "":
		at.failf("has both cluster and master: remove one, because a cluster has no sentinels")
	}
	return s
}

var variableGrammar = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// variable reads the name of an environment variable.
func variable(v value) string {
	s, ok := v.text("the name of an environment variable")
	if ok && !variableGrammar.MatchString(s) {
		v.failf("is not a valid name of an environment variable: write letters, digits and '_', such as REDIS_PASSWORD, and put the secret into that variable")
		return ""
	}
	return s
}

// readEndpoint reads a URL, an address, or a list of them.
func readEndpoint(v value) endpoint {
	var all []string
	if v.isScalar() {
		if s, ok := v.text("where Redis is"); ok {
			all = strings.Split(s, ",")
		}
	} else {
		v.items("addresses", func(v value) {
			if s, ok := v.text("an address of Redis"); ok {
				all = append(all, s)
			}
		})
	}
	if len(all) == 0 {
		if v, ok := v.real(); ok && len(v.node.Content) == 0 && !v.isEmpty() {
			v.failf("has no address: write one such as cache.internal:6379")
		}
		return endpoint{}
	}
	e, err := endpointOf(all)
	switch {
	case err != nil:
		v.wrong(err)
	case e.password != "":
		v.failf("contains a password, which does not belong in a file: name an environment variable in %s, or put the whole URL into one and name that in redisEnv",
			fieldPasswordEnv)
	}
	return e
}

var errEndpoint = errors.New("is not an address of Redis: write host:port, redis://user@host:6379/0, or rediss:// for TLS; for several, write a list")

// endpointOf reads addresses and URLs. Its errors repeat nothing of them: any part may be a misplaced password.
func endpointOf(all []string) (endpoint, error) {
	var e endpoint
	for i, s := range all {
		one := endpoint{addrs: []string{strings.TrimSpace(s)}}
		if strings.Contains(s, "://") {
			u, err := redis.ParseURL(one.addrs[0])
			if err != nil {
				return e, errEndpoint
			}
			one = endpoint{addrs: []string{u.Addr}, db: u.DB, tls: u.TLSConfig != nil, username: u.Username, password: u.Password}
		}
		if !isAddress(one.addrs[0]) {
			return e, errEndpoint
		}
		addrs := slices.Concat(e.addrs, one.addrs)
		one.addrs, e.addrs = nil, nil
		if i > 0 && fmt.Sprint(e) != fmt.Sprint(one) {
			return e, errors.New("has addresses that differ in more than host and port: give all of them the same user, database and TLS")
		}
		e = one
		e.addrs = addrs
	}
	return e, nil
}

// isAddress reports whether a text is a host and a port number.
func isAddress(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0 && host != "" && !strings.ContainsFunc(host, func(r rune) bool { // an address of IPv6 may have a zone
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-._:%", r)
	})
}

// storeOf returns the store that a field names; memory if there is none.
func storeOf(v value, stores map[string]*storeDef) *storeDef {
	name, ok := v.text("the name of a store")
	if !ok || name == memory.name {
		return memory
	}
	if s := stores[name]; s != nil {
		return s
	}
	names := []string{memory.name}
	for one := range stores {
		names = append(names, one)
	}
	slices.Sort(names)
	v.failf("unknown store: choose one of %s, or add it to stores", strings.Join(names, ", "))
	return memory
}

// key returns the same text for the same stores.
func (s *storeDef) key() string {
	if s == memory {
		return s.name
	}
	return fmt.Sprintf("%q %v %q %v %q %q %q", s.name, s.redis, s.redisEnv, s.cluster, s.master, s.username, s.passwordEnv)
}

// options returns the options of a store's client. It reads the environment.
func (s *storeDef) options() (*redis.UniversalOptions, error) {
	e := s.redis
	if s.redisEnv != "" {
		text, err := secret(s.redisEnv, s.redisEnvAt)
		if err != nil {
			return nil, err
		}
		if e, err = endpointOf(strings.Split(text, ",")); err != nil {
			return nil, s.redisEnvAt.wrap(fmt.Errorf("the environment variable that it names %w", err))
		}
	}
	o := &redis.UniversalOptions{
		Addrs: e.addrs, DB: e.db, Username: e.username, Password: e.password,
		IsClusterMode: s.cluster, MasterName: s.master, ContextTimeoutEnabled: true,
	}
	if s.username != "" {
		o.Username = s.username
	}
	if e.tls {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12} // the name of the server is that of each address
	}
	if s.passwordEnv != "" {
		var err error
		if o.Password, err = secret(s.passwordEnv, s.passwordAt); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// secret returns the value of an environment variable. Its error does not repeat the name, which may be the secret itself.
func secret(name string, at place) (string, error) {
	if s := os.Getenv(name); s != "" {
		return s, nil
	}
	return "", at.wrap(errors.New("the environment variable that it names is not set: set it where the program runs"))
}

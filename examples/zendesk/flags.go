package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/nukosuke/go-zendesk/zendesk"

	"github.com/headway-go/headway/examples/zendesk/standin"
)

// Bounds of the flags.
const (
	maxWorkers  = 1000
	maxTenants  = 100
	minDuration = time.Second
)

// sharedAddress is the address of the stand-in that copies with a common Redis share.
const sharedAddress = "127.0.0.1:8712"

// A config holds the flags and the environment.
type config struct {
	redis    string
	file     string // has the limits; "" for those of limits.go
	workers  int
	plan     string
	limit    int // calls per minute, by the plan
	tenants  int
	duration time.Duration
	unpaced  bool
	listen   string
	page     string

	real credentials // of the real API; the zero value: the stand-in

	connect func(http.Handler) http.RoundTripper // calls the stand-in without a network, in tests
}

// credentials name an account of the real API.
type credentials struct {
	subdomain, email, token string
}

func (c *config) isReal() bool { return c.real != credentials{} }

// shared reports whether other copies can find this one's stand-in.
func (c *config) shared() bool {
	_, port, _ := net.SplitHostPort(c.listen)
	return !c.isReal() && port != "0"
}

// parse reads the flags and the environment. It returns flag.ErrHelp after printing the flags, or one sentence about the first mistake.
func parse(args []string, env func(string) string, out io.Writer) (*config, error) {
	c := &config{}
	f := flag.NewFlagSet("zendesk", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&c.redis, "redis", "", "`host:port` of the Redis that several copies share (default: this copy's memory)")
	f.StringVar(&c.file, "config", "", "a `file` such as headway.yaml that has the limits, and says where Redis is (default: limits.go)")
	f.IntVar(&c.workers, "workers", 16, "tickets that are worked on at a time")
	f.StringVar(&c.plan, "plan", "enterprise", "the accounts' plan: "+strings.Join(standin.Plans(), ", "))
	f.IntVar(&c.tenants, "tenants", 1, "accounts; each has limits of its own")
	f.DurationVar(&c.duration, "duration", 20*time.Second, "how long to work")
	f.BoolVar(&c.unpaced, "unpaced", false, "do the same work without Headway")
	f.StringVar(&c.listen, "listen", "", "`address` of the stand-in (default: any free port, with -redis "+sharedAddress+")")
	f.StringVar(&c.page, "page", "", "`address` at which a page shows live how the limits stand, such as 127.0.0.1:8711 (default: none)")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			printHelp(f, out)
		}
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q is not a flag: see -help", f.Arg(0))
	}
	c.real = credentials{env("ZENDESK_SUBDOMAIN"), env("ZENDESK_EMAIL"), env("ZENDESK_TOKEN")}
	if err := c.validate(); err != nil {
		return nil, err
	}
	return c, nil
}

func printHelp(f *flag.FlagSet, out io.Writer) {
	fmt.Fprintln(out, "Syncs tickets from Zendesk, paced by Headway, against a strict local stand-in of Zendesk.")
	fmt.Fprintln(out, "With ZENDESK_SUBDOMAIN, ZENDESK_EMAIL and ZENDESK_TOKEN set, it reads (and only reads) from the real API.")
	fmt.Fprintln(out)
	f.SetOutput(out)
	f.PrintDefaults()
}

func (c *config) validate() error {
	var ok bool
	if c.limit, ok = standin.PlanLimit(c.plan); !ok {
		return fmt.Errorf("-plan %s: there is no such plan, choose one of %s", c.plan, strings.Join(standin.Plans(), ", "))
	}
	switch {
	case c.workers < 1 || c.workers > maxWorkers:
		return fmt.Errorf("-workers %d: give a number from 1 to %d", c.workers, maxWorkers)
	case c.tenants < 1 || c.tenants > maxTenants:
		return fmt.Errorf("-tenants %d: give a number from 1 to %d", c.tenants, maxTenants)
	case c.workers < c.tenants:
		return fmt.Errorf("-workers %d: give at least one worker for each of the %d tenants", c.workers, c.tenants)
	case c.unpaced && c.file != "":
		return errors.New("-config has limits, and with -unpaced nobody keeps them: leave out one of the two")
	case c.duration < minDuration:
		return fmt.Errorf("-duration %s: give at least %s", c.duration, minDuration)
	}
	if c.file != "" && c.redis != "" {
		return errors.New("-config and -redis do not go together: the file says where Redis is")
	}
	if c.redis != "" {
		if _, _, err := net.SplitHostPort(c.redis); err != nil {
			return fmt.Errorf("-redis %s: give host:port, such as 127.0.0.1:6379", c.redis)
		}
	}
	if err := c.validateReal(); err != nil {
		return err
	}
	if c.listen == "" {
		c.listen = "127.0.0.1:0"
		if c.redis != "" {
			c.listen = sharedAddress
		}
	}
	if err := standin.CheckAddress(c.listen); err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	return c.validatePage()
}

func (c *config) validatePage() error {
	if c.page == "" {
		return nil
	}
	if c.unpaced {
		return errors.New("-page shows how the limits stand, and with -unpaced nobody keeps them: leave out one of the two")
	}
	if err := standin.CheckAddress(c.page); err != nil {
		return fmt.Errorf("-page: %w", err)
	}
	return nil
}

func (c *config) validateReal() error {
	if !c.isReal() {
		return nil
	}
	switch {
	case c.real.subdomain == "" || c.real.email == "" || c.real.token == "":
		return errors.New("the real API needs all of ZENDESK_SUBDOMAIN, ZENDESK_EMAIL and ZENDESK_TOKEN: set them all, or none for the stand-in")
	case new(zendesk.Client).SetSubdomain(c.real.subdomain) != nil:
		return fmt.Errorf("ZENDESK_SUBDOMAIN %q: give only the name before .zendesk.com, such as acme", c.real.subdomain)
	case c.unpaced:
		return errors.New("-unpaced is for the stand-in only: it would spend the limit that others at your Zendesk account need")
	case c.tenants > 1:
		return errors.New("-tenants is for the stand-in only: the real API is one account")
	case c.listen != "":
		return errors.New("-listen is for the stand-in only: unset ZENDESK_SUBDOMAIN, ZENDESK_EMAIL and ZENDESK_TOKEN to use it")
	}
	return nil
}

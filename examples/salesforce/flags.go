package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/headway-go/headway/examples/salesforce/standin"
)

// Bounds of the flags.
const (
	tenants     = 3 // accounts whose data is read
	maxWorkers  = tenants * 3
	minCalls    = 20
	maxCalls    = 1_000_000
	maxReserve  = 90
	maxOther    = 1000
	minDuration = time.Second
)

// sharedAddress is the address of the stand-in that copies with a common Redis share.
const sharedAddress = "127.0.0.1:8713"

// A config holds the flags and the environment.
type config struct {
	redis      string
	file       string // has the limits; "" for those of limits.go
	workers    int
	reserve    int // per cent
	duration   time.Duration
	allocation int // of the stand-in
	other      int // calls per second of another consumer
	otherCalls int // how many it makes in all
	listen     string

	real credentials // of the real API; the zero value: the stand-in

	connect func(http.Handler) http.RoundTripper // calls the stand-in without a network, in tests
}

// credentials name a real org.
type credentials struct {
	domain, token string
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
	f := flag.NewFlagSet("salesforce", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&c.redis, "redis", "", "`host:port` of the Redis that several copies share (default: this copy's memory)")
	f.StringVar(&c.file, "config", "", "a `file` such as headway.yaml that has the limits, and says where Redis is (default: limits.go)")
	f.IntVar(&c.workers, "workers", maxWorkers, "readers: queries that run at a time")
	f.IntVar(&c.reserve, "reserve", 10, "`per cent` of the limits that the readers leave to interactive calls")
	f.DurationVar(&c.duration, "duration", time.Minute, "how long to work, if the day is not spent before")
	f.IntVar(&c.allocation, "allocation", 600, "`calls` that the stand-in's org has in 24 hours")
	f.IntVar(&c.other, "other", 16, "`calls` per second that another consumer of the stand-in's org spends")
	f.IntVar(&c.otherCalls, "other-calls", 0, "`calls` that it spends in all (default: half of the allocation)")
	f.StringVar(&c.listen, "listen", "", "`address` of the stand-in (default: any free port, with -redis "+sharedAddress+")")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			printHelp(f, out)
		}
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q is not a flag: see -help", f.Arg(0))
	}
	c.real = credentials{env("SALESFORCE_DOMAIN"), env("SALESFORCE_ACCESS_TOKEN")}
	if err := c.validateReal(f); err != nil {
		return nil, err
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	return c, nil
}

func printHelp(f *flag.FlagSet, out io.Writer) {
	fmt.Fprintln(out, "Reads three customers' records from a Salesforce org, paced by Headway, until the org's calls of the day are spent:")
	fmt.Fprintln(out, "against a strict local stand-in of the REST API, of which another consumer spends the same calls.")
	fmt.Fprintln(out, "With SALESFORCE_DOMAIN and SALESFORCE_ACCESS_TOKEN set, it reads (and only reads) from a real org. That spends its calls, too.")
	fmt.Fprintln(out)
	f.SetOutput(out)
	f.PrintDefaults()
}

func (c *config) validate() error {
	if c.otherCalls == 0 {
		c.otherCalls = c.allocation / 2
	}
	switch {
	case c.workers < 1 || c.workers > maxWorkers:
		return fmt.Errorf("-workers %d: give a number from 1 to %d", c.workers, maxWorkers)
	case c.reserve < 0 || c.reserve > maxReserve:
		return fmt.Errorf("-reserve %d: give a number from 0 to %d", c.reserve, maxReserve)
	case c.duration < minDuration:
		return fmt.Errorf("-duration %s: give at least %s", c.duration, minDuration)
	case c.allocation < minCalls || c.allocation > maxCalls:
		return fmt.Errorf("-allocation %d: give a number from %d to %d", c.allocation, minCalls, maxCalls)
	case c.other < 0 || c.other > maxOther:
		return fmt.Errorf("-other %d: give a number from 0 to %d", c.other, maxOther)
	case c.otherCalls < 0:
		return fmt.Errorf("-other-calls %d: give a number of at least 1", c.otherCalls)
	}
	if c.file != "" && c.redis != "" {
		return errors.New("-config and -redis do not go together: the file says where Redis is")
	}
	if c.redis != "" {
		if _, _, err := net.SplitHostPort(c.redis); err != nil {
			return fmt.Errorf("-redis %s: give host:port, such as 127.0.0.1:6379", c.redis)
		}
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
	return nil
}

func (c *config) validateReal(f *flag.FlagSet) error {
	if !c.isReal() {
		return nil
	}
	if c.real.domain == "" || c.real.token == "" {
		return errors.New("a real org needs both SALESFORCE_DOMAIN and SALESFORCE_ACCESS_TOKEN: set them both, or none for the stand-in")
	}
	u, err := url.Parse("https://" + strings.TrimSuffix(strings.TrimPrefix(c.real.domain, "https://"), "/"))
	if err != nil || u.Host == "" || u.Hostname() != u.Host || u.Host+u.Path != u.Host || u.RawQuery != "" {
		return fmt.Errorf("SALESFORCE_DOMAIN %q: give the org's own domain, such as acme.my.salesforce.com", c.real.domain)
	}
	c.real.domain = u.Host
	f.Visit(func(set *flag.Flag) {
		switch set.Name {
		case "allocation", "other", "other-calls", "listen":
			err = fmt.Errorf("-%s is for the stand-in only: unset SALESFORCE_DOMAIN and SALESFORCE_ACCESS_TOKEN to use it", set.Name)
		}
	})
	return err
}

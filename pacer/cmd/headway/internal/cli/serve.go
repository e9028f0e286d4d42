package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/report"
	"github.com/headway-go/headway/pacer/config"
	"github.com/headway-go/headway/pacer/serve"
)

// noState turns the state file off.
const noState = "none"

// serveFlags are the flags of serve.
type serveFlags struct {
	config, upstream, profile string
	policies                  []string
	proxy, api                serve.Endpoint
	tokenFile, cert, key      string
	insecurePlain, tooMany    bool
	credentials, state        string
	usesRedis                 bool
}

func (a *app) serve() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Pace requests of programs in any language: a proxy and an API",
		Long: `Pace the requests of programs in any language. The proxy forwards http://127.0.0.1:8712/<upstream>/path when the limits allow it; the API
at http://127.0.0.1:8713/v1/ is for programs that make their calls themselves. The file is that of package config; without one, --upstream
and --policy describe one upstream, to which all requests go. Limits are in memory, or with a store in the file or --redis shared with other
processes. docs/serve.md has examples.

Beyond loopback, a token and TLS are required. The token is in a file, or in the environment variable HEADWAY_TOKEN.`,
		Example: `  headway serve --upstream https://api.example.com --policy "10 per 1s" --policy "10000 per day"
  headway serve --config headway.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.usesRedis = cmd.Flags().Changed("redis")
			return a.runServe(cmd.Context(), &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "path of a headway.yaml, which is followed while it changes")
	flags.StringVar(&f.upstream, "upstream", "", "in place of a file: the URL of the upstream, such as https://api.example.com")
	flags.StringArrayVar(&f.policies, "policy", nil, `a limit of --upstream, such as "10 per 1s"; repeat it for more (default: replies state the limits)`)
	flags.StringVar(&f.profile, "profile", "", "the vendor whose replies --upstream sends, such as github")
	flags.StringVar(&f.proxy.Address, "listen", "127.0.0.1:8712", "address of the proxy: host:port, or the path of a Unix socket")
	flags.StringVar(&f.api.Address, "api", "127.0.0.1:8713", "address of the API: host:port, or the path of a Unix socket")
	flags.StringVar(&f.tokenFile, "token-file", "", "file with the token that clients must send")
	flags.StringVar(&f.cert, "tls-cert", "", "file with the certificate of both addresses")
	flags.StringVar(&f.key, "tls-key", "", "file with its key")
	flags.BoolVar(&f.insecurePlain, "insecure-plain", false, "serve beyond loopback without TLS: anyone on the network can read the token and the requests")
	flags.IntVar(&f.proxy.MaxConnections, "max-connections", 20_000, "connections, and requests over HTTP/2, at once of each address") //nolint:mnd // the default
	flags.StringVar(&f.credentials, "credentials", "", "file with credentials to add to requests, of mode 600, or 440 for a service")
	flags.StringVar(&f.state, "state", "", "file that keeps what windows in memory have counted, or "+noState+
		" (default: in $STATE_DIRECTORY or the user's cache directory)")
	flags.BoolVar(&f.tooMany, "too-many-requests", false, "answer requests that may not go in time with 429 (default: 503)")
	return cmd
}

// runServe serves until ctx ends.
func (a *app) runServe(ctx context.Context, f *serveFlags) (err error) {
	c, err := a.serveConfig(f)
	if err != nil {
		return err
	}
	token, err := a.token(f.tokenFile)
	if err != nil {
		return err
	}
	var listeners []*serve.Listener
	defer func() {
		for _, l := range listeners {
			_ = l.Close() // or Run has
		}
	}()
	for _, e := range []serve.Endpoint{f.proxy, f.api} {
		e.Token, e.CertFile, e.KeyFile, e.InsecurePlain, e.MaxConnections = token, f.cert, f.key, f.insecurePlain, f.proxy.MaxConnections
		l, err := serve.Listen(ctx, e)
		if err != nil {
			return err
		}
		listeners = append(listeners, l)
	}
	s, err := serve.Open(ctx, c) // which reads and writes the state: no other process listens here
	if len(config.Mistakes(err)) > 0 {
		return &mistaken{err}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	signal.Ignore(syscall.SIGHUP) // which makes other daemons read their files again: this one does when the file changes
	c.Logger.Info("headway serve: listening", "proxy", listeners[0].Addr().String(), "api", listeners[1].Addr().String(), "state", c.State)
	return s.Run(ctx, listeners[0], listeners[1])
}

// serveConfig returns what the flags describe.
func (a *app) serveConfig(f *serveFlags) (c serve.Config, err error) {
	c.Path, c.Credentials, c.TooManyRequests = f.config, f.credentials, f.tooMany
	c.Logger = slog.New(slog.NewTextHandler(a.env.Err, nil))
	switch {
	case (f.config == "") == (f.upstream == ""):
		return c, usagef("serve needs --config or --upstream, and not both")
	case f.upstream == "" && (len(f.policies) > 0 || f.profile != "" || f.usesRedis):
		return c, usagef("--policy, --profile and --redis go with --upstream: with --config, they are in the file")
	case f.upstream != "":
		if c.File, c.Root, err = a.fileOf(f); err != nil {
			return c, err
		}
	}
	if f.state != noState {
		c.State = f.state
	}
	if f.state == "" {
		c.State = a.defaultState(f.proxy.Address, c.Logger)
	}
	return c, nil
}

// fileOf returns a file with the upstream of the flags.
func (a *app) fileOf(f *serveFlags) (file *config.File, name string, err error) {
	at, err := url.Parse(f.upstream)
	if err != nil || at.Hostname() == "" {
		return nil, "", usagef("--upstream is not a URL: write it as https://api.example.com")
	}
	name = at.Hostname()
	upstream := map[string]any{"url": f.upstream, "policies": f.policies}
	if len(f.policies) == 0 {
		upstream["policies"] = "none"
	}
	if f.profile != "" {
		upstream["profile"] = f.profile
	}
	text := map[string]any{"upstreams": map[string]any{name: upstream}}
	if f.usesRedis {
		text["stores"], text["store"] = map[string]any{"redis": map[string]any{"redis": a.where.Redis}}, "redis"
	}
	data, err := json.Marshal(text) // which is YAML
	if err != nil {
		return nil, "", err
	}
	if file, err = config.Parse("flags", data); err != nil {
		var text strings.Builder
		for _, one := range config.Mistakes(err) {
			_, _ = fmt.Fprintf(&text, "%s: %v\n", f.flagOf(one.Path), one.Err)
		}
		return nil, "", usagef("%s", report.Clean(oneLine(text.String())))
	}
	return file, name, nil
}

// flagOf returns the flag that a part of the file of the flags is from.
func (f *serveFlags) flagOf(path string) string {
	field, i := path[strings.LastIndexByte(path, '.')+1:], 0
	switch _, err := fmt.Sscanf(field, "policies[%d]", &i); {
	case err == nil:
		return "--policy " + strconv.Quote(f.policies[i])
	case field == "url":
		return "--upstream"
	case field == "profile":
		return "--profile"
	}
	return path
}

// token returns the token that clients must send; "" for none.
func (a *app) token(path string) (string, error) {
	if path == "" {
		return strings.TrimSpace(a.env.Get("HEADWAY_TOKEN")), nil
	}
	file, err := os.Open(path) //nolint:gosec // the operator chooses the file
	if err != nil {
		return "", usagef("--token-file %s cannot be read: %w", path, errors.Unwrap(err))
	}
	defer func() { _ = file.Close() }()
	const most = 4096
	data, err := io.ReadAll(io.LimitReader(file, most))
	token := strings.TrimSpace(string(data))
	if err != nil || token == "" {
		return "", usagef("--token-file %s has no token", path)
	}
	return token, nil
}

// defaultState returns the path of the state file of a proxy; "" if there is no directory for it.
func (a *app) defaultState(address string, log *slog.Logger) string {
	dir := a.env.Get("STATE_DIRECTORY") // systemd sets it
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err == nil {
			dir = filepath.Join(cache, "headway")
			const onlyUser = 0o700
			err = os.MkdirAll(dir, onlyUser)
		}
		if err != nil {
			log.Warn("headway serve: there is no directory for the state, so that a restart begins all limits anew: set --state")
			return ""
		}
	}
	safe := strings.Map(func(r rune) rune {
		if strings.ContainsRune("/:[]", r) {
			return '_'
		}
		return r
	}, address)
	return filepath.Join(dir, fmt.Sprintf("serve-%s.json", safe))
}

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/report"
	"github.com/headway-go/headway/pacer/config"
	"github.com/headway-go/headway/policies"
)

// A checked file is what check prints as JSON.
type checked struct {
	File      string            `json:"file"`
	Upstreams []checkedUpstream `json:"upstreams"`
}

// A checkedUpstream is an upstream of a checked file.
type checkedUpstream struct {
	Upstream string          `json:"upstream"`
	Store    string          `json:"store"`
	Profile  string          `json:"profile"`
	Hosts    []string        `json:"hosts"`
	Policies []checkedPolicy `json:"policies"`
}

// A checkedPolicy is one of its policies.
type checkedPolicy struct {
	Name      string `json:"name"`
	Text      string `json:"text"`
	Overrides bool   `json:"overrides"`
}

func (a *app) check() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a headway.yaml for mistakes",
		Long: `Check a file that package config reads, headway.yaml. It prints the upstreams and policies of the file, or each mistake with file,
line and column. It needs no Redis and reads no environment variables. docs/config.md describes the file.`,
		Example: "  headway check headway.yaml",
		Args:    exactly(1),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := config.Load(args[0])
			if err != nil {
				return &mistaken{err}
			}
			return a.printChecked(args[0], f)
		},
	}
}

func (a *app) printChecked(path string, f *config.File) error {
	c := checked{File: path, Upstreams: []checkedUpstream{}}
	for _, name := range f.Upstreams() {
		profile, _ := f.Profile(name)
		u := checkedUpstream{
			Upstream: name, Store: f.Store(name), Profile: profile.Name, Hosts: append([]string{}, f.Hosts(name)...), Policies: []checkedPolicy{},
		}
		for _, p := range policies.Stacked(f.Policies(name)) {
			u.Policies = append(u.Policies, checkedPolicy{p.Name(), p.String(), p.HasOverrides()})
		}
		c.Upstreams = append(c.Upstreams, u)
	}
	if a.json {
		return a.printJSON(c)
	}
	w := tabwriter.NewWriter(a.env.Out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "UPSTREAM\tSTORE\tPROFILE\tPOLICIES") // Flush returns errors
	for _, u := range c.Upstreams {
		if len(u.Policies) == 0 {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t-\n", u.Upstream, u.Store, u.Profile)
		}
		name, store, profile := u.Upstream, u.Store, u.Profile
		for _, p := range u.Policies {
			text := report.Clean(p.Text)
			if p.Overrides {
				text += " (some keys have their own limits)"
			}
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", name, store, profile, text)
			name, store, profile = "", "", ""
		}
	}
	return w.Flush()
}

// mistaken is the error of a file with mistakes.
type mistaken struct{ error }

// Unwrap returns the mistakes.
func (m *mistaken) Unwrap() error { return m.error }

// A mistake is one mistake of a file, in JSON.
type mistake struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Path   string `json:"path"`
	Error  string `json:"error"`
}

// print writes each mistake on a line, as compilers do, or all of them as JSON.
func (m *mistaken) print(w io.Writer, asJSON bool) {
	all := config.Mistakes(m.error)
	if !asJSON {
		for _, e := range all {
			_, _ = fmt.Fprintf(w, "%s\n", report.Clean(oneLine(e.Error())))
		}
		return
	}
	list := make([]mistake, 0, len(all))
	for _, e := range all {
		list = append(list, mistake{report.Clean(e.File), e.Line, e.Column, report.Clean(e.Path), report.Clean(oneLine(e.Err.Error()))})
	}
	line, _ := json.Marshal(struct { //nolint:errchkjson // strings and numbers always can be
		failure

		Mistakes []mistake `json:"mistakes"`
	}{failure{"the file has " + report.Plural(int64(len(list)), "mistake", "mistakes"), ExitFailed}, list})
	_, _ = fmt.Fprintf(w, "%s\n", line)
}

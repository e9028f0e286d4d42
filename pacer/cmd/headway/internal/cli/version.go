package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// A build is what version prints as JSON.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Show the version of this program, and what built it",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			b := buildOf(debug.ReadBuildInfo())
			if a.json {
				return a.printJSON(b)
			}
			commit := ""
			if b.Revision != "" {
				commit = ", commit " + b.Revision
			}
			if b.Modified {
				commit += " with changes"
			}
			_, err := fmt.Fprintf(a.env.Out, "headway %s%s (%s, %s)\n", b.Version, commit, b.Go, b.Platform)
			return err
		},
	}
}

// buildOf returns the build that the linker recorded. A checkout has the version "(devel)", or that of its commit.
func buildOf(info *debug.BuildInfo, ok bool) build {
	b := build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

package cli

import (
	"bytes"
	"encoding/json"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// The version is the module's, with the commit of a checkout, and it needs no store.
func TestVersion(t *testing.T) {
	t.Parallel()
	run := func(args ...string) string {
		var out, errs bytes.Buffer
		code := Run(t.Context(), args, Env{Get: func(string) string { return "" }, Out: &out, Err: &errs})
		require.Equal(t, ExitDone, code, errs.String())
		return out.String()
	}
	require.Regexp(t, `^headway \S+.* \(go1\.\S+, \w+/\w+\)\n$`, run("version"))
	var b build
	require.NoError(t, json.Unmarshal([]byte(run("version", "--json")), &b))
	require.Equal(t, runtime.Version(), b.Go)

	of := func(version string, settings ...debug.BuildSetting) build {
		info := &debug.BuildInfo{Settings: settings}
		info.Main.Version = version
		b := buildOf(info, true)
		b.Go, b.Platform = "", ""
		return b
	}
	require.Equal(t, build{Version: "v0.3.1"}, of("v0.3.1"))
	require.Equal(t, build{Version: "(devel)", Revision: "1234", Modified: true},
		of("", debug.BuildSetting{Key: "vcs.revision", Value: "1234"}, debug.BuildSetting{Key: "vcs.modified", Value: "true"}))
}

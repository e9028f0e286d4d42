package cli_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/cli"
)

// startServe runs serve until the test ends, and returns the addresses of the proxy and the API.
func startServe(t *testing.T, env map[string]string, args ...string) (proxy, api string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	log, write := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0"}, args...),
			cli.Env{Get: func(name string) string { return env[name] }, In: strings.NewReader(""), Out: io.Discard, Err: write})
		_ = write.Close()
	}()
	t.Cleanup(func() {
		stop()
		require.Equal(t, cli.ExitDone, <-ended)
	})
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if m := regexp.MustCompile(`proxy=(\S+) api=(\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return m[1], m[2]
		}
	}
	require.Fail(t, "it does not serve")
	return "", ""
}

// answer returns the status and the body of a request.
func answer(t *testing.T, url, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	if token != "" {
		req.Header.Set("Headway-Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

// Flags describe one upstream, and a file several. Counts are kept in systemd's folder.
func TestServe(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello "+r.URL.Path) }))
	t.Cleanup(upstream.Close)
	dir := t.TempDir()
	proxy, api := startServe(t, map[string]string{"STATE_DIRECTORY": dir}, "--upstream", upstream.URL+"/v2", "--policy", "10 per 1s", "--policy", "10000 per day")
	status, body := answer(t, "http://"+proxy+"/x", "")
	require.Equal(t, []any{http.StatusOK, "hello /v2/x"}, []any{status, body})
	_, body = answer(t, "http://"+api+"/v1/status", "")
	require.Contains(t, body, `"upstream":"127.0.0.1"`)
	require.FileExists(t, filepath.Join(dir, "serve-127.0.0.1_0.json"))

	file, token := filepath.Join(dir, "headway.yaml"), strings.Repeat("t", 32)
	require.NoError(t, os.WriteFile(file, []byte(`upstreams: {crm: {url: "`+upstream.URL+`", policies: [10/s]}}`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "token"), []byte(token+"\n"), 0o600))
	proxy, _ = startServe(t, nil, "--config", file, "--state", "none", "--token-file", filepath.Join(dir, "token"))
	status, _ = answer(t, "http://"+proxy+"/crm/x", "")
	require.Equal(t, http.StatusUnauthorized, status)
	status, body = answer(t, "http://"+proxy+"/crm/x", token)
	require.Equal(t, []any{http.StatusOK, "hello /x"}, []any{status, body})
}

// A second process at the same address changes nothing of the first one's state.
func TestServeTwice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, first.Close()) }()
	path := filepath.Join(dir, "state")
	require.NoError(t, os.WriteFile(path, []byte("[{}]"), 0o600))
	got := run(t, "serve", "--upstream", "https://a", "--state", path, "--listen", "127.0.0.1:0", "--api", first.Addr().String())
	require.NotEqual(t, cli.ExitDone, got.code)
	require.Contains(t, got.err, "address already in use")
	state, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "[{}]", string(state))
}

// Mistakes in the command line, or the file, are reported.
func TestServeMistakes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "headway.yaml")
	require.NoError(t, os.WriteFile(file, []byte("upstreams: {crm: {policies: [fast]}}"), 0o600))
	for args, want := range map[string]string{
		"":                                             "serve needs --config or --upstream, and not both",
		"--config x --upstream y":                      "serve needs --config or --upstream, and not both",
		"--config x --policy 10/s":                     "--policy, --profile and --redis go with --upstream",
		"--config x --redis h:1":                       "--policy, --profile and --redis go with --upstream",
		"--upstream api.example.com":                   "--upstream is not a URL: write it as https://api.example.com",
		"--upstream ftp://a.example":                   "headway: --upstream: is not a URL of the form https://host",
		"--upstream https://a --policy fast":           `headway: --policy "fast": not understood`,
		"--upstream https://a --profile nobody":        "unknown profile",
		"--upstream https://a --redis redis://u:p@h:1": "password",
		"--upstream https://a --token-file /nowhere":   "--token-file /nowhere cannot be read",
		"--upstream https://a --token-file /dev/null":  "--token-file /dev/null has no token",
		"--upstream https://a --listen :0":             "set a token (--token-file)",
		"--upstream https://a --credentials /nowhere":  "Credentials",
		"--upstream https://a --max-connections -1":    "MaxConnections",
		"--config " + file:                             "headway.yaml:1:30: upstreams.crm.policies[0]",
		"--config /nowhere":                            "/nowhere: cannot be read",
		"--upstream https://a more":                    "unknown command",
	} {
		got := run(t, append([]string{"serve", "--state", "none", "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0"}, strings.Fields(args)...)...)
		require.NotEqual(t, cli.ExitDone, got.code)
		require.Contains(t, got.err, want, args)
		require.NotContains(t, got.err, "goroutine")
	}
}

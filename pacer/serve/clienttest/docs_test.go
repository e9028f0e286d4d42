package clienttest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/headway-go/headway/pacer/config"
	"github.com/headway-go/headway/pacer/serve"
)

// page returns docs/serve.md.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/serve.md")
	require.NoError(t, err)
	return string(text)
}

// examples returns the code of docs/serve.md in a language, below the heading of the examples.
func examples(t *testing.T, language string) []string {
	t.Helper()
	_, text, found := strings.Cut(page(t), "\n## Examples\n")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "\n## ")
	return blocks(t, text, language)
}

// blocks returns the code in a language.
func blocks(t *testing.T, text, language string) (all []string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	require.NotEmpty(t, all, language)
	return all
}

// at returns code with the addresses of a test.
func (d *daemon) at(code string) string {
	host, port, _ := strings.Cut(d.Proxy, ":")
	return strings.NewReplacer("127.0.0.1:8712", d.Proxy, "127.0.0.1:8713", d.API, `"127.0.0.1", 8712`, `"`+host+`", `+port).Replace(code)
}

// The examples of the page run as they are, except for the addresses.
func TestTheExamplesRun(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header["Headway-Scope"]) > 0 {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = fmt.Fprint(w, "hello ", r.URL.Path)
	}))
	t.Cleanup(upstream.Close)
	d := startDaemon(t, `upstreams: {crm: {url: "`+upstream.URL+`", policies: ["10 per 1s, burst 10", "tenant: 5/s, per tenant, optional"]}}`)
	for language, file := range map[string]string{"sh": "example.sh", "python": "example.py", "js": "example.mjs", "ruby": "example.rb"} {
		for i, code := range examples(t, language) {
			if strings.Contains(code, "celery") {
				continue // see TestCelery
			}
			t.Run(fmt.Sprintf("%s %d", language, i), func(t *testing.T) {
				t.Parallel()
				command := map[string]string{"sh": "bash", "js": "node", "ruby": "ruby"}[language]
				switch {
				case language == "python":
					command = python(t, "requests")
				case language == "sh" && strings.Contains(code, "--json"):
					if exec.Command("curl", "--json", "{}", "file:///dev/null").Run() != nil {
						t.Skip("the curl here has no --json: it needs 7.82")
					}
				}
				if _, err := exec.LookPath(command); err != nil {
					t.Skipf("%s is not installed", command)
				}
				path := filepath.Join(t.TempDir(), file)
				require.NoError(t, os.WriteFile(path, []byte(d.at(code)), 0o600))
				out := run(t, command, path)
				if strings.Contains(code, "/v1/") {
					require.Contains(t, out, `"wait_ms":0`)
				} else {
					require.Equal(t, "hello /tickets/7", strings.TrimSpace(out))
				}
			})
		}
	}
}

// The files of the page are what they are for: limits and credentials that go together, a problem, a unit of systemd, and a part of a pod that
// mounts the file where the image reads it.
func TestTheFilesOfThePage(t *testing.T) {
	t.Parallel()
	text, dir := page(t), t.TempDir()
	files, objects := blocks(t, text, "yaml"), blocks(t, text, "json")
	secret := filepath.Join(dir, "credentials.json")
	require.NoError(t, os.WriteFile(secret, []byte(objects[1]), 0o600))
	file, err := config.Parse("headway.yaml", []byte(files[0]+`
  github: {url: "https://api.github.com", policies: ["9/s, per user"]}`))
	require.NoError(t, err)
	s, err := serve.Open(t.Context(), serve.Config{File: file, Credentials: secret})
	require.NoError(t, err)
	require.NoError(t, s.Close())

	var problem serve.Problem
	d := json.NewDecoder(strings.NewReader(objects[0]))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&problem))

	var pod struct {
		Containers []struct {
			Restart string `yaml:"restartPolicy"`
			Mounts  []struct {
				Name string `yaml:"name"`
				Path string `yaml:"mountPath"`
			} `yaml:"volumeMounts"`
		} `yaml:"initContainers"`
		Volumes []struct {
			Name string            `yaml:"name"`
			Map  map[string]string `yaml:"configMap"`
		} `yaml:"volumes"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(files[1]), &pod))
	require.Equal(t, "Always", pod.Containers[0].Restart, "else it is no sidecar")
	require.Equal(t, pod.Volumes[0].Name, pod.Containers[0].Mounts[0].Name)
	require.NotEmpty(t, pod.Volumes[0].Map["name"])
	require.Contains(t, blocks(t, text, "dockerfile")[0], `"--config", "`+pod.Containers[0].Mounts[0].Path+`/headway.yaml"`)

	unit := filepath.Join(dir, "headway.service")
	require.NoError(t, os.WriteFile(unit, []byte(strings.Replace(blocks(t, text, "ini")[0], "/usr/local/bin/headway", os.Args[0], 1)), 0o600))
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	out, err := exec.Command("systemd-analyze", "verify", unit).CombinedOutput()
	require.NoError(t, err)
	require.Empty(t, string(out))
}

// SDKs need no change but the base URL: one in Python, and one in JavaScript.
func TestSDKs(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Ratelimit-Remaining", "4999")
		_, _ = fmt.Fprintf(w, `{"login": "octocat", "authorization": %q, "path": %q}`, r.Header.Get("Authorization"), r.URL.Path)
	}))
	t.Cleanup(upstream.Close)
	d := startDaemon(t, `upstreams: {github: {url: "`+upstream.URL+`", profile: github, policies: ["100/s, burst 10"]}}`)
	t.Run("PyGithub", func(t *testing.T) {
		t.Parallel()
		code := `import sys, github
hub = github.Github("secret", base_url=sys.argv[1])
print(hub.get_user("octocat").login)`
		require.Equal(t, "octocat\n", run(t, python(t, "github"), "-c", code, "http://"+d.Proxy+"/github"))
	})
	t.Run("octokit", func(t *testing.T) {
		t.Parallel()
		code := `import { createRequire } from "node:module";
const { Octokit } = await import(createRequire(process.cwd() + "/").resolve("@octokit/core"));
const hub = new Octokit({ auth: "secret", baseUrl: process.argv[1] });
console.log((await hub.request("GET /user")).data.login);`
		if exec.Command("node", "-e", `require.resolve("@octokit/core")`).Run() != nil {
			t.Skip("Node or its package @octokit/core is not installed: npm install it in a folder of NODE_PATH")
		}
		require.Equal(t, "octocat\n", run(t, "node", "--input-type=module", "-e", code, "http://"+d.Proxy+"/github"))
	})
}

package recipes_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// packages are the imports of the pages' fragments, by their names.
var packages = map[string]string{
	"asynq": "github.com/hibiken/asynq", "asynqpacer": "github.com/headway-go/headway/pacer/asynqpacer", "config": "github.com/headway-go/headway/pacer/config",
	"context": "context", "errors": "errors", "fleet": "github.com/headway-go/headway/pacer/fleet", "github": "github.com/headway-go/headway/policies/github",
	"grpc": "google.golang.org/grpc", "grpcpacer": "github.com/headway-go/headway/pacer/grpcpacer", "hooks": "github.com/headway-go/headway/pacer/hooks",
	"http": "net/http", "insecure": "google.golang.org/grpc/credentials/insecure", "io": "io", "log": "log", "oauth2": "golang.org/x/oauth2", "openai": "github.com/headway-go/headway/policies/openai", "os": "os",
	"otelpacer": "github.com/headway-go/headway/pacer/otelpacer", "otelprometheus": "go.opentelemetry.io/otel/exporters/prometheus",
	"pacer": "github.com/headway-go/headway/pacer", "page": "github.com/headway-go/headway/pacer/page", "pgx": "github.com/jackc/pgx/v5",
	"policies": "github.com/headway-go/headway/policies", "prometheus": "github.com/prometheus/client_golang/prometheus",
	"promhttp": "github.com/prometheus/client_golang/prometheus/promhttp", "redis": "github.com/redis/go-redis/v9",
	"redisstore": "github.com/headway-go/headway/pacer/redisstore", "river": "github.com/riverqueue/river", "riverpacer": "github.com/headway-go/headway/pacer/riverpacer",
	"rivertype": "github.com/riverqueue/river/rivertype", "sdkmetric": "go.opentelemetry.io/otel/sdk/metric", "slog": "log/slog",
	"store": "github.com/headway-go/headway/pacer/store", "time": "time", "tls": "crypto/tls", "transport": "github.com/headway-go/headway/transport",
	"x509": "crypto/x509", "zendesk": "github.com/headway-go/headway/policies/zendesk",
}

// given are the variables that a fragment leaves to its reader, by its page and its number there.
var given = map[string]string{
	"README 2": "limits []policies.Policy", "aws 2": "p *pacer.Pacer, sign func(*http.Request, time.Time) error", "concepts 1": "loc *time.Location",
	"grpc 1": "p *pacer.Pacer, method grpcpacer.Option", "jobs 2": "p *pacer.Pacer, client *river.Client[pgx.Tx], args river.JobArgs",
	"jobs 3": "p *pacer.Pacer, client *asynq.Client, payload []byte, mux *asynq.ServeMux", "jobs 4": "r *pacer.Reservation, url string, body io.Reader, client *http.Client",
	"observe 1": "perTenant policies.Policy", "page 1": "zendesk, salesforce *pacer.Pacer, requireAdmin func(http.Handler) http.Handler, mux *http.ServeMux, server *http.Server",
	"policies 2": "endpointOf func(*http.Request) string", "pools 1": "secrets map[string]string", "pools 2": "pool *pacer.Pool, secrets map[string]string",
	"pools 3": "set func(*http.Request, string) error", "pools 4": "p *pacer.Pacer", "redis 2": "roots *x509.CertPool", "telemetry 1": "limits []policies.Policy, logger *slog.Logger",
	"telemetry 2": "limits []policies.Policy, logger *slog.Logger", "tutorial 1": "store *redisstore.Store",
	"tutorial 2": "err error, p *pacer.Pacer, client interface{ Send(context.Context, string) error }, message string", "tutorial 3": "p *pacer.Pacer",
	"tutorial 4": "loc *time.Location", "tutorial 5": "err error, p *pacer.Pacer", "vendors 1": "p *pacer.Pacer, source oauth2.TokenSource",
}

// inlineCode is a call in backticks.
var inlineCode = regexp.MustCompile("`((?:[a-z]\\w*\\.)[A-Z][^`]*)`")

var qualifier = regexp.MustCompile(`\b([a-z][a-z0-9]*)\.[A-Z]`)

// importsOf returns the imports of a fragment, and their names.
func importsOf(code string) (imports string, seen []string) {
	for _, q := range qualifier.FindAllStringSubmatch(code, -1) {
		path, ok := packages[q[1]]
		if _, err := os.Stat("../../policies/" + q[1]); !ok && err == nil {
			path, ok = "github.com/headway-go/headway/policies/"+q[1], true
		}
		if local := regexp.MustCompile(`\b` + q[1] + `\b(, \w+)* (:?=|\*)`); !ok || slices.Contains(seen, q[1]) || local.MatchString(code) {
			continue
		}
		seen = append(seen, q[1])
		imports += fmt.Sprintf("import %s %q\n", q[1], path)
	}
	return imports, seen
}

// Each Go fragment of README.md and of docs/ compiles, with the variables that it leaves to its reader, and so does each call in backticks.
// Whole programs run in other tests.
func TestTheFragmentsCompile(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	dir, err := os.MkdirTemp(".", ".pasted") //nolint:usetesting // it has to be in the module
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	fragments := 0
	var called strings.Builder // the calls in backticks
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		p := "p *pacer.Pacer, pool *pacer.Pool, r *pacer.Reservation"
		if name == "config" {
			p = "p *config.Pacers"
		}
		fmt.Fprintf(&called, "func _(ctx context.Context, %s) {\n", p)
		for _, m := range inlineCode.FindAllStringSubmatch(regexp.MustCompile("(?s)```.*?```").ReplaceAllString(string(text), ""), -1) {
			code := strings.Join(strings.Fields(m[1]), " ")
			expr, err := parser.ParseExpr(code)
			if err != nil || !strings.Contains(code, "(") {
				continue // it is a part of a call, or has an ellipsis
			}
			if _, ok := expr.(*ast.CallExpr); !ok {
				code = "_ = " + code
			}
			fmt.Fprintf(&called, "//line %s:1\n%s\n", filepath.Base(page), code)
		}
		called.WriteString("}\n")
		if name == "migrating" || name == "testing" { // the tests of these pages run their fragments
			continue
		}
		for i, m := range goBlock.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "package ") {
				continue
			}
			fragments++
			params := given[fmt.Sprintf("%s %d", name, i+1)]
			imports, seen := importsOf(params + " " + m[1])
			const types = "type BusyError struct{ RetryAfter time.Duration }\nfunc (*BusyError) Error() string { return \"\" }\n"
			more := ""
			if strings.Contains(m[1], "BusyError") {
				more = types
				if !slices.Contains(seen, "time") {
					imports += "import \"time\"\n"
				}
			}
			if !slices.Contains(seen, "context") {
				imports += "import \"context\"\n"
			}
			code := fmt.Sprintf("package fragments\n%s\n%sfunc _(ctx context.Context, %s) error {\n//line %s:1\n%s\nreturn nil\n}\n",
				imports, more, params, filepath.Base(page)+fmt.Sprint(i+1), m[1])
			require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s%d.go", strings.ToLower(name), i+1)), []byte(code), 0o600))
		}
	}
	require.Greater(t, fragments, 25)
	require.Greater(t, strings.Count(called.String(), "//line"), 60)
	imports, _ := importsOf(called.String())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "inline.go"), []byte("package fragments\n"+imports+called.String()), 0o600))
	out, _ := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-e", "./"+dir).CombinedOutput()
	fine := regexp.MustCompile(`^# |^go: downloading |declared and not used: |imported and not used$|\.md:1: .* is not used$|\.md:1: undefined: [a-z]\w*$`) // it may be named only in a comment, or be a conversion; a call may have a variable of its reader's
	for line := range strings.Lines(string(out)) {
		if !fine.MatchString(strings.TrimSpace(line)) {
			t.Error(strings.TrimSpace(line))
		}
	}
}

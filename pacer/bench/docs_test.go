package bench_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkedPages are the pages whose names of Go are checked.
var checkedPages = []string{"concepts.md", "config.md", "policies.md", "operating.md", "observe.md", "migrating.md", "jobs.md",
	"pools.md", "vendors.md", "tutorial.md", "guarantees.md", "errors.md", "redis.md"}

// foreign are packages of others that the pages speak of.
var foreign = strings.Fields("asynq connect context dsl errors fmt http log redis rate redis_rate os retryablehttp river rivertype temporal time tls workflow ratelimit logging slog url slices oauth2 option policy resty")

// TestThePagesNameWhatExists requires that each pkg.Name of the pages, and each Type.Member in backticks, is in the source.
func TestThePagesNameWhatExists(t *testing.T) {
	t.Parallel()
	known := readSource(t, "../..")
	require.True(t, known["pacer"]["Pacer.Wait"] && known["pacer"]["Config.Outage"] && known["zendesk"]["SuiteEnterprise"], "the source was not read")
	members, functions := make(names), names{"SetBurst": true, "OK": true} // which x/time/rate has
	for _, of := range known {
		for name := range of {
			members[name] = true
			functions[name[strings.LastIndexByte(name, '.')+1:]] = true
		}
	}
	qualified := regexp.MustCompile(`(^|[^\w."])([a-z][a-z_]*)\.([A-Z]\w*(?:\.[A-Z]\w*)?)`)
	member := regexp.MustCompile(`^\*?([A-Z]\w*\.[A-Z]\w*)`)
	called := regexp.MustCompile(`^([A-Z]\w*)\(`)
	for _, page := range checkedPages {
		checked := 0
		for _, code := range codeOf(t, page) {
			if m := member.FindStringSubmatch(code); m != nil {
				require.True(t, members[m[1]], "%s: %s does not exist", page, m[1])
			}
			if m := called.FindStringSubmatch(code); m != nil {
				require.True(t, functions[m[1]], "%s: nothing has %s", page, m[1])
			}
			for _, m := range qualified.FindAllStringSubmatch(code, -1) {
				pkg, name := m[2], m[3]
				of, ours := known[pkg]
				if !ours {
					require.True(t, slices.Contains(foreign, pkg) || isVariable(pkg), "%s: %q is no package: %s", page, pkg, code)
					continue
				}
				checked++
				require.True(t, of[name], "%s: %s.%s does not exist", page, pkg, name)
			}
		}
		require.Positive(t, checked, page)
	}
}

// TestTheCommentsNameWhatExists requires that what comments name of packages, in brackets or qualified, is in the source.
func TestTheCommentsNameWhatExists(t *testing.T) {
	t.Parallel()
	folders, packages, files := make(exported), make(exported), make(map[string]*ast.File)
	walkSource(t, "../..", func(path string, file *ast.File) {
		files[path] = file
		folders.add(filepath.Dir(path), file)
		packages.add(file.Name.Name, file)
	})
	link := regexp.MustCompile(`\[\*?((?:[A-Z]\w*\.)?[A-Z]\w*)\]`)
	qualified := regexp.MustCompile(`\b(pacer|policies|specs|store|hooks|fleet|transport|inbound|upstreamtest|redisstore|memstore)\.([A-Z]\w*(?:\.[A-Z]\w*)?)`)
	require.Greater(t, len(files), 300)
	for path, file := range files {
		for _, group := range file.Comments {
			for _, m := range link.FindAllStringSubmatch(group.Text(), -1) {
				if !folders[filepath.Dir(path)][m[1]] {
					t.Errorf("%s: %s does not exist", path, m[0])
				}
			}
			for _, m := range qualified.FindAllStringSubmatch(group.Text(), -1) {
				if !packages[m[1]][m[2]] {
					t.Errorf("%s: %s does not exist", path, m[0])
				}
			}
		}
	}
}

// isVariable reports whether it is a variable of the pages' code rather than a package.
func isVariable(name string) bool {
	return slices.Contains(strings.Fields("busy c call client ctx j kube later limit limiter m mu mux one opts p pool q r req res retrying shared"), name)
}

// TestTheTableOfVendors requires a row for each package with a profile, with its Limits and with all that it exports of calls
// in flight.
func TestTheTableOfVendors(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/vendors.md")
	require.NoError(t, err)
	rows := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^\| \[(\w+)\]\(\.\./policies/(\w+)/doc\.go\) .*$`).FindAllStringSubmatch(string(page), -1) {
		require.Equal(t, m[1], m[2])
		rows[m[1]] = m[0]
	}
	known := readSource(t, "../../policies")
	profiles, err := filepath.Glob("../../policies/*/profile.go")
	require.NoError(t, err)
	vendors := 0
	for _, path := range profiles {
		vendor := filepath.Base(filepath.Dir(path))
		if vendor == "ietf" {
			continue
		}
		vendors++
		require.NotEmpty(t, rows[vendor], "docs/vendors.md has no row for %s", vendor)
		require.True(t, known[vendor]["Profile"])
		require.Contains(t, rows[vendor], "`"+vendor+".Limits(")
		for _, name := range []string{"Concurrent", "EndpointConcurrent", "Mailbox"} {
			require.Equal(t, known[vendor][name], strings.Contains(rows[vendor], "`"+vendor+"."+name+"("), "%s.%s", vendor, name)
		}
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, strings.Contains(string(source), "\tSettle:"), strings.Contains(rows[vendor], "then settled"), "%s settles", vendor)
	}
	require.Len(t, rows, vendors, "a row of docs/vendors.md is about no vendor")
}

// TestThePagesLinkToWhatExists requires that relative links lead to files, and anchors to headings.
func TestThePagesLinkToWhatExists(t *testing.T) {
	t.Parallel()
	for _, page := range append(slices.Clip(checkedPages), "evidence.md", "figures.md", "inbound.md", "managed.md", "recipes.md", "telemetry.md", "testing.md") {
		text, err := os.ReadFile(filepath.Join("../../docs", page))
		require.NoError(t, err)
		prose := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(string(text), "")
		links := regexp.MustCompile(`\]\(([^):]*?)(?:#([^)]+))?\)`).FindAllStringSubmatch(prose, -1)
		require.NotEmpty(t, links, page)
		for _, link := range links {
			file, anchor := link[1], link[2]
			if file == "" {
				file = page
			}
			target, err := os.ReadFile(filepath.Join("../../docs", file))
			require.NoError(t, err, "%s links to %s", page, link[0])
			if anchor != "" {
				require.Contains(t, anchors(string(target)), anchor, "%s links to %s", page, link[0])
			}
		}
	}
}

// TestThePathsExist requires that the files and folders that the pages name in backticks exist.
func TestThePathsExist(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	for _, page := range append(pages, "../../README.md", "../../ARCHITECTURE.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile("`((?:pacer|policies|transport|luascripts|docs|examples|\\.ci)/[\\w./-]*)`").FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(m[1], "/vX.Y.Z") { // a tag
				_, err := os.Stat(filepath.Join("../..", m[1]))
				require.NoError(t, err, page)
			}
		}
	}
}

// TestTheQuestionsHaveAnswers requires of each question of a new user that the section which answers it exists, at most two clicks away from
// the README.
func TestTheQuestionsHaveAnswers(t *testing.T) {
	t.Parallel()
	pages := regexp.MustCompile(`\]\((?:\./)?([\w/.]+\.md)`)
	linked := func(from string) (all []string) {
		text, err := os.ReadFile(filepath.Join("../..", from))
		require.NoError(t, err)
		shown := regexp.MustCompile("(?s)<!--.*?-->").ReplaceAllString(string(text), "")
		for _, m := range pages.FindAllStringSubmatch(shown, -1) {
			all = append(all, filepath.Join(filepath.Dir(from), m[1]))
		}
		return all
	}
	near := linked("README.md")
	for _, page := range slices.Clone(near) {
		near = append(near, linked(page)...)
	}
	text, err := os.ReadFile("../../.ci/docs/questions.txt")
	require.NoError(t, err)
	questions := regexp.MustCompile(`(?m)^[^#\n].*$`).FindAllString(string(text), -1)
	require.Len(t, questions, 30)
	for _, q := range questions {
		parts := strings.Split(q, " | ")
		require.Len(t, parts, 3, q)
		page, section, _ := strings.Cut(parts[2], "#")
		require.Contains(t, near, page, q)
		answer, err := os.ReadFile(filepath.Join("../..", page))
		require.NoError(t, err, q)
		if section != "" {
			require.Contains(t, anchors(string(answer)), section, q)
		}
	}
}

// TestThePagesAreShort requires that a reader can finish them.
func TestThePagesAreShort(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	words := func(pages ...string) (n int) {
		for _, page := range pages {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			n += len(strings.Fields(string(text)))
		}
		return n
	}
	require.LessOrEqual(t, words(pages...), 20_000, "words in docs/*.md")
	require.LessOrEqual(t, words("../../README.md"), 900, "words in README.md")
	glossary, err := os.ReadFile("../../docs/glossary.md")
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(glossary), "\n|")-2, 20, "terms in the glossary")
}

// anchors returns those of a page's headings.
func anchors(page string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
		plain := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(plain, " ", "-"))
	}
	return all
}

package bench_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/redistest"
)

// command is what makes the report.
const command = "make bench"

// markdown writes the report: the machine, the targets, and each section.
func markdown(t *testing.T, sections []section) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks\n\n%s\n\n", machine(t))
	b.WriteString("Made by `" + command + "`, which measures Headway, its peers and the floors in the same run, and writes this page. The machine is shared " +
		"and noisy: contenders take turns in rounds, figures are medians of the rounds, ratios are medians of the ratios within a " +
		"round. Take them as sizes, and run them on yours.\n\n")

	b.WriteString("## Targets\n\n")
	var targets [][]string
	met, judged := 0, 0
	for _, s := range sections {
		for _, goal := range s.targets {
			if goal.judged() {
				judged++
				if goal.met {
					met++
				}
			}
			targets = append(targets, []string{goal.what, goal.want, goal.got, goal.timers(), goal.verdict()})
		}
	}
	fmt.Fprintf(&b, "%d of %d are met in this run", met, judged)
	if others := len(targets) - judged; others > 0 {
		fmt.Fprintf(&b, "; %d more are not judged", others)
	}
	b.WriteString(". *Timers late* is what the machine's own timers did meanwhile, and how late they may be for a figure to be judged: the latest of a " +
		"fleet's run, or the latest between the turns of a contender, in the median round.\n\n")
	table(&b, []string{"what", "target", "measured", "timers late", "met"}, targets)

	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n", s.title)
		if s.text != "" {
			b.WriteString(strings.TrimSpace(s.text) + "\n\n")
		}
		if len(s.head) > 0 {
			table(&b, s.head, s.rows)
		}
		for _, c := range s.charts {
			fmt.Fprintf(&b, "\n![%s](%s)\n", c.title, c.file)
		}
	}
	return b.String()
}

func table(b *strings.Builder, head []string, rows [][]string) {
	line := func(cells []string) {
		b.WriteString("|")
		for _, cell := range cells {
			b.WriteString(" " + strings.ReplaceAll(cell, "|", `\|`) + " |")
		}
		b.WriteString("\n")
	}
	line(head)
	b.WriteString("|" + strings.Repeat(" --- |", len(head)) + "\n")
	for _, row := range rows {
		line(row)
	}
}

// machine returns where and when the figures were taken.
func machine(t *testing.T) string {
	t.Helper()
	info, err := redistest.Start(t).Client().Info(t.Context(), "server").Result()
	require.NoError(t, err)
	server := parseInfo(info)
	store := "Redis " + server["redis_version"]
	if v := server["valkey_version"]; v != "" {
		store = "Valkey " + v
	}
	return fmt.Sprintf("%s, %d cores, %s; %s; %s on loopback; %s.",
		processor(), runtime.NumCPU(), system(), runtime.Version(), store, time.Now().UTC().Format("2 January 2006"))
}

// processor names the model, if the system has it.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// system names the operating system, with the version of a Linux kernel.
func system() string {
	name := runtime.GOOS + "/" + runtime.GOARCH
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		name += " " + strings.TrimSpace(string(release))
	}
	return name
}

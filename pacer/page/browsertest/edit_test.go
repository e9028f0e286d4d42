package browsertest_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// example is the folder of the program that docs/config.md runs from a file.
const example = "../../../examples/zendesk"

// TestAnEditedFileShows runs the Zendesk example from its file, edits the file, and sees the new limit on the page. With HEADWAY_PICTURES
// it also takes the picture in docs/config.md, of half a minute before the change and half a minute after it.
func TestAnEditedFileShows(t *testing.T) {
	needBrowser(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "headway.yaml")
	before, err := os.ReadFile(filepath.Join(example, "headway.yaml"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, before, 0o600))
	address := startExample(t, dir, "-config", file, "-duration", "5m", "-page", "127.0.0.1:0")
	b := newTab(t, 1000, 1500)
	b.open(address)
	b.until(`document.body.textContent.includes("at most 14 in any 1s")`)
	pictures, part := os.Getenv("HEADWAY_PICTURES"), time.Duration(0)
	if pictures != "" {
		part = 29 * time.Second
	}
	time.Sleep(part) //realtime: a picture shows half a minute

	after := strings.Replace(string(before), "peak: at most 14 in any 1s", "peak: at most 7 in any 1s", 1)
	require.NoError(t, os.WriteFile(file, []byte(after), 0o600))
	b.until(`document.body.textContent.includes("at most 7 in any 1s")`)
	b.until(`!document.body.textContent.includes("at most 14 in any 1s")`)
	time.Sleep(part) //realtime: a picture shows half a minute
	if pictures == "" {
		return
	}
	data, err := chromedp.Run(b, chromedp.CaptureScreenshot())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(pictures, "config-edit.png"), data, 0o644))
}

// startExample builds and starts the example, and returns the address of its page. The example ends with the test.
func startExample(t *testing.T, dir string, args ...string) string {
	t.Helper()
	program := filepath.Join(dir, "zendesk")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = example
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	run := exec.CommandContext(t.Context(), program, args...)
	progress, err := run.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, run.Start())
	addresses := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(progress); lines.Scan(); {
			if found := regexp.MustCompile(`live: (http://\S+)`).FindStringSubmatch(lines.Text()); found != nil {
				addresses <- found[1]
			}
		}
	}()
	t.Cleanup(func() {
		_ = run.Process.Kill()
		<-ended
		_ = run.Wait()
	})
	select {
	case address := <-addresses:
		return address
	case <-ended:
		require.Fail(t, "the example ended without a page")
	case <-time.After(patience):
		require.Fail(t, "the example shows no page")
	}
	return ""
}

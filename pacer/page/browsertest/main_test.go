package browsertest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"
)

// browser is where tests open their tabs: one Chromium for all of them. It is nil if there is none.
var browser context.Context

// TestMain starts Chromium with a profile of its own, and ends it.
func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	path := chromium()
	if path == "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "headway-chromium-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "browsertest: a folder for Chromium cannot be made:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	alloc, stop := chromedp.NewExecAllocator(context.Background(), flags(path, dir)...)
	defer stop()
	all, end := chromedp.NewContext(alloc)
	defer end()
	if err := chromedp.Do(all); err != nil {
		fmt.Fprintf(os.Stderr, "browsertest: %s does not start: %v\n", path, err)
		return 1
	}
	browser = all //nolint:fatcontext // it is set once, for all tests
	code := m.Run()
	if err := chromedp.Cancel(all); err != nil {
		fmt.Fprintln(os.Stderr, "browsertest: Chromium does not end:", err)
		code = 1
	}
	stop()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// flags start a Chromium that talks to nobody but the tests.
func flags(path, dir string) []chromedp.ExecAllocatorOption {
	return []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("font-render-hinting", "none"),
	}
}

// chromium returns where Chromium is; "" if there is none.
func chromium() string {
	if path := os.Getenv("HEADWAY_CHROMIUM"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// needBrowser skips a test where there is no Chromium; in CI it fails.
func needBrowser(t *testing.T) {
	t.Helper()
	if browser != nil {
		return
	}
	const message = "no Chromium: install one (apt-get install chromium, or make browser), or name it in HEADWAY_CHROMIUM"
	if os.Getenv("CI") == "true" {
		t.Fatal(message)
	}
	t.Skip(message)
}

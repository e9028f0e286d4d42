package browsertest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/internal/testing/measure"
)

// patience is how long a test waits for what must come. It is long, since a busy machine must not make a test fail.
const patience = time.Minute

// A tab is a page in the browser, and everything that went wrong in it.
type tab struct {
	context.Context

	t  *testing.T
	mu sync.Mutex
	// complaints are errors and warnings of the console, uncaught exceptions, and requests that failed.
	complaints []string
}

// newTab opens an empty tab of this size. The test fails in the end if anything in it went wrong.
func newTab(t *testing.T, width, height int64) *tab {
	t.Helper()
	needBrowser(t)
	b := &tab{t: t}
	ctx, end := chromedp.NewContext(browser, chromedp.WithListener(b.listen))
	t.Cleanup(end)
	require.NoError(t, chromedp.Do(ctx)) // opens it, for as long as ctx
	timed, stop := context.WithTimeout(ctx, patience*3)
	t.Cleanup(stop)
	b.Context = timed
	for _, err := range []error{
		call(b, network.Enable, network.EnableParams{}), call(b, cdplog.Enable, cdp.Empty{}), call(b, runtime.Enable, cdp.Empty{}),
		// It has the focus and is drawn, whatever tabs of other tests there are.
		call(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}),
	} {
		require.NoError(t, err)
	}
	b.run(chromedp.EmulateViewport(width, height))
	t.Cleanup(func() { require.Empty(t, b.complained(), "the browser complained") })
	return b
}

// call runs a command of the protocol that returns nothing of interest.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) error {
	_, err := chromedp.Call(b, command, params)
	return err
}

func (b *tab) listen(event any) {
	text := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = "exception: " + e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			text = fmt.Sprintf("console.%s", e.Type)
			for _, a := range e.Args {
				text += " " + string(a.Value) + a.Description
			}
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning {
			text = "log: " + e.Entry.Text + " " + e.Entry.URL
		}
	case *network.EventLoadingFailed:
		if !e.Canceled && e.ErrorText != "net::ERR_ABORTED" {
			text = "request failed: " + e.ErrorText
		}
	case *network.EventResponseReceived:
		if e.Response.Status >= http.StatusBadRequest {
			text = fmt.Sprintf("%s: status %d", e.Response.URL, e.Response.Status)
		}
	}
	if text != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.complaints = append(b.complaints, text)
	}
}

func (b *tab) complained() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.complaints
}

// forgive drops complaints that a test expects, which contain one of these, and returns them.
func (b *tab) forgive(parts ...string) (dropped []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = slices.DeleteFunc(b.complaints, func(c string) bool {
		expected := slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(c, part) })
		if expected {
			dropped = append(dropped, c)
		}
		return expected
	})
	return dropped
}

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b, actions...), "complaints: %v", b.complained())
}

// open opens a page and waits until it shows figures.
func (b *tab) open(url string) {
	b.t.Helper()
	b.run(chromedp.Navigate(url))
	b.until(`document.getElementById("link").dataset.state === "live"`)
}

// until waits until an expression holds.
func (b *tab) until(js string) {
	b.t.Helper()
	_, err := chromedp.Run(b, chromedp.Poll[chromedp.Void](js, chromedp.WithPollingInterval(20*time.Millisecond),
		chromedp.WithPollingTimeout(patience)))
	require.NoError(b.t, err, "%s; complaints: %v", js, b.complained())
}

// showsPause waits until a pause of "peak" is shown, which began just now, and measures how long that takes.
func (b *tab) showsPause() {
	b.t.Helper()
	timers, begin := measure.Watch(), time.Now()
	b.until(`!document.querySelector('[data-policy="peak"] .badge.paused').hidden`)
	took := time.Since(begin) //realtime: measured
	measure.Judge(b.t, timers.Stop(), 20*time.Millisecond, fmt.Sprintf("shown after %v", took.Round(time.Millisecond)), took < time.Second)
}

// value returns what an expression is.
func value[T any](b *tab, js string) T {
	b.t.Helper()
	v, err := chromedp.Run(b, chromedp.Evaluate[T](js))
	require.NoError(b.t, err, js)
	return v
}

// dark makes the browser prefer a dark page, or a light one.
func (b *tab) dark(on bool) {
	b.t.Helper()
	scheme := "light"
	if on {
		scheme = "dark"
	}
	b.prefer("prefers-color-scheme", scheme)
}

// prefer sets one preference of who looks.
func (b *tab) prefer(feature, v string) {
	b.t.Helper()
	require.NoError(b.t, call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: feature, Value: v}},
	}))
}

// serve serves a handler on loopback, at a prefix that is not the root.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/debug/headway/", h)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL + "/debug/headway/"
}

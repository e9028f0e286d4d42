package browsertest_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/page/internal/server"
	"github.com/headway-go/headway/policies"
)

// serveSource serves a page for a made-up upstream, that intervenes so that everything is to be seen.
func serveSource(t *testing.T, source *fixture) string {
	t.Helper()
	p, err := pacer.New(pacer.Config{Upstream: "zendesk", Policies: fixturePolicies})
	require.NoError(t, err)
	source.Operator = fleet.Of(p)
	h := server.New(server.Config{Sources: []server.Source{source}, Intervene: true, Interval: 50 * time.Millisecond})
	url := serve(t, h)
	t.Cleanup(func() {
		h.Close()
		require.NoError(t, p.Close())
	})
	return url
}

func TestNarrow(t *testing.T) {
	t.Parallel()
	for _, hostile := range []bool{false, true} {
		b := newTab(t, 360, 780)
		b.open(serveSource(t, &fixture{hostile: hostile}))
		b.until(`document.querySelectorAll("#busiest tbody tr").length > 0`)
		require.Equal(t, "[]", value[string](b, `JSON.stringify([...document.querySelectorAll("body *")]
			.filter((e) => !e.closest(".scroll *, .sr, .chart, .skip") && e.getBoundingClientRect().right > 360.5).map((e) => e.outerHTML.slice(0, 80)))`),
			"something sticks out")
		require.LessOrEqual(t, value[int](b, `document.documentElement.scrollWidth`), 360, "the page scrolls sideways")
	}
}

func TestDark(t *testing.T) {
	t.Parallel()
	source := &fixture{}
	source.requested.Store(fixtureSteps) // its clock has stopped: nothing but the colours changes
	b := newTab(t, 1240, 900)
	b.open(serveSource(t, source))
	b.until(`document.querySelectorAll("canvas").length >= 11`)
	lightness := func(property, of string) float64 {
		return value[float64](b, `(() => {
			const [r, g, b] = getComputedStyle(document.querySelector("`+of+`")).`+property+`.match(/[0-9.]+/g).map(Number);
			return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
		})()`)
	}
	chart := `(() => {
		const c = document.querySelector('[data-policy="daily"] .chart.main canvas');
		const copy = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
		copy.drawImage(c, -c.width * 0.9, -c.height * 0.7);
		return [...copy.getImageData(0, 0, 40, 1).data].join();
	})()`
	require.Greater(t, lightness("backgroundColor", "html"), 0.9)
	require.Less(t, lightness("color", "h1"), 0.5)
	light := value[string](b, chart)
	b.dark(true)
	require.Less(t, lightness("backgroundColor", "html"), 0.1)
	require.Greater(t, lightness("color", "h1"), 0.5)
	require.Eventually(t, func() bool { return value[string](b, chart) != light }, patience, 50*time.Millisecond, "the charts keep the colours of the day")
}

func TestReducedMotion(t *testing.T) {
	t.Parallel()
	b := newTab(t, 1240, 900)
	b.open(serveSource(t, &fixture{}))
	moves := `getComputedStyle(document.getElementById("link"), "::before").animationName`
	require.Equal(t, "breathe", value[string](b, moves))
	b.prefer("prefers-reduced-motion", "reduce")
	require.Equal(t, "none", value[string](b, moves))
}

// The page shows what is wrong and goes on by itself, whether the store fails or the server is away.
func TestTroubleAndBack(t *testing.T) {
	t.Parallel()
	source := &fixture{}
	b := newTab(t, 1240, 900)
	b.open(serveSource(t, source))
	source.fail(errors.New("the store is <b>on fire</b>"))
	b.until(`!document.getElementById("trouble").hidden`)
	text := value[string](b, `document.getElementById("trouble").textContent`)
	require.Contains(t, text, "the store is <b>on fire</b> The figures are")
	require.Equal(t, 4, value[int](b, `document.querySelectorAll(".policy").length`), "what was known stays")
	source.fail(nil)
	b.until(`document.getElementById("trouble").hidden && document.getElementById("link").dataset.state === "live"`)
}

func TestReconnects(t *testing.T) {
	t.Parallel()
	p, err := pacer.New(pacer.Config{Upstream: "zendesk", Policies: []policies.Policy{policies.PerSecond(5)}})
	require.NoError(t, err)
	defer p.Close()
	h := server.New(server.Config{Sources: []server.Source{fleet.Of(p)}, Interval: 50 * time.Millisecond})
	defer h.Close()
	refuse := make(chan struct{}, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-refuse: // as a session that has ended
			http.Error(w, "log in again", http.StatusUnauthorized)
		default:
			h.ServeHTTP(w, r)
		}
	}))
	defer s.Close()
	b := newTab(t, 1240, 900)
	b.open(s.URL + "/")
	refuse <- struct{}{}
	s.CloseClientConnections()
	b.until(`document.getElementById("link").dataset.state === "lost"`)
	b.until(`document.getElementById("link").dataset.state === "live"`)
	require.Empty(t, refuse, "the refusal was met on the way")
	require.NotEmpty(t, b.forgive("401", "ERR_", "Failed to load resource"))
	h.Close() // before the server, which waits for the stream
	b.until(`document.getElementById("link").dataset.state === "lost"`)
	b.forgive("503", "ERR_", "Failed to load resource")
	b.run()
}

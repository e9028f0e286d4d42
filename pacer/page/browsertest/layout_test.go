package browsertest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/fleet"
)

// misplaced returns what is wrong with the boxes of the page: each element that reaches beyond the window, whose text is cut, or that
// overlaps a neighbour, and each grid of cards whose last row is not filled.
const misplaced = `JSON.stringify((() => {
	const found = [], width = document.documentElement.clientWidth;
	const name = (e) => e.outerHTML.slice(0, 80);
	const visible = (e) => e.checkVisibility() && !e.closest(".sr, .skip, .chart, noscript");
	const all = [...document.querySelectorAll("body *")].filter(visible);
	for (const e of all) {
		const r = e.getBoundingClientRect(), free = !e.closest(".scroll *");
		if (free && (r.right > width + 0.5 || r.left < -0.5)) found.push("beyond the window: " + name(e));
		if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && !(e.matches(".scroll") && width < 1000)) found.push("cut: " + name(e));
		if (e.matches("button") && r.height > 1.9 * parseFloat(getComputedStyle(e).fontSize) + 12) found.push("broken: " + name(e));
	}
	for (const parent of all) {
		const boxes = [...parent.children].filter(visible).map((e) => [e, e.getBoundingClientRect()]).filter(([, r]) => r.width * r.height > 0);
		for (const [i, [e, a]] of boxes.entries()) {
			for (const [f, b] of boxes.slice(i + 1)) {
				if (getComputedStyle(e).position === "fixed" || getComputedStyle(f).position === "fixed") continue;
				if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1) {
					found.push("overlap: " + name(e) + " and " + name(f));
				}
			}
		}
	}
	const grid = document.getElementById("policies"), cards = [...grid.children].filter(visible).map((e) => e.getBoundingClientRect());
	const last = cards.filter((r) => r.top === Math.max(...cards.map((c) => c.top)));
	if (Math.max(...last.map((r) => r.right)) < grid.getBoundingClientRect().right - 1) found.push("an empty place beside the last card");
	return found;
})())`

// unreadable returns each text whose contrast with the nearest background is below 4.5 to 1, as WCAG 2 requires (success criterion 1.4.3).
const unreadable = `JSON.stringify((() => {
	const channels = (c) => { const m = c.match(/[\d.]+/g).map(Number); return [m[0], m[1], m[2], m[3] ?? 1]; };
	const light = (c) => c.slice(0, 3).map((v) => (v /= 255, v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const found = [];
	for (const e of document.querySelectorAll("body *")) {
		const text = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
		if (!text || !e.checkVisibility() || e.closest(".sr, .skip, noscript, :disabled")) continue;
		let under = e;
		while (under.parentElement && channels(getComputedStyle(under).backgroundColor)[3] < 1) under = under.parentElement;
		const [a, b] = [getComputedStyle(e).color, getComputedStyle(under).backgroundColor].map((c) => light(channels(c)));
		const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (contrast < 4.5) found.push(contrast.toFixed(2) + ": " + e.outerHTML.slice(0, 80));
	}
	return found;
})())`

// boxes returns where everything is.
const boxes = `JSON.stringify([...document.querySelectorAll("body *")].map((e) => e.getBoundingClientRect()))`

// Nothing is cut, hidden or left empty at the widths of a phone, a laptop and a large screen, and all text is readable. The dark page is the
// light one in other colours. Boxes are measured in the browser, since pixels differ by machine.
func TestLayout(t *testing.T) { //nolint:tparallel // tabs of one browser
	t.Parallel()
	for _, width := range []int64{375, 1280, 1920} {
		for _, n := range []int{3, 4} { // with 3, the last card has a row of its own
			t.Run(fmt.Sprintf("%d, %d cards", width, n), func(t *testing.T) {
				source := &fixture{}
				source.requested.Store(fixtureSteps) // its clock has stopped
				fewer := func(s *fleet.Snapshot) { s.Policies = s.Policies[len(s.Policies)-n:] }
				source.more.Store(&fewer)
				b := newTab(t, width, 1000)
				b.open(serveSource(t, source))
				b.until(fmt.Sprintf(`document.querySelectorAll("#busiest tbody tr").length > 0 && document.querySelectorAll("canvas").length === %d`, 4*n))
				for _, dark := range []bool{false, true} {
					b.dark(dark)
					require.JSONEq(t, "[]", value[string](b, misplaced))
					require.JSONEq(t, "[]", value[string](b, unreadable))
				}
				require.Eventually(t, func() bool { // charts may be on their way to their size
					b.dark(false)
					light := value[string](b, boxes)
					b.dark(true)
					return light == value[string](b, boxes)
				}, patience, 50*time.Millisecond)
			})
		}
	}
}

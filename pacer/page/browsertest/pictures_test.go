package browsertest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/pacer/fleet"
	"github.com/headway-go/headway/pacer/page/internal/assets"
	"github.com/headway-go/headway/pacer/page/internal/server"
	"github.com/headway-go/headway/policies"
)

// docs is where the pictures are.
const docs = "../../../docs/pictures"

// TestPictures takes the pictures of the documentation from a made-up upstream whose clock has stopped. With HEADWAY_PICTURES it
// writes them there. It fails if the files of the page, or what the pictures show, have changed since: that is judged under the race
// detector, too, which takes no pictures.
func TestPictures(t *testing.T) {
	dir := os.Getenv("HEADWAY_PICTURES")
	if underRace {
		t.Log("the race detector is on: no pictures are taken")
	} else {
		takePictures(t, dir)
	}
	sum := shown(t)
	if dir != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "page.sum"), []byte(sum+"\n"), 0o644))
		return
	}
	had, err := os.ReadFile(filepath.Join(docs, "page.sum"))
	require.NoError(t, err, "the pictures are missing: run make pictures")
	require.Equal(t, sum, strings.TrimSpace(string(had)), "the pictures are not current: run make pictures")
}

// takePictures takes each picture, and writes it to a folder unless that is "".
func takePictures(t *testing.T, dir string) {
	t.Helper()
	needBrowser(t)
	for _, one := range []struct {
		name          string
		width, height int64
		scale         float64
		dark          bool
	}{
		{"page-light", 1240, 1620, 1.5, false},
		{"page-dark", 1240, 1620, 1.5, true},
		{"page-phone", 390, 1240, 2, false},
	} {
		t.Run(one.name, func(t *testing.T) {
			p, err := pacer.New(pacer.Config{Upstream: "zendesk", Policies: fixturePolicies})
			require.NoError(t, err)
			defer p.Close()
			other, err := pacer.New(pacer.Config{Upstream: "salesforce", Policies: []policies.Policy{policies.PerSecond(25)}})
			require.NoError(t, err)
			defer other.Close()
			source := &fixture{Operator: fleet.Of(p)}
			h := server.New(server.Config{Sources: []server.Source{source, fleet.Of(other)}, Interval: 12 * time.Millisecond})
			defer h.Close()
			b := newTab(t, one.width, one.height)
			b.run(chromedp.EmulateViewport(one.width, one.height, chromedp.EmulateScale(one.scale)))
			b.dark(one.dark)
			b.open(serve(t, h))
			require.Eventually(t, source.stopped, patience, 10*time.Millisecond)
			b.until(`document.getElementById("foot").textContent !== "" && document.querySelectorAll(".uplot").length >= 15`)
			data, err := chromedp.Run(b, chromedp.CaptureScreenshot())
			require.NoError(t, err)
			picture, err := png.Decode(bytes.NewReader(data))
			require.NoError(t, err)
			want := image.Pt(int(float64(one.width)*one.scale), int(float64(one.height)*one.scale))
			require.Equal(t, want, picture.Bounds().Size())
			require.Greater(t, colours(picture), 100, "the picture is blank, or nearly so")
			if dir != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, one.name+".png"), data, 0o644))
			}
		})
	}
}

// shown returns the hash of all that the pictures depend on: the files of the page, and the made-up upstream.
func shown(t *testing.T) string {
	t.Helper()
	h := sha256.New()
	all := assets.All()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(h, "%s %d\n%s", name, len(all[name]), all[name])
	}
	for step := int64(1); step <= fixtureSteps; step++ {
		f := fixtureAt(step)
		data, err := json.Marshal(f)
		require.NoError(t, err)
		h.Write(data)
		for i := range f.Policies {
			fmt.Fprintln(h, f.Policies[i].Policy.String())
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// colours counts the colours of a picture.
func colours(picture image.Image) int {
	seen := make(map[color.Color]bool)
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y += 3 {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x += 3 {
			seen[picture.At(x, y)] = true
		}
	}
	return len(seen)
}

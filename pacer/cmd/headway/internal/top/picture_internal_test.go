package top

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/screen"
)

// drawn returns a model of a fixed scene, with the colours of a terminal that has them.
func drawn(t *testing.T, width, height int, profile termenv.Profile) *model {
	t.Helper()
	r := lipgloss.NewRenderer(io.Discard)
	r.SetColorProfile(profile)
	f := scene()
	m := newModel(t.Context(), Config{Upstream: f.Upstream, Snapshot: f, Timeout: time.Second}, newStyles(r))
	m.width, m.height = width, height
	m.now = func() time.Time { return f.At }
	m.seen = f.At
	return m
}

// show puts the view of a model on a screen.
func show(t *testing.T, m *model) *screen.Screen {
	t.Helper()
	s := screen.New(m.width, m.height, io.Discard)
	_, err := io.WriteString(s, strings.ReplaceAll(m.View(), "\n", "\r\n"))
	require.NoError(t, err)
	return s
}

// The picture in the documentation shows the present view. With HEADWAY_PICTURES, a folder, it is drawn again there.
func TestPictureIsCurrent(t *testing.T) {
	t.Parallel()
	svg := show(t, drawn(t, 100, 30, termenv.ANSI256)).SVG("headway top zendesk: policies with their pace, limits and last minute, " +
		"a chart of the one that binds, the busiest tenants and the processes")
	if dir := os.Getenv("HEADWAY_PICTURES"); dir != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "top.svg"), []byte(svg), 0o644))
		return
	}
	want, err := os.ReadFile("../../../../../docs/pictures/top.svg")
	require.NoError(t, err)
	if string(want) != svg { // which is too long to be shown
		require.Fail(t, "the view has changed: draw its picture anew (make pictures), and look at it")
	}
}

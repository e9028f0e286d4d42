package bench_test

import (
	"bytes"
	"image/color"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// picturesEnv names the environment variable with the folder that the pictures of docs/concepts.md are written to.
const picturesEnv = "HEADWAY_PICTURES"

// These pictures are not the same each time: heartbeats are sent at random, and of two calls that poll in the same instant either may be
// the first.
const localPictureName, lanesPictureName = "concept-local.svg", "concept-lanes.svg"

// pictures is where they belong.
const pictures = "../../docs/pictures"

// TestConceptPictures draws a Pacer in virtual time. The pictures in docs are the same to the byte, except two; with HEADWAY_PICTURES they
// are written there instead.
func TestConceptPictures(t *testing.T) {
	dir := os.Getenv(picturesEnv)
	for _, picture := range []struct {
		name string
		draw func(*testing.T) *timeline
	}{
		{"concept-slots.svg", slotsPicture},
		{"concept-windows.svg", windowsPicture},
		{"concept-stack.svg", stackPicture},
		{"concept-gaps.svg", gapsPicture},
		{"concept-slack.svg", slackPicture},
		{"concept-pause.svg", pausePicture},
		{"concept-permits.svg", permitsPicture},
		{lanesPictureName, lanesPicture},
		{"concept-fair.svg", fairPicture},
		{localPictureName, localPicture},
	} {
		t.Run(picture.name, func(t *testing.T) {
			lived := picture.draw(t)
			drawn, err := lived.svg()
			require.NoError(t, err)
			if dir != "" {
				require.NoError(t, os.MkdirAll(dir, 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(dir, picture.name), drawn, 0o644))
				return
			}
			if picture.name == localPictureName || picture.name == lanesPictureName {
				return
			}
			there, err := os.ReadFile(filepath.Join(pictures, picture.name))
			require.NoError(t, err)
			if !bytes.Equal(there, drawn) {
				t.Errorf("the picture is not what is drawn now: look at it, and write it anew with %s", picturesEnv)
			}
		})
	}
}

// lived draws calls: when they were requested, how long they waited, and when they went.
func lived(calls []*played, colour color.Color) (spans []span, signs []sign) {
	for _, c := range calls {
		if c.went && c.goes > c.asks {
			spans = append(spans, span{from: c.asks, to: c.goes})
			signs = append(signs, sign{c.asks, colour, asking})
		}
	}
	return spans, append(signs, gone(went(calls), colour)...)
}

func gone(at []time.Duration, colour color.Color) []sign {
	var signs []sign
	for _, d := range at {
		signs = append(signs, sign{d, colour, going})
	}
	return signs
}

// keysOf explains requesting, waiting and going in this colour.
func keysOf(colour color.Color, more ...key) []key {
	return append([]key{
		{sign{0, colour, asking}, "asks, and has to wait"}, {sign{0, waitBy, nil}, "waits"}, {sign{0, colour, going}, "goes"},
	}, more...)
}

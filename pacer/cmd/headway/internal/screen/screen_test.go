package screen_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/pacer/cmd/headway/internal/screen"
)

func TestScreen(t *testing.T) {
	t.Parallel()
	var answers bytes.Buffer
	s := screen.New(10, 3, &answers)
	_, err := fmt.Fprint(s, "gone\x1b[2J\x1b[2;3H<a&b> \x1b[1;36mx\x1b[0m█▄\x1b[6n")
	require.NoError(t, err)
	require.Equal(t, "\n  <a&b> x█\n▄", s.Text(), "a line that is too long goes on in the next")
	require.Equal(t, "\x1b[3;2R", answers.String())

	svg := s.SVG("a <title>")
	require.Contains(t, svg, `role="img"`)
	require.Contains(t, svg, "<title id=\"title\">a &lt;title&gt;</title>")
	require.Contains(t, svg, ">&lt;a&amp;b&gt;</text>")
	require.Contains(t, svg, `fill="#7ce8f0" font-weight="bold">x</text>`)
	require.Contains(t, svg, `<rect x="91.6" y="34.0" width="8.4" height="18.0"`, "a full block")
	require.Contains(t, svg, `<rect x="16.0" y="61.0" width="8.4" height="9.0"`, "half a block")
	d := xml.NewDecoder(bytes.NewBufferString(svg))
	for err = nil; err == nil; {
		_, err = d.Token()
	}
	require.ErrorIs(t, err, io.EOF, "it is well-formed")
}

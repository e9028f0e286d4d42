package transport

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies"
)

// FuzzEnds writes pieces of some lengths, and compares the ends with those of all that was written.
func FuzzEnds(f *testing.F) {
	const peek = policies.MaxPeek
	for _, pieces := range [][]uint32{
		{}, {0}, {1}, {peek}, {2 * peek}, {2*peek - 1, 1}, {2*peek + 1}, {2 * peek, 1}, {peek, peek, peek}, {5*peek + 7}, {3, 5 * peek, 3 * peek, 7},
		{2 * peek, peek - 1, 1, 1}, {2 * peek, peek - 1, 2}, {2 * peek, 1, 2, 3, 5, 7, 4 * peek, 11, 13},
	} {
		var all []byte
		for _, n := range pieces {
			all = append(all, byte(n), byte(n>>8), byte(n>>16))
		}
		f.Add(all)
	}
	f.Fuzz(func(t *testing.T, pieces []byte) {
		var e ends
		var all []byte
		for piece := range slices.Chunk(pieces[:min(len(pieces), 90)], 3) {
			n := 0
			for i, b := range piece {
				n |= int(b) << (8 * i)
			}
			p := make([]byte, n%(6*peek))
			for i := range p {
				at := len(all) + i
				p[i] = byte(at) ^ byte(at>>8) ^ byte(at>>16) | 1 // no zero byte
			}
			all = append(all, p...)
			written, err := e.Write(p)
			require.NoError(t, err)
			require.Equal(t, len(p), written)
		}
		want, whole := all, len(all) <= 2*peek
		if !whole {
			want = slices.Concat(all[:peek], []byte{0}, all[len(all)-peek:])
		}
		got, complete := e.show()
		require.Equal(t, whole, complete)
		if !bytes.Equal(want, got) {
			t.Fatalf("%d bytes in, %d out, which are not the ends", len(all), len(got))
		}
		require.LessOrEqual(t, cap(e.kept), 160<<10)
	})
}

// An encoded body that is too long shows nothing, whatever a decoder makes of nothing.
func TestNothingIsShownOfATooLongEncodedBody(t *testing.T) {
	t.Parallel()
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		e := encoded{codings: []string{coding}}
		for range 2 {
			_, err := e.Write(make([]byte, maxEncoded))
			require.NoError(t, err)
		}
		require.Empty(t, e.kept)
		body, all := e.show()
		require.Empty(t, body, coding)
		require.False(t, all, coding)
	}
}

package fields_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/fields"
)

func TestRequestJSON(t *testing.T) {
	t.Parallel()
	type body struct{ Model string }
	send := func(b io.Reader) *http.Request {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://upstream.test", b)
		require.NoError(t, err)
		return req
	}
	var v body
	req := send(strings.NewReader(`{"model":"m"}`))
	n, ok := fields.RequestJSON(req, &v)
	require.True(t, ok)
	require.Equal(t, int64(13), n)
	require.Equal(t, "m", v.Model)
	rest, err := io.ReadAll(req.Body)
	require.NoError(t, err)
	require.JSONEq(t, `{"model":"m"}`, string(rest), "the body itself was not read")

	once := send(io.MultiReader(strings.NewReader(`{}`)))
	broken := send(strings.NewReader(`{}`))
	broken.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("gone") }
	breaks := send(strings.NewReader(`{}`))
	breaks.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(iotest.ErrReader(errors.New("gone"))), nil }
	endless := send(strings.NewReader(`{}`))
	endless.ContentLength = -1
	endless.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(zeros{}), nil }
	for name, c := range map[string]struct {
		req    *http.Request
		length int64
	}{
		"no body": {send(nil), 0}, "a body that is read once": {once, -1}, "no JSON": {send(strings.NewReader(`x`)), 1},
		"no copy": {broken, 2}, "a copy that breaks": {breaks, 2}, "an endless one": {endless, -1},
		"a large one": {send(strings.NewReader(`{"model":"` + strings.Repeat("x", 300_000) + `"}`)), 300_012},
	} {
		n, ok := fields.RequestJSON(c.req, &body{})
		require.False(t, ok, name)
		require.Equal(t, c.length, n, name)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

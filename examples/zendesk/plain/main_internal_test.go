package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The strict stand-in refuses no call. How many go depends on the machine.
func TestNoCallIsRefused(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), 2*time.Second, &out))
	require.Regexp(t, `^replies by status in 2s: map\[(200:\d+)?\]\n$`, out.String())
}

package google_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/google"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	profiletest.Limits(t, google.Profile, google.Limits(10_000, 600))
	profiletest.Limits(t, google.Profile, google.Limits(1, 1))
}

func TestNumbersThatNobodyGaveAreErrors(t *testing.T) {
	t.Parallel()
	require.Error(t, google.Limits(0, 600)[0].Validate())
	require.Error(t, google.Limits(10_000, 0)[1].Validate())
	require.Error(t, google.Limits(-1, -1)[0].Validate())
}

package twilio_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/profiletest"
	"github.com/headway-go/headway/policies/twilio"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	profiletest.Limits(t, twilio.Profile, twilio.Limits(50))
	require.Error(t, twilio.Limits(0)[0].Validate())
}

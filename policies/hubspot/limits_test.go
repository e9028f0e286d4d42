package hubspot_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/hubspot"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	for _, tier := range []hubspot.Tier{hubspot.Starter, hubspot.Professional, hubspot.Enterprise, hubspot.Increased} {
		profiletest.Limits(t, hubspot.Profile, hubspot.Limits(tier, time.UTC))
	}
	require.Error(t, hubspot.Limits(0, time.UTC)[0].Validate())
	require.Error(t, hubspot.Limits(hubspot.Starter, nil)[1].Validate(), "the day needs a time zone")
}

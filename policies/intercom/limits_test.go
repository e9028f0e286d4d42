package intercom_test

import (
	"testing"

	"github.com/headway-go/headway/policies/intercom"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	profiletest.Limits(t, intercom.Profile, intercom.Limits())
}

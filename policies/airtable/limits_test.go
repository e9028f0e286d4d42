package airtable_test

import (
	"testing"

	"github.com/headway-go/headway/policies/airtable"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	profiletest.Limits(t, airtable.Profile, airtable.Limits())
}

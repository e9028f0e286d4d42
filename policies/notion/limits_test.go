package notion_test

import (
	"testing"

	"github.com/headway-go/headway/policies/notion"
	"github.com/headway-go/headway/policies/profiletest"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	profiletest.Limits(t, notion.Profile, notion.Limits())
}

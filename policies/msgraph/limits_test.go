package msgraph_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headway-go/headway/policies/msgraph"
	"github.com/headway-go/headway/policies/profiletest"
	"github.com/headway-go/headway/policies/specs"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	for _, size := range []msgraph.Size{msgraph.Small, msgraph.Medium, msgraph.Large} {
		all := append(msgraph.Limits(size), msgraph.SharePoint(1_200), msgraph.Tenant(2_000, 10*time.Second))
		profiletest.Limits(t, msgraph.Profile, all)
	}
}

func TestMailbox(t *testing.T) {
	t.Parallel()
	p := msgraph.Mailbox()
	require.NoError(t, p.Validate())
	require.Contains(t, msgraph.Limits(msgraph.Small), p)
	require.Equal(t, msgraph.PolicyMailbox, p.Name())
	require.Equal(t, []string{msgraph.ScopeTenant, msgraph.ScopeMailbox}, p.Scopes())
	require.True(t, p.IsOptional())
	spec := p.Spec()
	require.Equal(t, specs.Concurrency, spec.Algorithm)
	require.Equal(t, int64(4), spec.Limit)
	require.Zero(t, spec.After)
}

func TestAnUnknownSizeIsAnError(t *testing.T) {
	t.Parallel()
	require.Error(t, msgraph.Identity(0).Validate())
	require.Error(t, msgraph.Identity(-1).Validate())
	require.Error(t, msgraph.SharePoint(0).Validate())
	require.Error(t, msgraph.Tenant(0, time.Second).Validate())
}

package redistest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A node that is too busy to shake hands in time is introduced again.
func TestANodeThatIsBusyIsMetLater(t *testing.T) {
	t.Parallel()

	args := []string{"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "500"}
	c := &Cluster{Nodes: []*Server{Start(t, args...), Start(t, args...)}}
	c.Nodes[1].Pause()
	time.AfterFunc(4*time.Second, c.Nodes[1].Continue)
	require.NoError(t, c.meet(t.Context(), c.Nodes[0], c.Nodes[1]))
}

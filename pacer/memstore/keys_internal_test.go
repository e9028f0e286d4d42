package memstore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Keys whose hashes are the same by chance are different keys all the same.
func TestKeysOfOneHash(t *testing.T) {
	t.Parallel()
	var sh shard
	all := make([]*account, 4)
	for i := range all {
		all[i] = &account{key: accountKey{"u", "p", string(rune('a' + i))}, hash: 7}
		require.Nil(t, sh.get(7, &all[i].key))
		sh.add(all[i])
	}
	for _, gone := range []int{2, 3, 0, 1} { // from the middle, the front and the end of the chain, and the last one
		for sh.hand = range sh.ring {
			if sh.ring[sh.hand] == all[gone] {
				break
			}
		}
		sh.remove()
		for i, a := range all {
			if a.gone {
				require.Nil(t, sh.get(7, &a.key), "key %d without %d", i, gone)
			} else {
				require.Same(t, a, sh.get(7, &a.key), "key %d without %d", i, gone)
			}
		}
		require.True(t, all[gone].gone)
	}
	require.Empty(t, sh.keys)
	require.Empty(t, sh.ring)
}

package memstore

import "testing"

// Audit fails the test if the keys of a store are not where they belong, or are miscounted.
func Audit(t *testing.T, m *Store) {
	t.Helper()
	k := &m.keys
	k.lock(allShards)
	defer k.unlock(allShards)
	n := 0
	for i := range k.shards {
		sh := &k.shards[i]
		for _, a := range sh.ring.all {
			at := k.scoped(k.of(a.key.upstream, a.key.policy), a.key.scope)
			if a.gone || k.at(at) != sh || sh.get(at.hash, &a.key) != a {
				t.Fatalf("key %v is not where it belongs", a.key)
			}
		}
		if len(sh.keys) != len(sh.ring.all) {
			t.Fatalf("shard %d: %d keys in its map, %d in its ring", i, len(sh.keys), len(sh.ring.all))
		}
		n += len(sh.ring.all)
	}
	if n != m.Len() {
		t.Fatalf("%d keys, counted %d", n, m.Len())
	}
}

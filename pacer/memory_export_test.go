package pacer

// MemoryKeys returns how many keys a store keeps.
func MemoryKeys(m *MemoryStore) int {
	k := &m.keys
	k.lock(allShards)
	defer k.unlock(allShards)
	n := 0
	for i := range k.shards {
		sh := &k.shards[i]
		for _, a := range sh.ring {
			at := k.scoped(k.of(a.key.upstream, a.key.policy), a.key.scope)
			if a.gone || k.at(at) != sh || sh.get(at.hash, &a.key) != a {
				panic("a key is not where it belongs")
			}
		}
		if len(sh.keys) != len(sh.ring) {
			panic("a shard's ring and its map differ")
		}
		n += len(sh.ring)
	}
	if int64(n) != k.count.Load() {
		panic("the keys are miscounted")
	}
	return n
}

// MemoryListeners returns how many listen to a store.
func MemoryListeners(m *MemoryStore) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.listeners)
}

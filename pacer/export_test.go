package pacer

// MemoryKeys returns how many keys a store keeps.
func MemoryKeys(m *MemoryStore) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.keys) != len(m.queue) {
		panic("the ring and the map differ")
	}
	return len(m.keys)
}

// MemoryListeners returns how many listen to a store.
func MemoryListeners(m *MemoryStore) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.listeners)
}

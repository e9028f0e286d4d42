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

// Recalled returns how many keys a Pacer remembers of its store, and the most intervals and buckets of one of them.
func Recalled(p *Pacer) (keys, spans, buckets int) {
	known := &p.store.(*watched).known
	known.mu.Lock()
	defer known.mu.Unlock()
	for _, t := range known.keys {
		spans, buckets = max(spans, len(t.spans)), max(buckets, len(t.counts))
	}
	return len(known.keys), spans, buckets
}

// Absences returns how often a Pacer was without its store.
func Absences(p *Pacer) int {
	w := p.store.(*watched)
	n := int(w.absences.Load()) - 2 // it joined once
	if w.state.Load() == apart {
		n++
	}
	return n
}

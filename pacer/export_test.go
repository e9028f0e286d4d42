package pacer

import "time"

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

// Pulses returns how often a process of a fleet of n speaks to the store: see pulses.
func Pulses(n int) (beat, lives, describe, look time.Duration) {
	p := pulsesOf(n)
	return p.beat, p.lives, p.describe, p.look
}

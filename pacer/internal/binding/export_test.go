package binding

// Len returns how many keys are known.
func (l *Learner) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.keys)
}

package transport

import "github.com/headway-go/headway/policies"

// ends keeps the first and the last MaxPeek bytes written to it.
type ends struct {
	kept []byte // in order, and once something is lost, the second half is a ring
	next int    // where the oldest byte of the ring is
	lost bool   // there was more
}

// Write implements [io.Writer]. It never fails.
func (e *ends) Write(p []byte) (int, error) {
	n := min(len(p), 2*policies.MaxPeek-len(e.kept))
	e.kept = append(e.kept, p[:n]...)
	for rest := p[n:]; len(rest) > 0; e.lost = true {
		m := copy(e.kept[policies.MaxPeek+e.next:], rest)
		rest, e.next = rest[m:], (e.next+m)%policies.MaxPeek
	}
	return len(p), nil
}

// show returns the kept bytes, with a zero byte in place of lost ones.
func (e *ends) show() (body []byte, all bool) {
	if !e.lost {
		return e.kept, true
	}
	first, ring := e.kept[:policies.MaxPeek], e.kept[policies.MaxPeek:]
	body = make([]byte, 0, len(e.kept)+1)
	return append(append(append(append(body, first...), 0), ring[e.next:]...), ring[:e.next]...), false
}

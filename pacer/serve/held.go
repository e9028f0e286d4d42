package serve

import (
	"context"
	"crypto/rand"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headway-go/headway/pacer"
	"github.com/headway-go/headway/policies"
)

// How long a call of the API may take, and how many may be under way.
const (
	defaultTimeout = time.Minute
	maxTimeout     = time.Hour
	maxHeld        = 1 << 17 // of about a kilobyte each
)

// The prefixes of reservations, as clients know them. The rest of a booking is its upstream, a colon and its token.
const (
	heldPrefix   = "h:"
	bookedPrefix = "b:"
)

// held are the calls that the API has admitted and that are not over.
type held struct {
	mu   sync.Mutex
	byID map[string]*grant
}

// A grant is such a call.
type grant struct {
	*pacer.Reservation

	upstream *upstream
	timer    *time.Timer
	reported bool // the feedback of its reply, under held.mu
}

// add keeps a call until it is released, or takes too long.
func (h *held) add(u *upstream, r *pacer.Reservation, timeout time.Duration) (id string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.byID) >= maxHeld {
		return "", refusef(http.StatusServiceUnavailable, "%d calls are under way: release those that are over", maxHeld)
	}
	if h.byID == nil {
		h.byID = make(map[string]*grant)
	}
	id = heldPrefix + rand.Text()
	h.byID[id] = &grant{Reservation: r, upstream: u, timer: time.AfterFunc(timeout, func() { _ = h.release(id, true) })}
	return id, nil
}

// errOver is the error of a reservation that is none of these calls.
var errOver = refusef(http.StatusNotFound, "no call under way has this reservation: it was released, took longer than its timeout, or is of another process")

// get returns a call that is under way.
func (h *held) get(id string) (*grant, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g := h.byID[id]; g != nil {
		return g, nil
	}
	return nil, errOver
}

// release ends a call. One that was not made gives back what it was charged.
func (h *held) release(id string, made bool) error {
	h.mu.Lock()
	g := h.byID[id]
	reported := g != nil && g.reported
	delete(h.byID, id)
	h.mu.Unlock()
	if g == nil {
		return errOver
	}
	g.timer.Stop()
	end(g.Reservation, made, reported)
	return nil
}

// end ends a call. A lease, or a window, bounds any failure.
func end(r *pacer.Reservation, made, reported bool) {
	ctx := context.Background() // the client may be gone
	if !made {
		_ = r.Settle(ctx, policies.Cost{})
	}
	if !reported {
		_ = r.Report(ctx)
	}
	r.Release()
}

// report applies the feedback of a call's reply.
func (h *held) report(ctx context.Context, g *grant, fs []policies.Feedback) error {
	h.mu.Lock()
	g.reported = true
	h.mu.Unlock()
	return g.Report(ctx, fs...)
}

// permits returns how many calls hold permits.
func (h *held) permits() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range h.byID {
		if g.HasPermits() {
			n++
		}
	}
	return n
}

// closeAll ends all calls.
func (h *held) closeAll() {
	h.mu.Lock()
	ids := slices.Collect(maps.Keys(h.byID))
	h.mu.Unlock()
	for _, id := range ids {
		_ = h.release(id, true)
	}
}

// booking returns the upstream and the token of a booking.
func booking(reservation string) (upstream, token string, ok bool) {
	rest, ok := strings.CutPrefix(reservation, bookedPrefix)
	upstream, token, found := strings.Cut(rest, ":")
	return upstream, token, ok && found
}

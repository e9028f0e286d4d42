package server

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// A hello is the first event of a stream.
type hello struct {
	Upstreams []string `json:"upstreams"`
	Upstream  string   `json:"upstream"`
	Intervene bool     `json:"intervene"`
	MaxPause  float64  `json:"maxPause"` // s
}

// stream sends the state of an upstream, by server-sent events, until the browser or the page is gone.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request) {
	f := h.feedOf(w, r.URL.Query().Get("upstream"))
	if f == nil {
		return
	}
	v, err := f.join()
	if err != nil {
		w.Header().Set("Retry-After", "5")
		fail(w, http.StatusServiceUnavailable, err)
		return
	}
	defer f.leave(v)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx keeps nothing back
	if r.Method == http.MethodHead {
		return
	}
	out := writer{w, http.NewResponseController(w)}
	if err := out.flush(); errors.Is(err, http.ErrNotSupported) {
		fail(w, http.StatusInternalServerError,
			errors.New("a handler in front of the page hides Flush, without which nothing can be streamed: give its ResponseWriter an Unwrap method"))
		return
	}
	err = out.send(newEvent("hello", hello{
		h.names, f.source.Upstream(), h.intervene, f.source.MaxPause().Seconds(),
	}))
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for err == nil {
		select {
		case e, ok := <-v.events:
			if !ok {
				return
			}
			err = out.send(e)
		case <-ticker.C:
			err = out.write(": still here\n\n")
		case <-r.Context().Done():
			return
		}
	}
}

// A writer writes to a stream. Each piece has its own deadline, for streams outlive the server's timeout of a whole answer.
type writer struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// send writes an event. JSON has no line breaks, which would end it.
func (w *writer) send(e *event) error {
	return w.write(fmt.Sprintf("event: %s\ndata: %s\n\n", e.name, e.data))
}

func (w *writer) write(s string) error {
	_ = w.control.SetWriteDeadline(time.Now().Add(patience)) // where it is not supported there is none
	if _, err := w.w.Write([]byte(s)); err != nil {
		return err
	}
	return w.flush()
}

func (w *writer) flush() error { return w.control.Flush() }

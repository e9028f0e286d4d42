package config

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// How Watch looks at a file.
const (
	pollEach   = 30 * time.Second       // for file systems that report nothing
	quietAfter = 100 * time.Millisecond // writing takes several steps, which are one change
	latestBy   = time.Second            // however often something is written
)

// Watch calls use with the current file, and again each time that its content changes, until ctx ends. use receives the file, or the
// mistakes that [Load] returns. Watch detects a file that is written in place, one that is replaced by a rename, and the symbolic links
// that Kubernetes swaps below a ConfigMap's folder. If the operating system does not report changes, as on some network file systems,
// Watch detects them within half a minute. A file that cannot be read for a while is reported once.
//
// Watch returns nil when ctx has ended, and leaves nothing running. It calls use in its own goroutine, that is, the one that called
// Watch.
func Watch(ctx context.Context, path string, use func(*File, error)) error {
	if use == nil {
		return errors.New("config: Watch needs a function that receives changes")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("config: %s cannot be followed: %w", path, err)
	}
	w := &watcher{path: path, abs: abs, use: use, poll: pollEach, quiet: quietAfter, latest: latestBy}
	w.run(ctx)
	return nil
}

// A watcher is one Watch.
type watcher struct {
	path, abs           string
	use                 func(*File, error)
	poll, quiet, latest time.Duration
	deaf                bool // for tests: the operating system reports nothing

	last   string // what was seen last: a hash, or an error
	target string // the file that the path leads to, by symbolic links
	events *fsnotify.Watcher
}

// run watches until ctx ends.
func (w *watcher) run(ctx context.Context) {
	var events chan fsnotify.Event
	var failures chan error
	if !w.deaf {
		if n, err := fsnotify.NewWatcher(); err == nil {
			defer func() { _ = n.Close() }()
			w.events, events, failures = n, n.Events, n.Errors
		} // otherwise there are too many watchers on the machine, and polling must do
	}
	poll := time.NewTicker(w.poll)
	defer poll.Stop()
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	<-quiet.C
	var since time.Time // of the first event that was not looked into; zero: there is none
	w.look()
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
			w.look()
		case <-quiet.C:
			since = time.Time{}
			w.look()
		case err := <-failures:
			if err != nil { // events were lost
				quiet.Reset(0)
			}
		case e := <-events:
			if !w.concerns(e) {
				continue
			}
			if since.IsZero() {
				since = time.Now()
			}
			quiet.Reset(max(0, min(w.quiet, time.Until(since.Add(w.latest)))))
		}
	}
}

// concerns reports whether an event may have changed the file.
func (w *watcher) concerns(e fsnotify.Event) bool {
	if e.Op == fsnotify.Chmod {
		return false
	}
	name := filepath.Clean(e.Name)
	return name == w.abs || name == w.target || resolve(w.abs) != w.target
}

// resolve returns the file that a path leads to; "" if there is none.
func resolve(path string) string {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	return target
}

// look reads the file, and says so if it has changed.
func (w *watcher) look() {
	w.target = resolve(w.abs)
	if w.events != nil { // before the file is read, so that no change is missed; a folder may be another one than before
		for _, dir := range []string{filepath.Dir(w.abs), filepath.Dir(w.target)} {
			if dir != "." {
				_ = w.events.Add(dir) // or polling must do
			}
		}
	}
	data, err := read(w.abs, w.path)
	hash := sha256.Sum256(data)
	seen := string(hash[:])
	if err != nil {
		seen = err.Error()
	}
	if seen == w.last {
		return
	}
	w.last = seen
	if err != nil {
		w.use(nil, err)
		return
	}
	w.use(Parse(w.path, data))
}

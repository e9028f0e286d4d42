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
	pollEach    = 30 * time.Second       // for file systems that report nothing
	stableAfter = 500 * time.Millisecond // a change that is read twice, so long apart, is complete
)

// Watch calls use with the current file, and again each time that its content changes, until ctx ends. use receives the file, or the
// mistakes that [Load] returns. Watch detects a file that is written in place, one that is replaced by a rename, and the symbolic links
// that Kubernetes swaps below a ConfigMap's folder. If the operating system does not report changes, as on some network file systems, Watch
// detects them within half a minute. It reports once that a file cannot be read.
//
// Many programs write a file in place, in several steps, and a truncated file can be valid and mean other limits. So Watch ignores a change
// until it has read the same content twice, half a second apart.
//
// Watch returns nil when ctx has ended, and leaves nothing running. It calls use in the goroutine that called Watch.
func Watch(ctx context.Context, path string, use func(*File, error)) error {
	return watch(ctx, path, "", use)
}

// watch watches a file, whose content was seen before; "" if not.
func watch(ctx context.Context, path, seen string, use func(*File, error)) error {
	if use == nil {
		return errors.New("config: Watch needs a function that receives changes")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("config: %s cannot be followed: %w", path, err)
	}
	w := &watcher{path: path, abs: abs, use: use, last: seen, poll: pollEach, stable: stableAfter}
	w.run(ctx)
	return nil
}

// A watcher is one Watch.
type watcher struct {
	path, abs    string
	use          func(*File, error)
	poll, stable time.Duration
	deaf         bool // for tests: the operating system reports nothing

	last   string // what was reported last: a hash, or an error
	next   string // what was seen once since; "" if nothing was
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
	again := time.NewTimer(0)
	defer again.Stop()
	for due := true; ; { // whether again will fire: then nothing else causes a look
		var look bool
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			look, due = true, false
		case <-poll.C:
			look = true
		case <-failures: //nolint:errcheck // events were lost, whatever the reason
			look = true
		case e := <-events:
			look = w.concerns(e)
		}
		if look && !due && w.look() {
			due = true
			again.Reset(w.stable)
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

// resolve returns the file behind a path; "" without one.
func resolve(path string) string {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	return target
}

// look reads the file, and reports a change that it has seen twice. It returns true if it must look again, because it has seen one once.
func (w *watcher) look() (again bool) {
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
	switch {
	case seen == w.last:
		w.next = ""
		return false
	case seen != w.next && w.last != "":
		w.next = seen
		return true
	}
	w.last, w.next = seen, ""
	if err != nil {
		w.use(nil, err)
		return false
	}
	w.use(Parse(w.path, data))
	return false
}

package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/headway-go/headway/pacer/memstore"
)

const (
	stateEach    = time.Second
	stateSoon    = 2 * stateEach // calls of windows that begin before the next write count
	stateWindows = 10_000        // the most that are written: about 2 MB
	stateSize    = 16 << 20      // the most that is read
)

// A stateFile keeps what windows and calendars have counted, for the next start.
type stateFile struct {
	path  string
	store *memstore.Store
	log   *slog.Logger
	last  []byte // what was written
}

// openState restores what a file has, or begins one; nil without a path. A file that is none of this version's is kept under another name.
// Fields that a later version has added to a window are ignored.
func openState(path string, store *memstore.Store, log *slog.Logger) (*stateFile, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	f := &stateFile{path: path, store: store, log: log}
	var data []byte
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, bad("State", path, "is not a file") // it could be a device, which writing would replace
	}
	if err == nil && info.Size() <= stateSize {
		data, err = os.ReadFile(path) //nolint:gosec // the operator chooses the file
	}
	var windows []memstore.Window
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, bad("State", path, "cannot be read: "+err.Error())
	case json.Unmarshal(data, &windows) != nil:
		kept := path + ".damaged"
		if err := os.Rename(path, kept); err != nil {
			return nil, bad("State", path, "cannot be written: "+err.Error())
		}
		log.Warn("headway serve: the state file is damaged or of another version, and limits begin anew", "file", kept)
	default:
		log.Info("headway serve: limits go on where they ended", "file", path, "windows", store.Restore(windows))
	}
	if err := f.write(); errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		log.Error("headway serve: the disk is full", "error", err) // which is no reason not to start
	} else if err != nil {
		return nil, bad("State", path, "cannot be written: "+err.Error())
	}
	return f, nil
}

// follow writes the file each second.
func (f *stateFile) follow(ctx context.Context) {
	tick := time.NewTicker(stateEach)
	defer tick.Stop()
	for failing := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := f.write()
		if err != nil && !failing {
			f.log.Error("headway serve: a crash now would forget what was counted", "error", err)
		}
		failing = err != nil
	}
}

// write writes the file if it has changed. A crash leaves the old one or the new one.
func (f *stateFile) write() error {
	data, err := json.Marshal(f.store.Windows(stateWindows, stateSoon))
	if err != nil || bytes.Equal(data, f.last) {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(f.path), ".headway-*") // only this user can read it
	if err != nil {
		return err
	}
	_, err = next.Write(data)
	err = errors.Join(err, next.Close())
	if err == nil {
		err = os.Rename(next.Name(), f.path)
	}
	if err != nil {
		return fmt.Errorf("the state could not be written: %w", errors.Join(err, os.Remove(next.Name())))
	}
	f.last = data
	return nil
}

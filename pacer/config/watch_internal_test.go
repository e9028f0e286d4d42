package config

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long a test waits for what has to come.
const patience = 30 * time.Second

// watching runs a watcher in a goroutine, and returns its reports: policies, or a mistake.
func watching(t *testing.T, w *watcher) <-chan string {
	t.Helper()
	reported := make(chan string, 100)
	w.abs = w.path
	w.use = func(f *File, err error) {
		if err != nil {
			reported <- err.Error()
			return
		}
		reported <- fmt.Sprint(f.Policies("u"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { w.run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return reported
}

// content returns a file in which an upstream may make n calls a second.
func content(n int) string { return fmt.Sprintf("upstreams: {u: {policies: [%d/s]}}", n) }

// is waits until the file is reported so; before, it may be reported as cut short.
func is(t *testing.T, reported <-chan string, n int) {
	t.Helper()
	want := fmt.Sprintf("[per-second: %d per 1s]", n)
	timeout := time.After(patience)
	for {
		select {
		case got := <-reported:
			if got == want {
				return
			}
			require.Contains(t, got, ": ", "a mistake")
			require.NotContains(t, got, "[per-second", "another file than the one that was written")
		case <-timeout:
			t.Fatal("not seen: " + want)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// Every way in which files are changed is seen, by what the operating system reports and by polling.
func TestWatchSeesChanges(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]watcher{
		"events":  {poll: time.Hour, stable: 20 * time.Millisecond},
		"polling": {poll: 20 * time.Millisecond, stable: 5 * time.Millisecond, deaf: true},
	} {
		t.Run(name+" in place", func(t *testing.T) {
			t.Parallel()
			w := w
			w.path = filepath.Join(t.TempDir(), "headway.yaml")
			write(t, w.path, content(1))
			reported := watching(t, &w)
			for n := 1; n < 5; n++ {
				is(t, reported, n)
				write(t, w.path, content(n+1))
			}
			is(t, reported, 5)
		})
		t.Run(name+" renamed over", func(t *testing.T) {
			t.Parallel()
			w := w
			w.path = filepath.Join(t.TempDir(), "headway.yaml")
			write(t, w.path, content(1))
			reported := watching(t, &w)
			for n := 1; n < 5; n++ {
				is(t, reported, n)
				write(t, w.path+"~", content(n+1))
				require.NoError(t, os.Rename(w.path+"~", w.path))
			}
			is(t, reported, 5)
		})
		t.Run(name+" removed and written", func(t *testing.T) {
			t.Parallel()
			w := w
			w.path = filepath.Join(t.TempDir(), "headway.yaml")
			reported := watching(t, &w)
			require.Equal(t, w.path+": cannot be read: no such file or directory", <-reported)
			write(t, w.path, content(1))
			is(t, reported, 1)
			require.NoError(t, os.Remove(w.path))
			require.Equal(t, w.path+": cannot be read: no such file or directory", <-reported)
			write(t, w.path, content(1))
			is(t, reported, 1)
		})
		t.Run(name+" of a ConfigMap", func(t *testing.T) {
			t.Parallel()
			w := w
			dir := t.TempDir()
			w.path = filepath.Join(dir, "headway.yaml")
			version := func(n int) { // as the kubelet does it
				data := fmt.Sprintf("..2026_11_23_%d", n)
				require.NoError(t, os.Mkdir(filepath.Join(dir, data), 0o700))
				write(t, filepath.Join(dir, data, "headway.yaml"), content(n))
				require.NoError(t, os.Symlink(data, filepath.Join(dir, "..data_tmp")))
				require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
				if n%2 == 0 { // that the old ones go is not what is seen
					require.NoError(t, os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..2026_11_23_%d", n-1))))
				}
			}
			version(1)
			require.NoError(t, os.Symlink(filepath.Join("..data", "headway.yaml"), w.path))
			reported := watching(t, &w)
			for n := 1; n < 5; n++ {
				is(t, reported, n)
				version(n + 1)
			}
			is(t, reported, 5)
		})
		t.Run(name+" behind a link", func(t *testing.T) {
			t.Parallel()
			w := w
			target := filepath.Join(t.TempDir(), "other.yaml")
			w.path = filepath.Join(t.TempDir(), "headway.yaml")
			write(t, target, content(1))
			require.NoError(t, os.Symlink(target, w.path))
			reported := watching(t, &w)
			is(t, reported, 1)
			write(t, target, content(2))
			is(t, reported, 2)
		})
	}
}

// A mistake is reported once, with its place, and writing the same again is no change.
func TestWatchReportsMistakesOnce(t *testing.T) {
	t.Parallel()
	w := watcher{poll: 5 * time.Millisecond, stable: time.Millisecond, deaf: true, path: filepath.Join(t.TempDir(), "headway.yaml")}
	write(t, w.path, content(1))
	reported := watching(t, &w)
	is(t, reported, 1)
	write(t, w.path+"~", "upstreams: {u: {policies: [nonsense]}}")
	require.NoError(t, os.Rename(w.path+"~", w.path))
	require.Contains(t, <-reported, w.path+`:1:28: upstreams.u.policies[0]: not understood`)
	write(t, w.path+"~", content(2))
	require.NoError(t, os.Rename(w.path+"~", w.path))
	is(t, reported, 2)
	write(t, w.path+"~", content(2))
	require.NoError(t, os.Rename(w.path+"~", w.path))
	write(t, w.path+"~", content(3))
	require.NoError(t, os.Rename(w.path+"~", w.path))
	is(t, reported, 3)
	require.Empty(t, reported)
}

// A file that is written in place is read when it is cut at any byte. One of the whole files always holds.
func TestWatchIgnoresAFileThatIsCut(t *testing.T) {
	t.Parallel()
	const text = "upstreams:\n  u:\n    policies:\n      - 25/s, burst 10\n      - 100000 daily (UTC)\n      - tenant: 5/s, per tenant, optional\n" +
		"    overrides:\n      - {policy: tenant, for: acme, limit: '50/s, burst 10'}\n    hosts: api.crm.example\n    maxWait: 30s\n"
	synctest.Test(t, func(t *testing.T) {
		w := watcher{poll: time.Second, stable: 500 * time.Millisecond, deaf: true, path: filepath.Join(t.TempDir(), "headway.yaml")}
		texts := []string{text, strings.Replace(text, "25/s", "30/s", 1)}
		write(t, w.path, texts[0])
		reported := watching(t, &w)
		require.Equal(t, "[per-second: 25 per 1s, burst 10 daily: 100000 daily (UTC) tenant: 5 per 1s, per tenant, optional]", <-reported)
		time.Sleep(900 * time.Millisecond)
		for n := range text {
			now := texts[(n+1)%2]
			write(t, w.path, now[:n])
			time.Sleep(300 * time.Millisecond) // it is read once
			write(t, w.path, now)
			time.Sleep(2700 * time.Millisecond)
			require.Len(t, reported, 1, now[:n])
			require.Contains(t, <-reported, fmt.Sprintf("%s per 1s, burst 10 daily: 100000 daily (UTC) tenant:", now[38:40]), now[:n])
		}
	})
}

// Other files of the folder do not concern it.
func TestWhatConcernsAWatcher(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, Watch(t.Context(), "f", nil), "needs a function")
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	require.NoError(t, Watch(ctx, filepath.Join(t.TempDir(), "none.yaml"), func(f *File, err error) {
		calls++
		require.Nil(t, f)
		require.ErrorIs(t, err, os.ErrNotExist)
		cancel()
	}))
	require.Equal(t, 1, calls)
}

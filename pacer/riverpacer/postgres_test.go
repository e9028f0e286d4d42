package riverpacer_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/stretchr/testify/require"
)

// postgresEnv names the environment variable that names the directory of postgres and initdb.
const postgresEnv = "HEADWAY_POSTGRES_BIN"

// nobody runs the server for root, whom it refuses.
const nobody = 65534

// binary returns the path of a program of PostgreSQL. Without one it skips the test, or fails it under CI=true.
func binary(t *testing.T, name string) string {
	t.Helper()
	if dir := os.Getenv(postgresEnv); dir != "" {
		return filepath.Join(dir, name)
	}
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name) // where Debian's are, which are in no PATH
	require.NoError(t, err)
	if len(found) > 0 {
		slices.Sort(found)
		return found[len(found)-1]
	}
	hint := fmt.Sprintf("no %s in PATH: install PostgreSQL, for example with `make postgres`, or set %s", name, postgresEnv)
	if os.Getenv("CI") == "true" {
		t.Fatal(hint)
	}
	t.Skip(hint)
	return ""
}

// command returns a command that does not run as root.
func command(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = "/"
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return cmd
}

// startPostgres starts a server for the test, which listens only on a socket in its directory, with River's tables. It returns how to
// connect to it.
func startPostgres(t *testing.T) string {
	t.Helper()
	initdb, postgres := binary(t, "initdb"), binary(t, "postgres")
	dir, err := os.MkdirTemp("", "pg") //nolint:usetesting // the name of a socket is short, and another user must reach it
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	if os.Getuid() == 0 {
		require.NoError(t, os.Chown(dir, nobody, nobody))
	}
	data := filepath.Join(dir, "data")
	text, err := command(initdb, "-D", data, "-U", "headway", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-locale").CombinedOutput()
	require.NoError(t, err, string(text))
	// The data need not outlive the test.
	server := command(postgres, "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "synchronous_commit=off",
		"-c", "full_page_writes=off", "-c", "max_connections="+strconv.Itoa(200))
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	server.Stdout, server.Stderr = log, log
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		require.NoError(t, server.Process.Signal(syscall.SIGINT)) // a fast shutdown
		_ = server.Wait()
		_ = log.Close()
	})
	url := "host=" + dir + " user=headway dbname=postgres"
	require.Eventually(t, func() bool {
		conn, err := pgx.Connect(t.Context(), url)
		if err == nil {
			err = conn.Close(t.Context())
		}
		return err == nil
	}, 30*time.Second, 20*time.Millisecond, "the server does not answer")
	pool := connect(t.Context(), url)
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	require.NoError(t, err)
	_, err = migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
	require.NoError(t, err)
	return url
}

func connect(ctx context.Context, url string) *pgxpool.Pool {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		panic(err)
	}
	return pool
}

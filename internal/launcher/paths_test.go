package launcher

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSocketPaths: a directory in which the sockets can't be is an error at the start and of --check-config, and isn't created.
func TestSocketPaths(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	full := filepath.Join(dir, "full")
	if err := os.MkdirAll(filepath.Join(full, "other"), 0o755); err != nil {
		t.Fatal(err)
	}
	for sockets, want := range map[string]string{
		"run": `PODSTREAM_RUN_DIR: "run" isn't an absolute path`,
		filepath.Join(dir, strings.Repeat("x", 90)): "PODSTREAM_RUN_DIR: " + dir,
		filepath.Join(dir, "a,b"):                   "has a comma",
		full:                                        `has the file "other"`,
	} {
		for _, check := range []string{"--check-config=true", "--check-config=false"} {
			programs := t.TempDir()
			for _, name := range []string{"podconfigd", "podexecd"} {
				if err := os.Symlink("/bin/true", filepath.Join(programs, name)); err != nil {
					t.Fatal(err)
				}
			}
			var out bytes.Buffer
			l := &Launcher{Programs: programs, Sockets: sockets, Stdout: &out, Stderr: &out}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if code := l.Run(ctx, []string{source, check, "--root-dir=" + t.TempDir()}); code != 1 || !strings.Contains(out.String(), want) {
				t.Errorf("%s with %s: exit code %d; want 1 and %q:\n%s", sockets, check, code, want, &out)
			}
			if _, err := os.Lstat(sockets); sockets != full && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s was created: %v", sockets, err)
			}
		}
	}
}

// TestLongestSocketPath: the launcher starts with the longest directory in which podconfigd's socket can be.
func TestLongestSocketPath(t *testing.T) {
	dir := programs(t)
	const longest = 107 - len("/podconfigd.sock")
	l := startIn(t, dir, &Launcher{Sockets: filepath.Join(dir, strings.Repeat("x", longest-len(dir)-1))}, source)
	l.started("podconfigd", "podexecd")
	l.notified("")
	l.stop()
	l.ends(0)
}

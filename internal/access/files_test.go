package access

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/certtest"
)

// promptly runs do, and fails if it waits for a pipe's writer.
func promptly(t *testing.T, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("a pipe in place of a file is waited for; want it refused")
	}
}

// TestNotAFile: a path that isn't a regular file is refused at once, at the start and later, and the last good
// version stays.
func TestNotAFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	promptly(t, func() {
		if _, err := New(Config{File: pipe}); err == nil || !strings.Contains(err.Error(), pipe+" isn't a regular file") {
			t.Errorf("a pipe as access file: %v; want an error that says so", err)
		}
	})
	if _, err := New(Config{File: dir}); err == nil || !strings.Contains(err.Error(), dir+" isn't a regular file") {
		t.Errorf("a directory as access file: %v; want an error that says so", err)
	}

	file, log := filepath.Join(dir, "access"), &strings.Builder{}
	certtest.WriteFile(t, file, []byte("clients:\n- {uid: 8, role: inspector}\n"))
	a := open(t, Config{File: file}, log)
	if err := os.Rename(pipe, file); err != nil {
		t.Fatal(err)
	}
	promptly(t, func() {
		for range 3 {
			a.Reload()
		}
	})
	if n := strings.Count(log.String(), "isn't a regular file"); n != 1 {
		t.Errorf("the log tells %d times of the pipe; want once:\n%s", n, log)
	}
	if c, err := authorize(a, uid(a, 8), "/s/Pods"); err != nil || c.Role != Inspector {
		t.Errorf("a user of the file that was there before: %+v, %v; want the role as it was", c, err)
	}
}

package logind_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/execsvc/machine/logind"
)

// The longest delay is set by a drop-in, and put into use by a reload.
func TestMaxDelay(t *testing.T) {
	bus, login := newLogin(t)
	c := dial(t, bus, login)
	want := func(want time.Duration) {
		t.Helper()
		if got, err := c.MaxDelay(t.Context()); err != nil || got != want {
			t.Errorf("MaxDelay returns %v, %v; want %v", got, err, want)
		}
	}
	want(7 * time.Second)
	if err := c.SetMaxDelay(34*time.Second + time.Millisecond); err != nil {
		t.Fatal(err)
	}
	want(7 * time.Second)
	if err := c.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(35 * time.Second)
	text, err := os.ReadFile(filepath.Join(login.DropInDir, "99-kubelet.conf"))
	if err != nil || !strings.HasSuffix(string(text), "\n[Login]\nInhibitDelayMaxSec=35\n") {
		t.Errorf("the drop-in is %q, %v", text, err)
	}
}

// The directory of the drop-ins is made if it isn't there. A link is replaced, not followed. A directory that can't be
// written to is an error.
func TestDropIn(t *testing.T) {
	bus, login := newLogin(t)
	dir := filepath.Join(t.TempDir(), "missing", "logind.conf.d")
	c, err := logind.Dial(t.Context(), logind.Config{Socket: bus.Socket, DropInDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	file, other := filepath.Join(dir, "99-kubelet.conf"), filepath.Join(login.DropInDir, "other")
	for _, dangling := range []bool{false, true} {
		if err := c.SetMaxDelay(time.Minute); err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(file)
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o644 {
			t.Errorf("the drop-in is %v, %v; want a file that all can read", info, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if !dangling {
			if err := os.WriteFile(other, []byte("kept"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(other, file); err != nil {
			t.Fatal(err)
		}
		if err := c.SetMaxDelay(time.Minute); err != nil {
			t.Error(err)
		}
		if text, err := os.ReadFile(other); !dangling && (err != nil || string(text) != "kept") {
			t.Errorf("the target of a link is %q, %v", text, err)
		}
		if err := os.RemoveAll(other); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 1 {
		t.Errorf("the directory has %q, %v; want the drop-in alone", left, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.SetMaxDelay(time.Minute); err == nil || !strings.Contains(err.Error(), "set logind's longest delay: ") {
		t.Errorf("a directory that can't be made: %v", err)
	}
}

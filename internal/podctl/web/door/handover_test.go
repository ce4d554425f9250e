package door_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podstream/podstream/internal/podctl/web/door"
	"github.com/podstream/podstream/internal/roottest"
)

func newHandover(t *testing.T, parent string, owner int) *door.Handover {
	t.Helper()
	h, err := door.NewHandover(door.HandoverConfig{Parent: parent, Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestHandover: the file is the owner's alone, is replaced as a whole, and is gone at the end.
func TestHandover(t *testing.T) {
	h := newHandover(t, t.TempDir(), -1)
	for _, address := range []string{`http://127.0.0.1:1/#token=a"><script>`, "http://127.0.0.1:1/#token=b"} {
		if err := h.Write(address); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(h.Path())
		if err != nil || strings.Contains(string(text), "<script>") || !strings.Contains(string(text), `content="0; url=http://127.0.0.1:1/#token=`+address[26:27]) {
			t.Errorf("the file has %s, %v", text, err)
		}
	}
	for path, want := range map[string]os.FileMode{h.Path(): 0o600, filepath.Dir(h.Path()): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has the mode %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
	if err := h.Remove(); err != nil {
		t.Error(err)
	}
	if err := h.Remove(); err != nil {
		t.Errorf("the second time: %v", err)
	}
	if err := h.Write("http://127.0.0.1:1/#token=c"); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Dir(h.Path())); !os.IsNotExist(err) {
		t.Errorf("the directory is left: %v", err)
	}
}

// TestHandoverPlace: a directory in which other users can replace files is refused.
func TestHandoverPlace(t *testing.T) {
	dir := t.TempDir()
	for mode, ok := range map[os.FileMode]bool{0o700: true, 0o755: true, 0o777 | os.ModeSticky: true, 0o777: false, 0o770: false} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		h, err := door.NewHandover(door.HandoverConfig{Parent: dir, Owner: -1})
		if (err == nil) != ok {
			t.Errorf("mode %v: %v; want ok: %v", mode, err, ok)
		}
		if err == nil {
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := door.NewHandover(door.HandoverConfig{Parent: filepath.Join(dir, "none"), Owner: -1}); err == nil {
		t.Error("a directory that doesn't exist is accepted")
	}
}

// TestHandoverPlaceOfAnother: the directory of another user is refused, whatever its mode is: that user can put a page of their own
// in the place of the file. After "su" the XDG_RUNTIME_DIR of the user before is such a directory.
func TestHandoverPlaceOfAnother(t *testing.T) {
	roottest.Need(t, "a directory of another user")
	const user = 12345
	dir := t.TempDir()
	if err := os.Chown(dir, user, user); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o700, 0o755, 0o777 | os.ModeSticky} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		h, err := door.NewHandover(door.HandoverConfig{Parent: dir, Owner: -1})
		if err == nil {
			t.Errorf("mode %v: the directory of another user is accepted", mode)
			_ = h.Close()
		}
	}
}

// TestHandoverIsGiven: the file of a root's podctl is the user's who called sudo, and that user can't have podctl remove or write
// anything else.
func TestHandoverIsGiven(t *testing.T) {
	roottest.Need(t, "giving a file to a user")
	const user = 12345
	dir := t.TempDir()
	h := newHandover(t, dir, user)
	if err := h.Write("http://127.0.0.1:1/#token=a"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{h.Path(), filepath.Dir(h.Path())} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid != user { //nolint:forcetypeassert // On Linux.
			t.Errorf("%s is of user %d", path, uid)
		}
	}
	// The user puts links in both places.
	victim := filepath.Join(t.TempDir(), "podctl-web.html")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(h.Path()); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, h.Path()); err != nil {
		t.Fatal(err)
	}
	if err := h.Write("http://127.0.0.1:1/#token=b"); err != nil {
		t.Errorf("a link in the file's place: %v", err)
	}
	moved := filepath.Dir(h.Path()) + ".moved"
	if err := os.Rename(filepath.Dir(h.Path()), moved); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(victim), filepath.Dir(h.Path())); err != nil {
		t.Fatal(err)
	}
	_ = h.Write("http://127.0.0.1:1/#token=c") // It writes to the directory that it made, wherever that is.
	_ = h.Close()
	if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
		t.Errorf("the victim has %q, %v", text, err)
	}
}

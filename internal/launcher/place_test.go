package launcher

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

func owner(t *testing.T, path string) (uid uint32, mode os.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid, info.Mode()
}

// chown gives a file to a user and the group of that number.
func chown(t *testing.T, path string, id int) {
	t.Helper()
	if err := os.Lchown(path, id, id); err != nil {
		t.Fatal(err)
	}
}

// TestMakeDirs: podconfigd's directory and files are its user's, also after a start as root; the directory of the sockets is
// sticky; a --root-dir that is a link to another disk is followed; and no link in podconfigd's directory gives a file away.
func TestMakeDirs(t *testing.T) {
	roottest.Need(t, "it gives directories to another user")
	dir := t.TempDir()
	disk, root, secret := filepath.Join(dir, "disk"), filepath.Join(dir, "kubelet"), filepath.Join(dir, "secret")
	store := filepath.Join(root, storeName)
	for _, err := range []error{
		os.MkdirAll(filepath.Join(disk, storeName), 0o755), os.Symlink(disk, root), os.WriteFile(secret, nil, 0o600),
		os.WriteFile(filepath.Join(disk, storeName, "podconfigd.db"), nil, 0o600),
		os.Symlink(secret, filepath.Join(disk, storeName, "link")), os.Link(secret, filepath.Join(disk, storeName, "hard")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c, user := &Commands{RootDir: root, StoreDir: store}, identity{fallbackID, fallbackID}
	sockets := filepath.Join(dir, "run")
	for range 2 {
		if err := makeAll(t, c, sockets, user); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]uint32{store: fallbackID, filepath.Join(store, "podconfigd.db"): fallbackID, secret: 0, sockets: 0} {
		if uid, _ := owner(t, path); uid != want {
			t.Errorf("%s is of user %d; want %d", path, uid, want)
		}
	}
	if _, mode := owner(t, store); mode.Perm() != 0o700 {
		t.Errorf("podconfigd's directory is %v", mode)
	}
	if _, mode := owner(t, sockets); mode&os.ModeSticky == 0 || mode.Perm() != 0o775 {
		t.Errorf("the directory of the sockets is %v", mode)
	}
	if err := makeAll(t, c, dir, user); err == nil || !strings.Contains(err.Error(), "PODSTREAM_RUN_DIR: "+dir) ||
		!strings.Contains(err.Error(), "set a directory that is empty or doesn't exist, such as "+dir+"/podstream") {
		t.Errorf("sockets in a directory with other files: %v; want an error that says what to do", err)
	}
	if err := os.RemoveAll(filepath.Join(disk, storeName)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(disk, storeName)); err != nil {
		t.Fatal(err)
	}
	if err := makeAll(t, c, sockets, user); err == nil || !strings.Contains(err.Error(), store) {
		t.Errorf("a link in the place of podconfigd's directory: %v; want an error", err)
	}
	if uid, _ := owner(t, dir); uid != 0 {
		t.Error("a link in the place of podconfigd's directory gave its target away")
	}
	if err := unix.Access(secret, unix.R_OK); err != nil {
		t.Error(err)
	}
}

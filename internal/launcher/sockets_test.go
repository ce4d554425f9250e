package launcher

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// TestFormerUser: the files of an older version's user are the user's that podconfigd has now: the store, and the lock and the
// dead socket in the directory of the sockets, which the former user left.
func TestFormerUser(t *testing.T) {
	roottest.Need(t, "it gives files to other users")
	dir := t.TempDir()
	c := &Commands{RootDir: filepath.Join(dir, "kubelet"), StoreDir: filepath.Join(dir, "kubelet", storeName)}
	sockets, former, now := filepath.Join(dir, "run"), identity{formerID, formerID}, identity{997, 995}
	if err := makeDirs(c, sockets, former); err != nil {
		t.Fatal(err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(sockets, podconfigdSocket)})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	_ = listener.Close()
	files := []string{filepath.Join(c.StoreDir, "podconfigd.db"), filepath.Join(sockets, podconfigdSocket+lockSuffix)}
	for _, path := range files {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files = append(files, filepath.Join(sockets, podconfigdSocket))
	for _, path := range files {
		chown(t, path, formerID)
	}
	if err := makeDirs(c, sockets, now); err != nil {
		t.Fatal(err)
	}
	for _, path := range append(files, c.StoreDir) {
		if uid, _ := owner(t, path); uid != uint32(now.uid) {
			t.Errorf("%s is of user %d; want %d", path, uid, now.uid)
		}
	}
}

// TestForeignFiles: a directory of the sockets that a launcher made is used again, whatever files are in it: podconfigd's group
// can make some. And what that group puts in podexecd's place doesn't keep podexecd from starting.
func TestForeignFiles(t *testing.T) {
	roottest.Need(t, "it gives files to other users")
	dir := t.TempDir()
	sockets, user := filepath.Join(dir, "run"), identity{997, 995}
	if err := makeSocketDir(sockets, user); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(sockets, podexecdSocket+lockSuffix)
	if uid, mode := owner(t, lock); uid != 0 || mode != 0o600 {
		t.Errorf("%s is of user %d with mode %v; want root's with 0600", lock, uid, mode)
	}
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(sockets, podexecdSocket), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"other", podexecdSocket + lockSuffix} {
		if err := os.WriteFile(filepath.Join(sockets, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"other", podexecdSocket, podexecdSocket + lockSuffix} {
		chown(t, filepath.Join(sockets, name), user.uid)
	}
	held, err := os.OpenFile(lock, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := awaitOthers(t.Context(), sockets, time.Millisecond); err != nil {
		t.Errorf("podconfigd's user holds podexecd's lock: %v", err)
	}
	if err := makeSocketDir(sockets, user); err != nil {
		t.Fatalf("with other files: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(sockets, podexecdSocket)); !os.IsNotExist(err) {
		t.Errorf("what podconfigd's user put in the place of podexecd's socket stays: %v", err)
	}
	if uid, _ := owner(t, lock); uid != 0 || isLocked(lock, true) {
		t.Errorf("podexecd's lock is user %d's, and held: %v", uid, isLocked(lock, true))
	}
	// A directory of another program has other modes.
	if err := os.Chmod(sockets, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := makeSocketDir(sockets, user); err == nil || !strings.Contains(err.Error(), `has the file "other"`) {
		t.Errorf("with another mode: %v; want an error", err)
	}
}

// TestGiveRace: while files are given, their directory's owner exchanges one for a link to a file of root. Root's file stays
// root's.
func TestGiveRace(t *testing.T) {
	roottest.Need(t, "it gives files to other users")
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	secret, file, link := filepath.Join(dir, "secret"), filepath.Join(store, "file"), filepath.Join(store, "link")
	for _, path := range []string{secret, file} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(secret, link); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, file, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
			}
		}
	}()
	given := 0
	for range 20_000 {
		if err := giveFiles(store, identity{fallbackID, fallbackID}); err != nil {
			t.Error(err)
			break
		}
		if uid, _ := owner(t, secret); uid != 0 {
			t.Error("root's file was given away")
			break
		}
		for _, path := range []string{file, link} {
			// Only the file that isn't root's is given back, so that the next one has to give it.
			fd, err := unix.Open(path, unix.O_RDONLY, 0)
			if err != nil {
				continue
			}
			var stat unix.Stat_t
			if unix.Fstat(fd, &stat) == nil && stat.Uid == fallbackID {
				given++
				_ = unix.Fchown(fd, 0, 0)
			}
			_ = unix.Close(fd)
		}
	}
	close(stop)
	<-stopped
	if given < 1000 {
		t.Errorf("the file was given %d times", given)
	}
}

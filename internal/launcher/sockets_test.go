package launcher

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// makeAll makes the directories of both daemons.
func makeAll(t *testing.T, c *Commands, sockets string, owner identity) error {
	t.Helper()
	run := &runDir{path: sockets, owner: owner, log: slog.New(slog.DiscardHandler)}
	return errors.Join(makeStore(c, owner), run.forPodexecd(), run.forPodconfigd())
}

// TestFormerUser: the files of an older version's user are the user's that podconfigd has now: the store, and the lock and the
// dead socket in the directory of the sockets, which the former user left.
func TestFormerUser(t *testing.T) {
	roottest.Need(t, "it gives files to other users")
	dir := t.TempDir()
	c := &Commands{RootDir: filepath.Join(dir, "kubelet"), StoreDir: filepath.Join(dir, "kubelet", storeName)}
	sockets, former, now := filepath.Join(dir, "run"), identity{formerID, formerID}, identity{997, 995}
	if err := makeAll(t, c, sockets, former); err != nil {
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
	if err := makeAll(t, c, sockets, now); err != nil {
		t.Fatal(err)
	}
	for _, path := range append(files, c.StoreDir) {
		if uid, _ := owner(t, path); uid != uint32(now.uid) {
			t.Errorf("%s is of user %d; want %d", path, uid, now.uid)
		}
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

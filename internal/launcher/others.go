package launcher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// othersTime is how long the daemons of a launcher that was killed may take to end. The kernel kills them with it.
	othersTime = 5 * time.Second
	// othersInterval is the time between two looks at the sockets. A lock can't be awaited together with a time limit.
	othersInterval = 50 * time.Millisecond
)

// awaitOthers waits until no daemon of another launcher, or of Podstream's units, has the sockets in the directory. If one
// has them for longer than the limit, it returns an error that names it. It returns nil at the end of ctx.
//
// podconfigd's user can keep podconfigd's lock and socket without a podconfigd, and must not keep podexecd from starting.
// What only shows that a process of that user has them is a warning.
func awaitOthers(ctx context.Context, dir string, limit time.Duration) (warning string, err error) {
	ended := ctx
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, name := range []string{"podexecd", "podconfigd"} {
		for other := findOther(dir, name); other != nil; other = findOther(dir, name) {
			select {
			case <-ctx.Done():
			case <-time.After(othersInterval):
				continue
			}
			switch {
			case ended.Err() != nil:
				return "", nil
			case !other.certain:
				return other.err.Error(), nil
			}
			return "", other.err
		}
	}
	return "", nil
}

// other is a process that has a daemon's socket or its lock.
type other struct {
	err error
	// certain: no process of podconfigd's user can make it appear.
	certain bool
}

// findOther returns what has the daemon's socket; nil if nothing has.
func findOther(dir, name string) *other {
	file, err := (&runDir{path: dir}).open()
	if err != nil {
		return nil
	}
	defer file.Close()
	at, socket := int(file.Fd()), filepath.Join(dir, name+".sock")
	privileged := name == "podexecd"
	if lock := findLock(at, name+".sock"+lockSuffix); lock != nil && (!privileged || !lock.foreign()) {
		return &other{
			fmt.Errorf("a %s runs already, and holds %s; stop it (systemctl disable --now %[1]s.socket %[1]s), or the launcher that started it",
				name, socket+lockSuffix),
			isOwn(&lock.stat) || isOfUnit(lock.pid, name+".service"),
		}
	}
	stat, err := lookAt(at, name+".sock")
	if err != nil || stat.Mode&unix.S_IFMT != unix.S_IFSOCK || privileged && !isOwn(&stat) {
		return nil
	}
	uid, listens := listener(&stat)
	if !listens {
		return nil
	}
	return &other{
		fmt.Errorf("a process listens on %s already, probably systemd for %s.socket; stop it: systemctl disable --now %[2]s.socket %[2]s", socket, name),
		uid == os.Geteuid() && stat.Nlink == 1,
	}
}

// isOwn reports whether a file is this process's user's, and has no other name: with a link, another user can give it this name.
func isOwn(stat *unix.Stat_t) bool { return int(stat.Uid) == os.Geteuid() && stat.Nlink == 1 }

// lock is a file that a process has locked.
type lock struct {
	stat unix.Stat_t
	// pid is the process; 0 if that isn't known.
	pid int
}

// findLock returns the lock on a file of the directory; nil if there is none, or the file can't be opened.
func findLock(at int, name string) *lock {
	fd, err := openAt(at, name, unix.O_RDWR|unix.O_NONBLOCK)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }() // It unlocks.
	var l lock
	if unix.Fstat(fd, &l.stat) != nil || !errors.Is(unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) {
		return nil
	}
	l.pid = lockHolder(&l.stat)
	return &l
}

// foreign reports whether the lock isn't of a process of this process's user. podconfigd's user can make files in the directory,
// and podconfigd can read each file, and so lock it. A podexecd lives as long as its lock.
func (l *lock) foreign() bool {
	return !isOwn(&l.stat) || l.pid != 0 && userOf(l.pid) != os.Geteuid()
}

// only makes the socket that shows that this launcher runs, or returns an error if another one runs: its podexecd may be about
// to start. Root alone can connect to it. A lock wouldn't do: podconfigd can read each file, and so lock it.
func (d *runDir) only() (*notices, error) {
	path := filepath.Join(d.path, noticesName, launcherSocket)
	if conn, err := net.Dial("unixgram", path); err == nil {
		_ = conn.Close()
		return nil, fmt.Errorf("a launcher runs already, and has %s; stop it first: systemctl stop kubelet", path)
	}
	return listenNotices(path, os.Geteuid(), os.Getegid())
}

package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// othersTime is how long the daemons of a launcher that was killed may take to end. The kernel kills them with it.
	othersTime = 5 * time.Second
	// lockInterval is the time between two attempts to lock a file. A lock can't be awaited together with a time limit.
	lockInterval = 50 * time.Millisecond
)

// awaitOthers waits until no daemon of another launcher, or of Podstream's units, has the sockets in the directory. If one
// has them for longer than the limit, it returns an error that names it. It returns nil at the end of ctx.
func awaitOthers(ctx context.Context, sockets string, limit time.Duration) error {
	ended := ctx
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, name := range []string{"podconfigd", "podexecd"} {
		// The daemon holds a lock on this file while it listens.
		lock := filepath.Join(sockets, name+".sock"+lockSuffix)
		for isLocked(lock, name == "podexecd") {
			select {
			case <-ctx.Done():
				if ended.Err() != nil {
					return nil
				}
				return fmt.Errorf("a %s runs already, and holds %s; stop it (systemctl disable --now %[1]s.socket %[1]s), or the launcher that started it",
					name, lock)
			case <-time.After(lockInterval):
			}
		}
	}
	return nil
}

// isLocked reports whether a process holds a lock on the file. One that can't be opened isn't locked. With own, a file of
// another user than this process's isn't either: podconfigd's user can make files in the directory, and must not keep
// podexecd from starting. Other users can neither make the file nor open it, whose mode is 0600.
func isLocked(path string, own bool) bool {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close() // It unlocks.
	var stat unix.Stat_t
	if own && (unix.Fstat(fd, &stat) != nil || int(stat.Uid) != os.Geteuid()) {
		return false
	}
	return errors.Is(unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

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
		lock := filepath.Join(sockets, name+".sock.lock")
		for isLocked(lock) {
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

// isLocked reports whether a process holds a lock on the file. One that can't be opened isn't locked.
func isLocked(path string) bool {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close() // It unlocks.
	return errors.Is(unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

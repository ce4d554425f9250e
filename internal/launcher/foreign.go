package launcher

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	// foreignPrefix begins the names of other users' entries that were in podexecd's places.
	foreignPrefix = "foreign-"
	// maxForeign is how many such entries a launcher moves. Then it closes the directory: no user but its own can make entries.
	maxForeign = 8
	// maxClaims bounds the attempts to replace an entry that its owner removes and makes again meanwhile.
	maxClaims = 100
)

// place is a name in the directory of the sockets that is podexecd's or the launcher's.
type place struct {
	name string
	// mode is the type and mode of the file.
	mode uint32
}

var podexecdPlaces = []place{
	{podexecdSocket, unix.S_IFSOCK | 0o600},
	{podexecdSocket + lockSuffix, unix.S_IFREG | 0o600},
	{noticesName, unix.S_IFDIR | 0o755},
}

// claim makes a file of this process's user in a place, also if an entry of another user is there. No other user can replace it, as
// the directory is sticky. In the place of podexecd's socket it is a socket without a listener, as a killed podexecd leaves one:
// podexecd replaces it in one step. It makes no difference if the other user changes the entry meanwhile: the two are exchanged in one step.
func (d *runDir) claim(at int, p place) error {
	for range maxClaims {
		stat, err := lookAt(at, p.name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err = makeEntry(at, p); !errors.Is(err, fs.ErrExist) {
				return err
			}
			continue
		case errors.Is(err, unix.EXDEV):
			if err := d.unmount(p.name); err != nil {
				return err
			}
			continue
		case err != nil || !isForeign(at, p, &stat):
			return err
		}
		made := place{name: foreignPrefix + rand.Text(), mode: p.mode}
		if err := makeEntry(at, made); err != nil {
			return err
		}
		err = unix.Renameat2(at, made.name, at, p.name, unix.RENAME_EXCHANGE)
		if err != nil {
			_ = removeEntry(at, made.name)
		}
		switch {
		case err == nil:
			return d.discard(at, p.name, made.name, stat.Uid)
		case errors.Is(err, unix.EBUSY):
			if err := d.unmount(p.name); err != nil {
				return err
			}
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
			// The file system can't exchange.
			err = unix.Renameat2(at, p.name, at, made.name, unix.RENAME_NOREPLACE)
			if err == nil {
				err = d.discard(at, p.name, made.name, stat.Uid)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return errors.New("another user replaces it again and again")
}

// discard removes an entry that was moved. A directory with entries stays: its owner could give it more of them than can be
// removed. From maxForeign entries on, the directory of the sockets is closed, also for podconfigd.
func (d *runDir) discard(at int, name, moved string, uid uint32) error {
	file, to := filepath.Join(d.path, name), filepath.Join(d.path, moved)
	if err := removeEntry(at, moved); err == nil {
		d.log.Warn("an entry of another user in podexecd's place was removed", "file", file, "user", uid)
	} else {
		d.log.Warn("an entry of another user in podexecd's place was moved", "file", file, "user", uid, "to", to, "error", err)
	}
	if closed, err := d.countMoved(); err != nil || !closed {
		return err
	}
	d.log.Error("podconfigd's user can't make files in the directory of the sockets until the launcher starts again, as it has put too many "+
		"in podexecd's place; a podconfigd that ends may stay down", "directory", d.path, "user", d.owner.uid)
	return nil
}

// countMoved counts a moved entry, and closes the directory if it is the last one that may be moved.
func (d *runDir) countMoved() (closed bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.moved++; d.moved != maxForeign {
		return false, nil
	}
	return true, d.setMode()
}

// unmount detaches a mount in the place of a file: a user can mount a FUSE file system on its own entry.
func (d *runDir) unmount(name string) error {
	path := filepath.Join(d.path, name)
	if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("detach the mount: %w", err)
	}
	d.log.Warn("a mount in podexecd's place was detached", "file", path)
	return nil
}

// isForeign reports whether an entry in a place is another user's, is one of this user that another one has given a second name,
// or is locked by another user. A launcher that isn't root takes no file of root's away.
func isForeign(at int, p place, stat *unix.Stat_t) bool {
	switch {
	case os.Geteuid() != 0:
		return false
	case stat.Mode&unix.S_IFMT == unix.S_IFDIR:
		return int(stat.Uid) != os.Geteuid()
	case !isOwn(stat):
		return true
	}
	lock := findLock(at, p.name)
	return lock != nil && lock.foreign()
}

// makeEntry makes a file, which must not exist.
func makeEntry(at int, p place) error {
	switch p.mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return unix.Mkdirat(at, p.name, p.mode&0o7777)
	default:
		return unix.Mknodat(at, p.name, p.mode, 0)
	}
}

// removeEntry removes a file or an empty directory.
func removeEntry(at int, name string) error {
	err := unix.Unlinkat(at, name, 0)
	if errors.Is(err, unix.EISDIR) {
		err = unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
	}
	return err
}

// openAt opens an entry of a directory without following a link or entering a mount, whose server may not answer: the error is
// EXDEV then.
func openAt(at int, name string, flags int) (int, error) {
	flags |= unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat2(at, name, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_XDEV}) //nolint:gosec // Flags are positive.
	// Linux before 5.6, or a filter that doesn't know the call.
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		fd, err = unix.Openat(at, name, flags, 0)
	}
	return fd, err
}

// lookAt returns the attributes of an entry.
func lookAt(at int, name string) (stat unix.Stat_t, err error) {
	fd, err := openAt(at, name, unix.O_PATH)
	if err != nil {
		return stat, err
	}
	defer func() { _ = unix.Close(fd) }()
	err = unix.Fstat(fd, &stat)
	return stat, err
}

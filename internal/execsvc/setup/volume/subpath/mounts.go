package subpath

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

// stNoSymFollow is statfs(2)'s bit for MS_NOSYMFOLLOW.
const stNoSymFollow = 0x2000

// mountFlags returns the options of the open file's mount, as mount(2) takes them. A remount drops options that it
// isn't given, except the atime mode, which isn't among these.
func mountFlags(fd int) (uintptr, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return 0, fmt.Errorf("get the options of a mount: %w", err)
	}
	// Both calls use the same bits.
	flags := uintptr(fs.Flags) & (unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	if fs.Flags&stNoSymFollow != 0 {
		flags |= unix.MS_NOSYMFOLLOW
	}
	return flags, nil
}

// isMounted reports whether the open child of the open directory is on another mount. Device numbers don't suffice: a
// bind mount may be of the same file system.
func isMounted(dir, child int) (bool, error) {
	outer, err := openfile.Mount(dir)
	if err != nil {
		return false, err
	}
	inner, err := openfile.Mount(child)
	return inner != outer, err
}

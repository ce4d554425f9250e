package subpath

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// stNoSymFollow is statfs(2)'s bit for MS_NOSYMFOLLOW.
const stNoSymFollow = 0x2000

// mountFlags are the options of the mount on which the open file is, as mount(2) takes them. A remount loses those that it isn't
// given; only how access times are kept, which isn't among them, stays by itself.
func mountFlags(fd int) (uintptr, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return 0, fmt.Errorf("look at the options of a mount: %w", err)
	}
	// These have the same bits in both calls.
	flags := uintptr(fs.Flags) & (unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	if fs.Flags&stNoSymFollow != 0 {
		flags |= unix.MS_NOSYMFOLLOW
	}
	return flags, nil
}

// isMounted tells whether the open child of the open directory is on another mount. Device numbers wouldn't tell: a bind mount may be
// of the same file system.
func isMounted(dir, child int) (bool, error) {
	outer, err := mountID(dir)
	if err != nil {
		return false, err
	}
	inner, err := mountID(child)
	return inner != outer, err
}

// mountID is the kernel's ID of the mount on which the open file is. It is told of a mount that is dead, too.
func mountID(fd int) (string, error) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return "", fmt.Errorf("look on which mount a file is: %w", err)
	}
	for line := range strings.Lines(string(info)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", errors.New("look on which mount a file is: the kernel doesn't tell")
}

package doctor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// bounds are how much is looked at, because pods may have any number of descriptors.
type bounds struct {
	// descriptors are those of root's processes, of inotify or not; instances are those of inotify instances.
	descriptors, instances int
}

// usualBounds are far more than a node with hundreds of pods has.
var usualBounds = bounds{descriptors: 1 << 20, instances: 1 << 14}

// instance is a descriptor of an inotify instance. Descriptors of one process, or of a process and its children, may
// share an instance.
type instance struct {
	pid, fd int
}

// instances returns the descriptors of inotify instances that root's processes have. complete is false if there are
// more than most allows.
func (e *examination) instances(ctx context.Context, most bounds) (all []instance, complete bool, err error) {
	processes, err := filepath.Glob(e.path("proc/[0-9]*"))
	if err != nil {
		return nil, false, err
	}
	seen := 0
	for _, process := range processes {
		pid, err := strconv.Atoi(filepath.Base(process))
		if err != nil || !ofRoot(process) {
			continue
		}
		complete, err = descriptors(process, func(fd int, target string) bool {
			if seen++; target == "anon_inode:inotify" {
				all = append(all, instance{pid, fd})
			}
			return ctx.Err() == nil && seen < most.descriptors && len(all) < most.instances
		})
		switch {
		case ctx.Err() != nil:
			return nil, false, ctx.Err()
		case err == nil && !complete:
			return all, false, nil
		}
	}
	return all, true, nil
}

// descriptors calls look with each descriptor of a process until it returns false; complete is false then. It fails if
// the process has ended.
func descriptors(process string, look func(fd int, target string) bool) (complete bool, err error) {
	dir, err := os.Open(filepath.Join(process, "fd"))
	if err != nil {
		return false, err
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			fd, notNumber := strconv.Atoi(name)
			target, gone := os.Readlink(filepath.Join(dir.Name(), name))
			if notNumber == nil && gone == nil && !look(fd, target) {
				return false, nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil:
			return false, err
		}
	}
}

// watches returns how many watches an instance has: none if it is gone.
func (e *examination) watches(i instance) int64 {
	info, err := os.Open(e.path(fmt.Sprintf("proc/%d/fdinfo/%d", i.pid, i.fd)))
	if err != nil {
		return 0
	}
	defer info.Close()
	var n int64
	for lines := bufio.NewScanner(info); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "inotify wd:") {
			n++
		}
	}
	return n
}

// compare orders the instances of two descriptors; 0 means that they are the same one. All instances have the same
// inode, and an equal fdinfo if they have no watches, so that only the kernel can say it, by kcmp(2). A kernel without
// CONFIG_KCMP can't, and none can for a machine whose files are elsewhere than in /.
func (e *examination) compare(a, b instance) (int, error) {
	if e.Machine != "/" {
		return 0, os.ErrNotExist
	}
	const file = 0 // KCMP_FILE
	order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a.pid), uintptr(b.pid), file, uintptr(a.fd), uintptr(b.fd), 0)
	switch {
	case errno != 0:
		return 0, errno
	case order == 0:
		return 0, nil
	case order == 1:
		return -1, nil
	default:
		return 1, nil
	}
}

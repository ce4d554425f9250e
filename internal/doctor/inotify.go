package doctor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The parts of a limit from which doctor warns, and from which it speaks of a failure.
const (
	much   = 75
	nearly = 98
)

// inotify checks whether root's processes, with those in pods, run out of inotify's instances and watches. The kernel
// counts them for each user, and a user of a pod without a user namespace is the user of the node.
func (e *examination) inotify(context.Context) []Finding {
	all, err := e.instances()
	if err != nil {
		return []Finding{{"inotify", Skipped, err.Error(), ""}}
	}
	all, exact := distinct(all, e.compare)
	most := ""
	if !exact {
		most = "at most "
	}
	var watches int64
	for _, i := range all {
		watches += i.watches
	}
	var found []Finding
	for _, u := range []struct {
		what, sysctl string
		used         int64
	}{{"instances", "max_user_instances", int64(len(all))}, {"watches", "max_user_watches", watches}} {
		limit, ok := e.number("proc/sys/fs/inotify/" + u.sysctl)
		if !ok || limit == 0 {
			continue
		}
		text := fmt.Sprintf("root's processes, with those of pods, have %s%d of %d %s", most, u.used, limit, u.what)
		advice := fmt.Sprintf("sysctl -w fs.inotify.%s=%d, and in /etc/sysctl.d", u.sysctl, 8*limit)
		switch part := 100 * u.used / limit; {
		case part >= nearly:
			found = append(found, Finding{"inotify", Failed, text + ": programs that follow files fail with \"too many open files\" or \"no space left on device\"", advice})
		case part >= much:
			found = append(found, Finding{"inotify", Warning, text + ": when they are used up, programs that follow files fail, podexecd's logs too", advice})
		default:
			found = append(found, Finding{"inotify", OK, text, ""})
		}
	}
	if len(found) == 0 {
		return []Finding{{"inotify", Skipped, "the kernel has no limits of it", ""}}
	}
	return found
}

// instance is a descriptor of an inotify instance. Descriptors of one process, or of a process and its children, may
// share an instance.
type instance struct {
	pid, fd int
	watches int64
}

// instances returns the descriptors of inotify instances that root's processes have.
func (e *examination) instances() ([]instance, error) {
	processes, err := filepath.Glob(e.path("proc/[0-9]*"))
	if err != nil {
		return nil, err
	}
	var all []instance
	for _, process := range processes {
		if !ofRoot(process) {
			continue
		}
		files, err := os.ReadDir(filepath.Join(process, "fd"))
		if err != nil {
			continue // it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(process))
		if err != nil {
			continue // no process
		}
		for _, file := range files {
			fd, err := strconv.Atoi(file.Name())
			if err != nil {
				continue
			}
			if target, err := os.Readlink(filepath.Join(process, "fd", file.Name())); err != nil || target != "anon_inode:inotify" {
				continue
			}
			info, _ := os.ReadFile(filepath.Join(process, "fdinfo", file.Name())) // A process that has ended has none.
			all = append(all, instance{pid, fd, int64(strings.Count(string(info), "inotify wd:"))})
		}
	}
	return all, nil
}

// distinct returns one descriptor of each instance, because the kernel counts a shared instance once. exact is false
// if two descriptors couldn't be compared; an instance may then be there more than once.
func distinct(all []instance, compare func(a, b instance) (int, error)) (one []instance, exact bool) {
	exact = true
	ordered := func(a, b instance) int {
		order, err := compare(a, b)
		if err != nil {
			exact = false
			return cmp.Or(cmp.Compare(a.pid, b.pid), cmp.Compare(a.fd, b.fd))
		}
		return order
	}
	slices.SortFunc(all, ordered)
	return slices.CompactFunc(all, func(a, b instance) bool { return ordered(a, b) == 0 }), exact
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

// ofRoot reports whether root runs a process, by its directory in /proc.
func ofRoot(process string) bool {
	text, err := os.ReadFile(filepath.Join(process, "status"))
	return err == nil && strings.Contains(string(text), "\nUid:\t0\t")
}

package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// sysctl is a setting of the kernel.
type sysctl struct {
	name string
	// good reports whether a value needs no remark. want is the value that the kubelet sets.
	good func(int64) bool
	want int64
	// state and effect are what another value means.
	state  State
	effect string
}

// sysctls are the settings that a kubelet sets itself, or requires with protectKernelDefaults. podexecd sets none.
var sysctls = []sysctl{
	{"vm.panic_on_oom", func(v int64) bool { return v != 2 }, 0, Failed, "a container that needs more memory than its limit stops the whole machine"},
	{"vm.panic_on_oom", func(v int64) bool { return v != 1 }, 0, Warning, "a machine that is short of memory stops, where the kernel could end one container"},
	{"vm.overcommit_memory", func(v int64) bool { return v != 2 }, 1, Warning, "programs get no memory although there is some"},
	{"vm.overcommit_memory", func(v int64) bool { return v != 0 }, 1, Warning, "a large program may be unable to fork or to reserve memory, which it can on a kubelet's node"},
	{"kernel.panic", func(v int64) bool { return v != 0 }, 10, Warning, "after a panic the machine stands still, and its pods with it, in place of booting"},
	{"kernel.panic_on_oops", func(v int64) bool { return v != 0 }, 1, Warning, "a kernel with a fault in itself goes on, and pods may hang"},
	{"kernel.keys.root_maxkeys", func(v int64) bool { return v >= 1000000 }, 1000000, Warning, "each container has a keyring of root's: beyond that number none starts (\"disk quota exceeded\")"},
	{"kernel.keys.root_maxbytes", func(v int64) bool { return v >= 25000000 }, 25000000, Warning, "each container has a keyring of root's: beyond that size none starts (\"disk quota exceeded\")"},
}

// kernelSettings checks the kernel's settings.
func (e *examination) kernelSettings(context.Context) []Finding {
	var found []Finding
	for _, s := range sysctls {
		value, ok := e.number("proc/sys/" + strings.ReplaceAll(s.name, ".", "/"))
		if !ok || s.good(value) {
			continue
		}
		found = append(found, Finding{"kernel", s.state, fmt.Sprintf("%s=%d: %s", s.name, value, s.effect),
			fmt.Sprintf("sysctl -w %s=%d, and in /etc/sysctl.d: the kubelet sets this, podexecd doesn't", s.name, s.want)})
	}
	if e.tree().version == "v2" && e.olderThan(5, 8) {
		found = append(found, Finding{"kernel", Warning, "the kernel is " + e.text("proc/sys/kernel/osrelease") + ", and Kubernetes supports cgroup v2 from 5.8 on: limits may be missing",
			"install a newer kernel, or boot with cgroup v1"})
	}
	if len(found) == 0 {
		found = []Finding{{"kernel", OK, strings.TrimSpace(e.text("proc/sys/kernel/osrelease") + " with the settings of a kubelet's node"), ""}}
	}
	return found
}

// The parts of a limit from which doctor warns, and from which it speaks of a failure.
const (
	much   = 75
	nearly = 98
)

// inotify checks whether root's processes, with those in pods, run out of inotify's instances and watches. The kernel
// counts them for each user, and a user of a pod without a user namespace is the user of the node.
func (e *examination) inotify(context.Context) []Finding {
	instances, watches, err := e.inotifyUse()
	if err != nil {
		return []Finding{{"inotify", Skipped, err.Error(), ""}}
	}
	var found []Finding
	for _, u := range []struct {
		what, sysctl string
		used         int64
	}{{"instances", "max_user_instances", instances}, {"watches", "max_user_watches", watches}} {
		limit, ok := e.number("proc/sys/fs/inotify/" + u.sysctl)
		if !ok || limit == 0 {
			continue
		}
		text := fmt.Sprintf("root's processes, with those of pods, have %d of %d %s", u.used, limit, u.what)
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

// inotifyUse counts the instances and watches of root's processes. An instance that processes share counts for each.
func (e *examination) inotifyUse() (instances, watches int64, err error) {
	processes, err := filepath.Glob(e.path("proc/[0-9]*"))
	if err != nil {
		return 0, 0, err
	}
	for _, process := range processes {
		if !ofRoot(process) {
			continue
		}
		files, err := os.ReadDir(filepath.Join(process, "fd"))
		if err != nil {
			continue // it has ended
		}
		for _, file := range files {
			if target, err := os.Readlink(filepath.Join(process, "fd", file.Name())); err != nil || target != "anon_inode:inotify" {
				continue
			}
			instances++
			info, _ := os.ReadFile(filepath.Join(process, "fdinfo", file.Name())) // A process that has ended has none.
			watches += int64(strings.Count(string(info), "inotify wd:"))
		}
	}
	return instances, watches, nil
}

// ofRoot reports whether root runs a process, by its directory in /proc.
func ofRoot(process string) bool {
	text, err := os.ReadFile(filepath.Join(process, "status"))
	return err == nil && strings.Contains(string(text), "\nUid:\t0\t")
}

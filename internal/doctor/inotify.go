package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The parts of a limit from which doctor warns, and from which it speaks of a failure.
const (
	much   = 75
	nearly = 98
)

// inotify checks whether root's processes, with those in pods, run out of inotify's instances and watches. The kernel
// counts them for each user, and a user of a pod without a user namespace is the user of the node.
func (e *examination) inotify(ctx context.Context) []Finding { return e.inotifyUpTo(ctx, usualBounds) }

func (e *examination) inotifyUpTo(ctx context.Context, most bounds) []Finding {
	descriptors, complete, err := e.instances(ctx, most)
	if err != nil {
		return []Finding{{"inotify", Skipped, err.Error(), ""}}
	}
	all, exact, err := distinct(ctx, descriptors, e.compare)
	if err != nil {
		return []Finding{{"inotify", Skipped, err.Error(), ""}}
	}
	about, note := "", ""
	switch {
	case !complete && !exact:
		about = "about "
	case !complete:
		about = "at least "
	case !exact:
		about = "at most "
	}
	if !complete {
		note = " (there are more descriptors than are looked at)"
	}
	var watches int64
	for _, i := range all {
		if err := ctx.Err(); err != nil {
			return []Finding{{"inotify", Skipped, err.Error(), ""}}
		}
		watches += e.watches(i)
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
		text := fmt.Sprintf("root's processes, with those of pods, have %s%d of %d %s%s", about, u.used, limit, u.what, note)
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

// ofRoot reports whether root runs a process, by its directory in /proc.
func ofRoot(process string) bool {
	text, err := os.ReadFile(filepath.Join(process, "status"))
	return err == nil && strings.Contains(string(text), "\nUid:\t0\t")
}

package doctor

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// swap checks what the node's swap means for pods.
func (e *examination) swap(context.Context) []Finding {
	limited := e.Podexec.Settings.LimitedSwap
	var kb int64
	for line := range strings.Lines(e.text("proc/swaps")) {
		if fields := strings.Fields(line); len(fields) >= 5 {
			size, _ := strconv.ParseInt(fields[2], 10, 64) // That of the heading is no number.
			kb += size
		}
	}
	if kb == 0 {
		if limited {
			return []Finding{{"swap", Warning, "memorySwap.swapBehavior is LimitedSwap, and the node has no swap: burstable pods get none",
				"add swap (mkswap, swapon, /etc/fstab), or remove memorySwap"}}
		}
		return []Finding{{"swap", OK, "none", ""}}
	}
	size := fmt.Sprintf("the node has %d MiB of swap", kb>>10)
	found := e.refusedSwap(size)
	switch {
	case !e.countsSwap():
		found = append(found, Finding{"swap", Warning, size + ", and its cgroups don't count it: pods swap beyond their memory limits, in place of being killed",
			"boot with swapaccount=1, or switch swap off: swapoff -a, and remove it from /etc/fstab"})
	case limited && e.tree().version == "v1":
		found = append(found, Finding{"swap", Warning, size + ", and memorySwap.swapBehavior: LimitedSwap has no effect with cgroup v1: pods get none",
			"boot with cgroup v2, or remove memorySwap"})
	}
	if e.olderThan(6, 4) {
		found = append(found, Finding{"swap", Warning, size + ", and the kernel can't keep a tmpfs out of it before 6.4: the Secrets of pods may be written to the disk",
			"encrypt the swap, install Linux 6.4 or later, or switch swap off: swapoff -a"})
	}
	if len(found) > 0 {
		return found
	}
	if limited {
		return []Finding{{"swap", OK, size + "; burstable pods may use it in proportion to their memory requests (LimitedSwap)", ""}}
	}
	if e.tree().version == "v1" {
		return []Finding{{"swap", OK, size + "; containers with a memory limit use none of it, and the others do, as cgroup v1 can't limit swap alone", ""}}
	}
	return []Finding{{"swap", OK, size + ", and pods use none of it (memorySwap.swapBehavior isn't LimitedSwap)", ""}}
}

// refusedSwap returns the finding that podexecd doesn't start with swap, if it doesn't.
func (e *examination) refusedSwap(size string) []Finding {
	if !e.Podexec.Settings.FailSwapOn {
		return nil
	}
	state, when := Failed, "doesn't start"
	if e.Podexec.Running {
		state, when = Warning, "doesn't start again"
	}
	return []Finding{{"swap", state, fmt.Sprintf("%s, with which podexecd %s (failSwapOn)", size, when),
		"switch swap off (swapoff -a, and remove it from /etc/fstab), or set failSwapOn: false (--fail-swap-on=false)"}}
}

// countsSwap reports whether cgroups count swap. The root of v2 has no limit, so that another one is looked at.
func (e *examination) countsSwap() bool {
	for _, pattern := range []string{"sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", "sys/fs/cgroup/*/memory.swap.max"} {
		// The only error is that of a bad pattern.
		if files, _ := filepath.Glob(e.path(pattern)); len(files) > 0 {
			return true
		}
	}
	return false
}

package doctor

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// path returns the path of a file of the machine.
func (e *examination) path(name string) string { return filepath.Join(e.Machine, name) }

// needed are the controllers of pods' cgroups.
var needed = []string{"cpu", "cpuset", "memory", "pids"}

// cgroups checks the kernel's cgroups.
func (e *examination) cgroups(context.Context) []Finding {
	if !e.Podexec.Settings.CgroupsPerQOS {
		return []Finding{{"cgroups", Warning, "pods have no cgroups of their own (--cgroups-per-qos=false)", "nothing, if that is meant"}}
	}
	text, err := os.ReadFile(e.path("sys/fs/cgroup/cgroup.controllers"))
	version := "v2"
	has := strings.Fields(string(text))
	if err != nil {
		version, has = "v1", nil
		for _, c := range needed {
			if _, err := os.Stat(e.path("sys/fs/cgroup/" + c)); err == nil {
				has = append(has, c)
			}
		}
	}
	var missing []string
	for _, c := range needed {
		if !strings.Contains(" "+strings.Join(has, " ")+" ", " "+c+" ") {
			missing = append(missing, c)
		}
	}
	if len(missing) > 0 {
		return []Finding{{
			"cgroups", Failed, fmt.Sprintf("cgroup %s lacks %s", version, strings.Join(missing, ", ")),
			"boot with cgroup_enable=memory, or mount what is missing at /sys/fs/cgroup; podexecd runs without pods' cgroups with --cgroups-per-qos=false",
		}}
	}
	return []Finding{{"cgroups", OK, fmt.Sprintf("%s with %s", version, strings.Join(needed, ", ")), ""}}
}

// disk checks the file systems that podexecd writes to.
func (e *examination) disk(context.Context) []Finding {
	var found []Finding
	for _, d := range []struct{ what, path string }{{"state", e.Podexec.RootDir}, {"logs", e.Podexec.Settings.PodLogsDir}} {
		path, fs, err := fileSystem(filepath.Join(e.Machine, d.path))
		if err != nil {
			found = append(found, Finding{"disk", Failed, fmt.Sprintf("%s %s: %v", d.what, d.path, err), "see to it that the directory can be read"})
			continue
		}
		free, nodes := share(fs.Bavail, fs.Blocks), share(fs.Ffree, fs.Files)
		text := fmt.Sprintf("%s %s: %.0f %% free, %.0f %% of its inodes", d.what, path, free, nodes)
		switch {
		case fs.Flags&unix.ST_RDONLY != 0:
			found = append(found, Finding{"disk", Failed, d.what + " " + path + " is read-only", "remount it, and look at the kernel's log for why it became so"})
		case free < 1 || nodes < 1:
			found = append(found, Finding{"disk", Failed, text, "make room: nothing can be written soon"})
		case free < 10 || nodes < 5:
			found = append(found, Finding{"disk", Warning, text, "make room: below 10 % (inodes: 5 %) pods are evicted, by default"})
		default:
			found = append(found, Finding{"disk", OK, text, ""})
		}
	}
	return found
}

// fileSystem returns the file system of the path, or of the nearest existing directory above it.
func fileSystem(path string) (string, unix.Statfs_t, error) {
	var fs unix.Statfs_t
	for {
		err := unix.Statfs(path, &fs)
		if err != unix.ENOENT || path == "/" || path == "." {
			return path, fs, err
		}
		path = filepath.Dir(path)
	}
}

func share(free, all uint64) float64 {
	if all == 0 {
		return 100 // for instance, of inodes without a bound
	}
	return 100 * float64(free) / float64(all)
}

// forwarding checks whether the kernel forwards the pods' packets.
func (e *examination) forwarding(context.Context) []Finding {
	text, err := os.ReadFile(e.path("proc/sys/net/ipv4/ip_forward"))
	if err != nil {
		return []Finding{{"forwarding", Skipped, err.Error(), ""}}
	}
	if string(bytes.TrimSpace(text)) != "1" {
		return []Finding{{"forwarding", Warning, "the kernel doesn't forward IPv4 (net.ipv4.ip_forward=0)", "sysctl -w net.ipv4.ip_forward=1, if pods shall reach beyond this node"}}
	}
	return []Finding{{"forwarding", OK, "the kernel forwards IPv4", ""}}
}

// skew is the difference from the API server's clock beyond which certificates and tokens may seem invalid.
const skew = 30 * time.Second

// clock checks the clock, by the kernel's state and the API server's time.
func (e *examination) clock(ctx context.Context) []Finding {
	now := Finding{"clock", OK, "the kernel reports that it is synchronized", ""}
	var timex unix.Timex
	if state, err := unix.Adjtimex(&timex); err != nil {
		now = Finding{"clock", Skipped, fmt.Sprintf("the kernel doesn't report whether it is synchronized: %v", err), ""}
	} else if state == unix.TIME_ERROR || timex.Status&unix.STA_UNSYNC != 0 {
		now = Finding{"clock", Warning, "the kernel reports that it is not synchronized", "run an NTP client, such as chrony or systemd-timesyncd"}
	}
	found := []Finding{now}
	if e.Podexec.Settings.Kubeconfig == "" {
		return found
	}
	theirs, err := e.serverTime(ctx)
	if err != nil {
		return found // credentials reports the reason
	}
	// The header has whole seconds, and the answer took some time.
	if off := e.Now().Sub(theirs); math.Abs(off.Seconds()) > skew.Seconds() {
		word := "ahead of"
		if off < 0 {
			word = "behind"
		}
		found = append(found, Finding{
			"clock", Failed, fmt.Sprintf("this clock is %v %s the API server's", off.Abs().Round(time.Second), word),
			"set it right: certificates and tokens seem to be not valid yet, or not any more",
		})
	}
	return found
}

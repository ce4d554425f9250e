package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// cgroup is the cgroup of one process.
type cgroup struct {
	dir string
	// usage is the file that has the CPU time, a number of units.
	usage string
	unit  time.Duration
}

// newCgroup makes a cgroup, which is removed at the end of the test, after what was begun later has ended.
func newCgroup(t *testing.T, name string) *cgroup {
	t.Helper()
	const root = "/sys/fs/cgroup"
	name = "podstream-test-" + name
	c := &cgroup{dir: filepath.Join(root, name), usage: "cpu.stat", unit: time.Microsecond}
	// The root of cgroup v2 has this file; that of v1 has a directory for each controller.
	if _, err := os.Stat(root + "/cgroup.controllers"); err != nil {
		c = &cgroup{dir: filepath.Join(root, "cpuacct", name), usage: "cpuacct.usage", unit: time.Nanosecond}
	}
	rig.Must(t, os.MkdirAll(c.dir, 0o755))
	t.Cleanup(func() { _ = os.Remove(c.dir) })
	return c
}

// add moves a process to the cgroup, and gives it precedence over all others for the processors: on a machine that is shared with
// the API server and all nodes, its latencies are those of a gateway on a machine of its own.
func (c *cgroup) add(t *testing.T, p *control.Process) {
	t.Helper()
	rig.Must(t, os.WriteFile(filepath.Join(c.dir, "cgroup.procs"), []byte(strconv.Itoa(p.PID())), 0))
	realTime := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
	for seen := map[string]bool{}; ; {
		tasks := rig.Get(filepath.Glob(fmt.Sprintf("/proc/%d/task/*", p.PID())))(t)
		missing := false
		for _, task := range tasks {
			if !seen[task] {
				seen[task], missing = true, true
				// A thread that was begun by one that had the policy has it, too; one may have ended.
				_ = unix.SchedSetAttr(rig.Get(strconv.Atoi(filepath.Base(task)))(t), &realTime, 0)
			}
		}
		if !missing {
			return
		}
	}
}

// cpu is the CPU time that its processes have used.
func (c *cgroup) cpu(t *testing.T) time.Duration {
	t.Helper()
	text := bytes.TrimPrefix(rig.Get(os.ReadFile(filepath.Join(c.dir, c.usage)))(t), []byte("usage_usec "))
	var n int64
	rig.Get(fmt.Sscan(string(text), &n))(t)
	return time.Duration(n) * c.unit
}

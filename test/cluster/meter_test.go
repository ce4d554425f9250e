package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/test/rig"
)

// usage is what a gateway has used since its start.
type usage struct {
	cpu time.Duration
	// ran and waited are for how long its threads ran, and waited for a processor.
	ran, waited time.Duration
	// memory and peak are its resident memory, in bytes.
	memory, peak int64
}

// usageOf reads the usage of a gateway, which has a cgroup of its own.
func usageOf(t *testing.T, g *gateway) usage {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d", g.daemon.PID())
	var u usage
	tasks := rig.Get(filepath.Glob(dir + "/task/*/schedstat"))(t)
	for _, file := range tasks {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		var ran, waited int64
		rig.Get(fmt.Sscan(string(data), &ran, &waited))(t)
		u.ran, u.waited = u.ran+time.Duration(ran), u.waited+time.Duration(waited)
	}
	u.cpu = g.cgroup.cpu(t)
	for line := range strings.Lines(string(rig.Get(os.ReadFile(dir + "/status"))(t))) {
		var kib int64
		switch {
		case strings.HasPrefix(line, "VmRSS:"):
			rig.Get(fmt.Sscanf(line, "VmRSS: %d kB", &kib))(t)
			u.memory = kib << 10
		case strings.HasPrefix(line, "VmHWM:"):
			rig.Get(fmt.Sscanf(line, "VmHWM: %d kB", &kib))(t)
			u.peak = kib << 10
		}
	}
	return u
}

// since returns the usage between two readings; the memory is that of the last.
func (u usage) since(before usage) usage {
	return usage{cpu: u.cpu - before.cpu, ran: u.ran - before.ran, waited: u.waited - before.waited, memory: u.memory, peak: u.peak}
}

// queued is the part of the time in which its threads waited for a processor, of that in which they ran or waited.
func (u usage) queued() float64 { return float64(u.waited) / float64(max(1, u.ran+u.waited)) }

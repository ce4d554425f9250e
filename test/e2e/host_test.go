package e2e

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"

	"github.com/podstream/podstream/test/devnode"
)

// newCgroup makes a cgroup as an administrator does, and returns its name.
func newCgroup(t *testing.T) (string, cgroups.Manager) {
	t.Helper()
	name := "/podstream-test-" + rand.Text()
	m, err := manager.New(&cgroups.Cgroup{Path: name, Resources: &cgroups.Resources{SkipDevices: true}})
	check(t, err)
	check(t, m.Apply(-1))
	t.Cleanup(func() {
		if err := m.Destroy(); err != nil {
			t.Error(err)
		}
	})
	return name, m
}

// again starts podexecd, which is stopped, with these flags after those of the rig.
func (r *rig) again(flags ...string) {
	r.t.Helper()
	args := r.Podexecd.Args
	r.Podexecd.Args = slices.Concat(args, flags)
	check(r.t, r.Podexecd.Start())
	r.Podexecd.Args = args
}

func (r *rig) proc(file string) string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(r.Podexecd.Pid()), file))
	check(r.t, err)
	return string(text)
}

// podexecd sets its own limits, moves itself to its cgroup, and limits the cgroups of the node's daemons; with a cgroup that
// doesn't exist it ends. A pod runs on through all of it.
func TestHost(t *testing.T) {
	t.Parallel()
	r := newRig(t, startNode(t, devnode.Sim))
	r.write("web.yaml", manifest("web", "main: sleep"))
	r.awaitRunning("web")
	system, limited := newCgroup(t)
	own, _ := newCgroup(t)
	root, _ := newCgroup(t)
	flags := []string{
		"--cgroups-per-qos=true", "--cgroup-root=" + root, "--oom-score-adj=321", "--max-open-files=4096", "--kubelet-cgroups=" + own,
		"--enforce-node-allocatable=pods,system-reserved", "--system-reserved=memory=64Mi,pid=100", "--system-reserved-cgroup=" + system,
	}
	check(t, r.Podexecd.Stop())
	r.again(flags...)
	r.eventually("the cgroup of the system's daemons is limited", func() error {
		file := "memory.limit_in_bytes"
		if cgroups.IsCgroup2UnifiedMode() {
			file = "memory.max"
		}
		memory, err := cgroups.ReadFile(limited.Path("memory"), file)
		if err != nil {
			return err
		}
		pids, err := cgroups.ReadFile(limited.Path("pids"), "pids.max")
		if memory, pids = strings.TrimSpace(memory), strings.TrimSpace(pids); memory != "67108864" || pids != "100" {
			return fmt.Errorf("memory %s, processes %s, %w", memory, pids, err)
		}
		return nil
	})
	if score := strings.TrimSpace(r.proc("oom_score_adj")); score != "321" {
		t.Errorf("podexecd's oom_score_adj is %s", score)
	}
	for line := range strings.Lines(r.proc("limits")) {
		if fields := strings.Fields(line); strings.HasPrefix(line, "Max open files") && (fields[3] != "4096" || fields[4] != "4096") {
			t.Errorf("podexecd has %s", line)
		}
	}
	r.eventually("podexecd is in its cgroup", func() error {
		if in := r.proc("cgroup"); !strings.Contains(in, ":"+own+"\n") {
			return fmt.Errorf("it is in %s", in)
		}
		return nil
	})

	check(t, r.Podexecd.Stop())
	r.again(append(flags, "--system-reserved-cgroup="+system+"-missing")...)
	select {
	case <-r.Podexecd.Done():
	case <-t.Context().Done():
	}
	want := `podexecd: Failed to enforce System Reserved Cgroup Limits on "` + system + `-missing": `
	if out := r.Podexecd.LogTail(); !strings.Contains(out, want) {
		t.Errorf("podexecd ends with\n%s\nwant %s", out, want)
	}
	r.again()
	r.awaitRunning("web")
}

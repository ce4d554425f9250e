package doctor

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// onMachine are the checks of the machine and the runtime.
var onMachine = []string{"runtime", "network", "cgroup driver", "features", "processes", "cgroups", "swap", "kernel", "inotify", "forwarding"}

// find returns the finding of a check with that state and text.
func find(findings []Finding, check string, state State, found string) *Finding {
	for i := range findings {
		if f := &findings[i]; f.Check == check && f.State == state && strings.Contains(f.Found, found) {
			return f
		}
	}
	return nil
}

// On machines that were recorded, doctor finds what they have, and nothing else that is wrong.
func TestMachines(t *testing.T) {
	type want struct {
		check string
		state State
		found string
	}
	kernel := []want{
		{"kernel", Warning, "vm.overcommit_memory=0: "}, {"kernel", Warning, "kernel.panic_on_oops=0: "},
	}
	for name, tc := range map[string]struct {
		machine string
		setup   func(n *node)
		want    []want
	}{
		"systemd, cgroup v2, containerd 2": {"v2.txt", func(n *node) {
			n.driver = &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: runtimeapi.CgroupDriver_SYSTEMD}
			n.handlers(true)
		}, append([]want{
			{"cgroup driver", OK, "systemd (the runtime reports it)"},
			{"features", OK, "user namespaces, recursive read-only mounts"},
			{"processes", Warning, "podexecd has oom_score_adj 0: "},
			{"cgroups", OK, "v2 with cpu, memory, pids; without cpuset (containers can't be bound to processors, which podexecd doesn't do), hugetlb (limits of huge pages " +
				"aren't enforced, and this node has no huge pages), PSI (the statistics of pods have no pressure)"},
			{"swap", OK, "none"}, {"kernel", Warning, "kernel.panic=0: "},
			{"inotify", OK, "have 0 of 128 instances"}, {"inotify", OK, "have 0 of 27547 watches"},
			{"forwarding", Warning, "doesn't forward"},
		}, kernel...)},
		"cgroup v1 with v2 beside it, containerd 1.7": {"hybrid.txt", func(n *node) {
			n.version, n.driverErr = "1.7.24~ds1", status.Error(codes.Unimplemented, "unknown method RuntimeConfig")
			n.status.Info["config"] = fmt.Sprintf(handlersJSON, false)
			n.config.Podexec.PID = 0
		}, append([]want{
			{"cgroup driver", OK, "cgroupfs (by --cgroup-driver, as the runtime doesn't report its own)"},
			{"features", Warning, "the runtime lacks user namespaces (pods with hostUsers: false), recursive read-only mounts (recursiveReadOnly: Enabled), " +
				"supplementalGroupsPolicy (Strict): such pods don't start"},
			{"processes", Skipped, "can't be found"},
			{"cgroups", Warning, "hybrid: v1 with cpu, memory, pids, devices, cpuacct, cpuset; without hugetlb ("},
			{"swap", OK, "none"},
			{"inotify", OK, "have 0 of 128 instances"}, {"inotify", OK, "have 0 of 192536 watches"},
			{"forwarding", OK, ""},
		}, kernel...)},
	} {
		t.Run(name, func(t *testing.T) {
			n := machineNode(t, tc.machine)
			tc.setup(n)
			tc.want = append(tc.want, want{"runtime", OK, "containerd " + n.version}, want{"network", OK, ""})
			findings := Examine(t.Context(), n.config)
			for _, w := range tc.want {
				if find(findings, w.check, w.state, w.found) == nil {
					t.Errorf("%s isn't %s: %q", w.check, w.state, w.found)
				}
			}
			number := 0
			for _, f := range findings {
				for _, check := range onMachine {
					if f.Check == check {
						number++
					}
				}
				if (f.State == Warning || f.State == Failed) != (f.Advice != "") {
					t.Errorf("%s is %s and has the advice %q", f.Check, f.State, f.Advice)
				}
			}
			if number != len(tc.want) {
				t.Errorf("%d findings, want %d", number, len(tc.want))
			}
			if t.Failed() {
				for _, f := range findings {
					t.Logf("%s is %s: %s", f.Check, f.State, f.Found)
				}
			}
		})
	}
}

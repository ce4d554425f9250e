package systemd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/doctor"
)

// examined returns the findings of podctl doctor, by their check.
func examined() (map[string][]doctor.Finding, error) {
	var stderr bytes.Buffer
	cmd := exec.Command("/usr/local/bin/podctl", "doctor", "--output=json")
	cmd.Stderr = &stderr
	out, failed := cmd.Output()
	var result struct{ Findings []doctor.Finding }
	if err := json.Unmarshal(out, &result); err != nil {
		return nil, errors.Join(err, failed, errors.New(stderr.String()))
	}
	found := map[string][]doctor.Finding{}
	for _, f := range result.Findings {
		found[f.Check] = append(found[f.Check], f)
	}
	if wrong := slices.ContainsFunc(result.Findings, func(f doctor.Finding) bool { return f.State == doctor.Failed }); wrong != (failed != nil) {
		return nil, fmt.Errorf("a check fails: %t, and podctl ends with %w", wrong, failed)
	}
	return found, nil
}

// TestDoctor: doctor finds nothing wrong with this node, and what it says of the machine is what the kernel says. A
// container runtime that has stopped is a failure.
func TestDoctor(t *testing.T) {
	awaitActive(t, podconfigd, podexecd)
	awaitStatus(t, podexecd, "running; pods: ")
	found, err := examined()
	if err != nil {
		t.Fatal(err)
	}
	for check, list := range found {
		for _, f := range list {
			t.Logf("%s: %s: %s", check, f.State, f.Found)
			if f.State == doctor.Failed {
				t.Errorf("%s fails: %s", check, f.Found)
			}
		}
	}
	for _, check := range []string{"sockets", "podconfigd", "sources", "podexecd", "versions", "stream", "runtime", "network", "features", "processes", "inotify", "disk"} {
		if list := found[check]; len(list) == 0 || slices.ContainsFunc(list, func(f doctor.Finding) bool { return f.State != doctor.OK }) {
			t.Errorf("%s has %+v; want it ok", check, list)
		}
	}
	for check, want := range map[string]string{"cgroup driver": "systemd", "cgroups": cgroupsHere(t), "swap": swapHere(t)} {
		if list := found[check]; len(list) != 1 || list[0].State != doctor.OK || !strings.HasPrefix(list[0].Found, want) {
			t.Errorf("%s has %+v; want it ok, and %q", check, list, want)
		}
	}
	for check, settings := range map[string][]string{
		"kernel": {"vm.overcommit_memory", "kernel.panic", "kernel.panic_on_oops"}, "forwarding": {"net.ipv4.ip_forward"},
	} {
		for _, name := range settings {
			is := name + "=" + kernelText(t, "/proc/sys/"+strings.ReplaceAll(name, ".", "/"))
			warned := slices.ContainsFunc(found[check], func(f doctor.Finding) bool {
				return f.State == doctor.Warning && strings.Contains(f.Found, is)
			})
			if zero := strings.HasSuffix(is, "=0"); warned != zero {
				t.Errorf("%s: %s has a warning: %t; want %t", check, is, warned, zero)
			}
		}
	}

	must(t, "systemctl", "stop", "containerd")
	t.Cleanup(func() { must(t, "systemctl", "start", "containerd") })
	if found, err := examined(); err != nil || len(found["runtime"]) != 1 || found["runtime"][0].State != doctor.Failed {
		t.Errorf("without containerd, the runtime has %+v, %v; want a failure", found["runtime"], err)
	}
	must(t, "systemctl", "start", "containerd")
	eventually(t, "the runtime is ok again", func() error {
		if found, err := examined(); err != nil || found["runtime"][0].State != doctor.OK {
			return fmt.Errorf("it has %+v, %w", found["runtime"], err)
		}
		return nil
	})
}

// cgroupsHere is the beginning of what doctor has to say about the kernel's controllers.
func cgroupsHere(t *testing.T) string {
	t.Helper()
	kernel := strings.Fields(kernelText(t, "/sys/fs/cgroup/cgroup.controllers"))
	var has, lacks []string
	for _, controller := range []string{"cpu", "memory", "pids", "cpuset", "hugetlb"} {
		if slices.Contains(kernel, controller) {
			has = append(has, controller)
		} else {
			lacks = append(lacks, controller)
		}
	}
	text := "v2 with " + strings.Join(has, ", ")
	if len(lacks) > 0 {
		text += "; without " + lacks[0] + " ("
	}
	return text
}

// swapHere is the beginning of what doctor has to say about the kernel's swap.
func swapHere(t *testing.T) string {
	t.Helper()
	if strings.Count(kernelText(t, "/proc/swaps"), "\n") == 0 {
		return "none"
	}
	return "the node has "
}

func kernelText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

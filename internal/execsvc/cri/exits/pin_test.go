package exits

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// The end of a process is reported before its parent has waited for it: a shim may take its time.
func TestZombie(t *testing.T) {
	h := newHarness(t)
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.cgroup(cmd.Process.Pid, "/a")
	h.follow("a", cmd.Process.Pid)
	h.want("a")
	// It is a zombie now.
	h.follow("a", cmd.Process.Pid)
	h.want("a")
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	h.wantEmpty()
}

// A process that ended before it could be followed is reported, too.
func TestEndedBefore(t *testing.T) {
	h := newHarness(t)
	pid, end := h.start("a")
	end()
	h.follow("a", pid)
	h.want("a")
	h.wantEmpty()
}

// A PID that is another process's by now, or in this namespace, isn't followed.
func TestStranger(t *testing.T) {
	h := newHarness(t)
	before := pidfds(t)
	pid, end := h.start("b")
	if err := h.Follow("a", pid); !errors.Is(err, ErrStranger) {
		t.Errorf("error %v; want ErrStranger", err)
	}
	h.cgroup(pid, "/")
	if err := h.Follow("a", pid); !errors.Is(err, ErrStranger) {
		t.Errorf("error %v; want ErrStranger", err)
	}
	if err := os.RemoveAll(h.proc); err != nil {
		t.Fatal(err)
	}
	if err := h.Follow("a", pid); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v; want that its cgroup can't be read", err)
	}
	for _, pid := range []int{0, -1} {
		if err := h.Follow("a", pid); err == nil {
			t.Errorf("process %d is followed", pid)
		}
	}
	end()
	h.wantEmpty()
	if after := pidfds(t); after != before {
		t.Errorf("%d pidfds are open; want %d as before", after, before)
	}
}

// With the kernel's cgroups: this process isn't in a container of that name.
func TestRealCgroups(t *testing.T) {
	h := newHarness(t)
	h.proc = "/proc"
	if err := h.Follow("0123456789abcdef", os.Getpid()); !errors.Is(err, ErrStranger) {
		t.Errorf("error %v; want ErrStranger", err)
	}
}

func TestNames(t *testing.T) {
	const id = "0f3c6e"
	for cgroups, want := range map[string]bool{
		"":                                     false,
		"0::/\n":                               false,
		"0::/k8s.io/0f3c6e\n":                  true,
		"0::/k8s.io/0f3c6e":                    true,
		"0::/k8s.io/00f3c6e\n":                 false,
		"0::/k8s.io/0f3c6e0\n":                 false,
		"0::/../../k8s.io/0f3c6e\n":            true,
		"3:cpu,cpuacct:/k8s.io/0f3c6e\n0::/\n": true,
		"1:name=systemd:/system.slice/x\n0::/kubepods/burstable/podu/0f3c6e/init.scope\n": true,
		"0::/kubepods.slice/kubepods-podu.slice/cri-containerd-0f3c6e.scope\n":            true,
		"0::/kubepods.slice/kubepods-podu.slice/crio-0f3c6e.scope/container\n":            true,
		"0::/kubepods.slice/kubepods-podu.slice/crio-10f3c6e.scope\n":                     false,
		"0::/kubepods.slice/kubepods-pod0f3c6e.slice/crio-1.scope\n":                      false,
		"7:0f3c6e:/\n": false,
		"0f3c6e\n":     false,
	} {
		if got := InContainer(cgroups, id); got != want {
			t.Errorf("%q is the container's: %t; want %t", cgroups, got, want)
		}
	}
	if InContainer("0::/\n", "") {
		t.Error("a container without an id has a process")
	}
}

// A process that ends during the checks isn't a stranger, whatever its cgroup was when it was read.
func TestEndsWhileLookedAt(t *testing.T) {
	h := newHarness(t)
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	// A zombie's cgroup may be the root by now.
	if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	h.cgroup(pid, "/")
	h.follow("a", pid)
	h.want("a")
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

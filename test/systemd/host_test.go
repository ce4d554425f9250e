package systemd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/doctor"
)

// tunables are the kernel's settings as a kubelet has them.
var tunables = map[string]string{
	"vm.overcommit_memory": "1", "vm.panic_on_oom": "0", "kernel.panic": "10", "kernel.panic_on_oops": "1",
	"kernel.keys.root_maxkeys": "1000000", "kernel.keys.root_maxbytes": "25000000",
}

// detune gives each of the kernel's settings another value, until the test ends.
func detune(t *testing.T) map[string]string {
	t.Helper()
	other := map[string]string{}
	for name, value := range tunables {
		other[name] = "2"
		if value != "0" {
			other[name] = "0"
		}
		if strings.Contains(name, "root_max") {
			other[name] = value + "1"
		}
		must(t, "sysctl", "-q", "-w", name+"="+other[name])
	}
	t.Cleanup(func() {
		for name, value := range tunables {
			must(t, "sysctl", "-q", "-w", name+"="+value)
		}
	})
	return other
}

// kernelHas checks the kernel's settings.
func kernelHas(t *testing.T, when string, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if is := kernelText(t, "/proc/sys/"+strings.ReplaceAll(name, ".", "/")); is != value {
			t.Errorf("%s %s is %s; want %s", when, name, is, value)
		}
	}
}

// flags gives podexecd flags, until the test ends or undo is called, and starts it with them. settings are further ones of
// its unit.
func flags(t *testing.T, flags string, settings ...string) (undo func()) {
	t.Helper()
	undo = dropIn(t, podexecd, append(settings, `Environment="PODEXECD_FLAGS=`+flags+`"`)...)
	// A unit that fails is between two starts, which is no error here.
	_, _ = run("systemctl", "restart", podexecd)
	return undo
}

// wantRefused waits until podexecd ends with these texts, and checks that it didn't get as far as serving.
func wantRefused(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		eventually(t, "podexecd refuses to start: "+text, func() error { return journalHas(t, text) })
	}
	if state := show(t, podexecd, "ActiveState"); state == "active" {
		t.Errorf("podexecd is %s", state)
	}
}

// journalHas returns an error unless podexecd has logged the text since the test's drop-in.
func journalHas(t *testing.T, text string) error {
	t.Helper()
	info, err := os.Stat("/etc/systemd/system/" + podexecd + ".d/test.conf")
	if err != nil {
		t.Fatal(err)
	}
	out := must(t, "journalctl", "--no-pager", "-o", "cat", "-u", podexecd, "--since", info.ModTime().Format("2006-01-02 15:04:05"))
	if !strings.Contains(out, text) {
		return fmt.Errorf("its journal has\n%s", out)
	}
	return nil
}

// TestKernelSettings: podexecd sets the kernel's settings at its start. It leaves them where it can't write them, and with
// --tune-kernel=false. With --protect-kernel-defaults it doesn't start before they are set. No pod ends.
func TestKernelSettings(t *testing.T) {
	awaitActive(t, podconfigd, podexecd)
	write(t, "tuned", manifest("tuned", plain))
	before := awaitRunning(t, "tuned")
	detune(t)
	must(t, "systemctl", "restart", podexecd)
	awaitActive(t, podexecd)
	kernelHas(t, "after a start", tunables)

	other := detune(t)
	undo := flags(t, "--protect-kernel-defaults")
	for name, value := range tunables {
		wantRefused(t, "invalid kernel flag: "+name+", expected value: "+value+", actual value: "+other[name])
	}
	kernelHas(t, "protected", other)
	wantSame(t, "while podexecd refuses to start", before)
	for name, value := range tunables {
		must(t, "sysctl", "-q", "-w", name+"="+value)
	}
	awaitActive(t, podexecd)
	undo()

	for how, set := range map[string][]string{"can't be set": {"", "ProtectKernelTunables=yes"}, "--tune-kernel=false": {"--tune-kernel=false"}} {
		other = detune(t)
		undo = flags(t, set[0], set[1:]...)
		awaitActive(t, podexecd)
		eventually(t, "podexecd logs it", func() error { return journalHas(t, how) })
		kernelHas(t, how, other)
		undo()
	}
	wantSame(t, "in the end", before)
}

// TestSwapOn: with swap on, podexecd starts only if it is told to.
func TestSwapOn(t *testing.T) {
	awaitActive(t, podconfigd, podexecd)
	write(t, "swapped", manifest("swapped", plain))
	before := awaitRunning(t, "swapped")
	must(t, "swapon", "LABEL=swap")
	off := func() { _, _ = run("swapoff", "LABEL=swap") }
	t.Cleanup(off)
	undo := flags(t, "")
	wantRefused(t, "running with swap on is not supported, please disable swap or set --fail-swap-on flag to false: /proc/swaps has /dev/")
	found, err := examined()
	if err != nil {
		t.Fatal(err)
	}
	// systemd starts it again and again: doctor may meet a podexecd that is about to refuse, and then only warns.
	if list := found["swap"]; len(list) == 0 || list[0].State == doctor.OK || !strings.Contains(list[0].Found, "with which podexecd doesn't start ") {
		t.Errorf("doctor finds %+v", list)
	}
	undo()
	undo = flags(t, "--fail-swap-on=false")
	awaitActive(t, podexecd)
	wantSame(t, "with swap", before)
	undo()
	off()
	flags(t, "--fail-swap-on=true")
	awaitActive(t, podexecd)
	wantSame(t, "without swap", before)
}

// TestOwnLimits: podexecd sets its own OOM score and number of files, and those of the configuration take precedence over the
// unit's.
func TestOwnLimits(t *testing.T) {
	for set, want := range map[string][2]string{
		"": {"-999", "1000000"}, "--oom-score-adj=-500 --max-open-files=2000000": {"-500", "2000000"}, "--oom-score-adj=0": {"0", "1000000"},
	} {
		undo := flags(t, set, "OOMScoreAdjust=100", "LimitNOFILE=1024:4096")
		// The kernel bounds the number of files, for root too.
		must(t, "sysctl", "-q", "-w", "fs.nr_open=2097152")
		_, _ = run("systemctl", "restart", podexecd)
		awaitActive(t, podexecd)
		dir := "/proc/" + show(t, podexecd, "MainPID")
		if got := kernelText(t, dir+"/oom_score_adj"); got != want[0] {
			t.Errorf("with %q oom_score_adj is %s; want %s", set, got, want[0])
		}
		for line := range strings.Lines(kernelText(t, dir+"/limits")) {
			if f := strings.Fields(line); strings.HasPrefix(line, "Max open files") && (f[3] != want[1] || f[4] != want[1]) {
				t.Errorf("with %q it may open %s and %s files; want %s", set, f[3], f[4], want[1])
			}
		}
		undo()
	}
}

// slice makes a slice with a daemon in it, as an administrator does, and returns its directory. The daemon's weight has
// systemd enable the cpu controller in the slice.
func slice(t *testing.T, name, dir string) string {
	t.Helper()
	unit := "daemon-of-" + strings.ReplaceAll(name, ".", "-")
	must(t, "systemd-run", "--unit", unit, "--slice", name, "--property=CPUWeight=100", "sleep", "infinity")
	t.Cleanup(func() { must(t, "systemctl", "stop", unit+".service") })
	return filepath.Join("/sys/fs/cgroup", dir)
}

// TestReservedCgroups: the slices of the system's and of Kubernetes' daemons are limited to what is reserved for them, as
// systemd has it too, and keep that. podexecd doesn't start with a slice that doesn't exist. No pod ends.
func TestReservedCgroups(t *testing.T) {
	awaitActive(t, podconfigd, podexecd)
	write(t, "kept", manifest("kept", plain))
	before := awaitRunning(t, "kept")
	system, kube := slice(t, "reserved-system.slice", "reserved.slice/reserved-system.slice"), slice(t, "reserved.slice", "reserved.slice")
	const reserve = "--system-reserved=cpu=500m,memory=256Mi,pid=1000 --kube-reserved=cpu=250m,memory=512Mi --system-reserved-cgroup=/reserved.slice/reserved-system.slice "
	undo := flags(t, reserve+"--kube-reserved-cgroup=/reserved.slice --enforce-node-allocatable=pods,system-reserved,kube-reserved-compressible")
	awaitActive(t, podexecd)
	limits := map[string]string{
		system + "/memory.max": fmt.Sprint(256 << 20), system + "/pids.max": "1000", system + "/cpu.weight": "20",
		kube + "/memory.max": "max", kube + "/cpu.weight": "10",
	}
	wantLimits := func(when string) {
		t.Helper()
		eventually(t, when, func() error {
			for file, want := range limits {
				if got := kernelText(t, file); got != want {
					return fmt.Errorf("%s is %s; want %s", file, got, want)
				}
			}
			return nil
		})
	}
	wantLimits("after the start")
	for _, command := range []string{"daemon-reload", "daemon-reexec"} {
		must(t, "systemctl", command)
		wantLimits("after a " + command)
	}
	settings(t, "reserved-system.slice", map[string]string{"MemoryMax": fmt.Sprint(256 << 20), "TasksMax": "1000", "CPUWeight": "20"})
	if capacity := kernelText(t, "/sys/fs/cgroup/kubepods.slice/cpu.weight"); capacity != "10" {
		t.Errorf("pods have the cpu.weight %s; want that of 250m, which is left of the guest's processor", capacity)
	}
	undo()

	undo = flags(t, reserve+"--enforce-node-allocatable=pods,system-reserved --system-reserved-cgroup=/missing.slice")
	wantRefused(t, `Failed to enforce System Reserved Cgroup Limits on "/missing.slice": could not read controllers for cgroup "/missing.slice"`)
	if _, err := os.Stat("/sys/fs/cgroup/missing.slice"); !os.IsNotExist(err) {
		t.Errorf("the slice is made: %v", err)
	}
	undo()
	must(t, "systemd-run", "--unit", "daemon-without-cpu", "--slice", "bare-nested.slice", "sleep", "infinity")
	t.Cleanup(func() { must(t, "systemctl", "stop", "daemon-without-cpu") })
	undo = flags(t, reserve+"--enforce-node-allocatable=pods,system-reserved --system-reserved-cgroup=/bare.slice/bare-nested.slice")
	wantRefused(t, `cgroup "/bare.slice/bare-nested.slice" has some missing controllers: cpu`)
	undo()

	// A limit that the daemons exceed is refused, and none is killed. Files in memory can't be reclaimed without swap.
	const hog = "/dev/shm/hog"
	t.Cleanup(func() { _ = os.Remove(hog) })
	must(t, "sh", "-c", "echo $$ >"+kube+"/daemon-of-reserved-slice.service/cgroup.procs && exec dd if=/dev/zero of="+hog+" bs=1M count=40")
	undo = flags(t, "--kube-reserved=memory=8Mi --kube-reserved-cgroup=/reserved.slice --enforce-node-allocatable=pods,kube-reserved")
	wantRefused(t, `Failed to enforce Kube Reserved Cgroup Limits on "/reserved.slice": the cgroup is busy: `)
	if state := show(t, "daemon-of-reserved-slice.service", "ActiveState"); state != "active" || kernelText(t, kube+"/memory.max") != "max" {
		t.Errorf("the daemon is %s, with a limit of %s", state, kernelText(t, kube+"/memory.max"))
	}
	undo()
	wantSame(t, "in the end", before)
}

// TestPlacement: podexecd moves itself, and the processes of the root cgroup, and goes on under its unit.
func TestPlacement(t *testing.T) {
	awaitActive(t, podconfigd, podexecd)
	stray := exec.Command("sh", "-c", "echo $$ >/sys/fs/cgroup/cgroup.procs && exec sleep infinity")
	if err := stray.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stray.Process.Kill(); _ = stray.Wait() })
	in := func(pid any) string { return kernelText(t, fmt.Sprintf("/proc/%v/cgroup", pid)) }
	eventually(t, "a process is in the root cgroup", func() error {
		if in(stray.Process.Pid) != "0::/" {
			return fmt.Errorf("it is in %s", in(stray.Process.Pid))
		}
		return nil
	})
	flags(t, "--kubelet-cgroups=/test-kubelet --system-cgroups=/test-system --cgroup-root=/")
	awaitActive(t, podexecd)
	eventually(t, "both are in their cgroup", func() error {
		if own, system := in(show(t, podexecd, "MainPID")), in(stray.Process.Pid); own != "0::/test-kubelet" || system != "0::/test-system" {
			return fmt.Errorf("they are in %s and %s", own, system)
		}
		return nil
	})
	if first := in(1); first != "0::/init.scope" {
		t.Errorf("systemd is in %s", first)
	}
	// Its notifications still reach systemd.
	awaitStatus(t, podexecd, "running; pods: ")
	was := startOf(t, podexecd)
	must(t, "systemctl", "restart", podexecd)
	awaitActive(t, podexecd)
	if startOf(t, podexecd).id == was.id {
		t.Error("podexecd isn't started again")
	}
}

package systemd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestUnits: the units are valid, active, hardened, and protected from the OOM killer.
func TestUnits(t *testing.T) {
	awaitActive(t, podconfigd, podexecd)
	for _, unit := range []string{podconfigd, podexecd, "podconfigd.socket", "podexecd.socket"} {
		if out := must(t, "systemd-analyze", "verify", "/etc/systemd/system/"+unit); strings.Contains(out, "podconfigd") || strings.Contains(out, "podexecd") {
			t.Errorf("systemd-analyze verify %s: %s", unit, out)
		}
	}
	exposure := regexp.MustCompile(`Overall exposure level for podconfigd.service: ([0-9.]+)`)
	out := must(t, "systemd-analyze", "security", "--no-pager", podconfigd)
	found := exposure.FindStringSubmatch(out)
	if len(found) != 2 {
		t.Fatalf("systemd-analyze security has no result:\n%s", out)
	}
	level, err := strconv.ParseFloat(found[1], 64)
	if err != nil || level > 2.0 {
		t.Errorf("podconfigd's exposure is %v, %v; want at most 2.0:\n%s", level, err, out)
	}
	t.Logf("podconfigd's exposure is %v", level)
	for _, unit := range []string{podconfigd, podexecd} {
		score, err := os.ReadFile("/proc/" + show(t, unit, "MainPID") + "/oom_score_adj")
		if err != nil || strings.TrimSpace(string(score)) != "-999" {
			t.Errorf("%s has the oom_score_adj %q, %v; want -999", unit, score, err)
		}
	}
	settings(t, podexecd, map[string]string{"KillMode": "process", "Delegate": "yes", "OOMPolicy": "continue"})
	for unit, other := range map[string]string{podconfigd: podexecd, podexecd: podconfigd} {
		settings(t, unit, map[string]string{
			"Type": "notify", "Restart": "always", "StartLimitIntervalUSec": "0", "TimeoutStartUSec": "infinity", "WatchdogUSec": "1min",
			"TasksMax": "infinity", "LimitNOFILE": "1048576",
		})
		after := strings.Fields(show(t, unit, "After") + " " + show(t, unit, "Requires"))
		for _, awaited := range []string{other, "containerd.service", "network-online.target"} {
			if slices.Contains(after, awaited) {
				t.Errorf("%s waits for %s", unit, awaited)
			}
		}
	}
	if ours, own := mountNamespace(t, "1"), mountNamespace(t, show(t, podexecd, "MainPID")); ours != own {
		t.Errorf("podexecd has the mount namespace %s; want that of systemd, %s", own, ours)
	}
	awaitStatus(t, podconfigd, "serving; pods: ")
	awaitStatus(t, podexecd, "running; pods: ")
}

// settings expects what systemd has for a unit.
func settings(t *testing.T, unit string, want map[string]string) {
	t.Helper()
	for property, value := range want {
		if got := show(t, unit, property); got != value {
			t.Errorf("%s of %s is %s; want %s", property, unit, got, value)
		}
	}
}

func mountNamespace(t *testing.T, pid string) string {
	t.Helper()
	link, err := os.Readlink("/proc/" + pid + "/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// TestPodsSurvive: neither a restart nor a crash of either unit ends a container.
func TestPodsSurvive(t *testing.T) {
	write(t, "stay", manifest("stay", plain))
	before := awaitRunning(t, "stay")
	for _, unit := range []string{podconfigd, podexecd} {
		for how, argv := range map[string][]string{
			"restart": {"systemctl", "restart", unit}, "crash": {"systemctl", "kill", "--signal=KILL", "--kill-whom=main", unit},
			// As a package does after it has replaced the program.
			"upgrade": {"sh", "-c", "install -m 0755 " + share + "/bin/podconfigd " + share + "/bin/podexecd /usr/local/bin/ && systemctl daemon-reload && systemctl restart " + unit},
		} {
			was := startOf(t, unit)
			must(t, argv...)
			eventually(t, unit+" starts again", func() error {
				if startOf(t, unit).id == was.id {
					return fmt.Errorf("it is the start %v", was)
				}
				return nil
			})
			awaitActive(t, unit)
			awaitStatus(t, podexecd, "running; pods: ")
			wantSame(t, "after a "+how+" of "+unit, before)
		}
	}
	// The daemons work: a new pod runs, and is removed at the end.
	write(t, "after", manifest("after", plain))
	awaitRunning(t, "after")
	wantSame(t, "in the end", before)
}

// TestSlices: a daemon-reload and a daemon-reexec leave the limits of pods and containers.
func TestSlices(t *testing.T) {
	write(t, "limited", manifest("limited", "resources: {requests: {cpu: 100m, memory: 32Mi}, limits: {cpu: 200m, memory: 64Mi}}"+plain))
	before := awaitRunning(t, "limited")
	group, err := os.ReadFile("/proc/" + pidOf(t, "limited") + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	_, path, _ := strings.Cut(strings.TrimSpace(string(group)), "::")
	limits := func() string {
		var out []string
		for dir := filepath.Join("/sys/fs/cgroup", path); dir != "/sys/fs/cgroup"; dir = filepath.Dir(dir) {
			for _, file := range []string{"memory.max", "cpu.max", "cpu.weight", "pids.max"} {
				value, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, strings.TrimPrefix(dir, "/sys/fs/cgroup")+" "+file+" "+strings.TrimSpace(string(value)))
			}
		}
		return strings.Join(out, "\n")
	}
	want := limits()
	if strings.Count(want, "memory.max "+strconv.Itoa(64<<20)) != 2 || !strings.Contains(want, "kubepods") {
		t.Fatalf("the pod and its container have no limits:\n%s", want)
	}
	for _, command := range []string{"daemon-reload", "daemon-reexec", "daemon-reload"} {
		must(t, "systemctl", command)
		if got := limits(); got != want {
			t.Errorf("after a %s:\n%s\nwant\n%s", command, got, want)
		}
	}
	awaitActive(t, podconfigd, podexecd)
	wantSame(t, "after that", before)
}

// TestVolume: what podexecd mounts is in the pod, and what is written on the node is too.
func TestVolume(t *testing.T) {
	volume := "volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, emptyDir: {medium: Memory, sizeLimit: 1Mi}}]}}\n"
	write(t, "volume", manifest("volume", volume))
	pid := pidOf(t, "volume")
	mounts, err := os.ReadFile("/proc/" + pid + "/mountinfo")
	if err != nil || !regexp.MustCompile(` /v .* - tmpfs `).Match(mounts) {
		t.Errorf("the pod has no tmpfs at /v, %v:\n%s", err, mounts)
	}
	found, err := filepath.Glob(kubeletDir + "/pods/*/volumes/kubernetes.io~empty-dir/v")
	if err != nil || len(found) != 1 {
		t.Fatalf("the volumes on the node are %q, %v; want one", found, err)
	}
	if err := os.WriteFile(filepath.Join(found[0], "file"), []byte("from the node"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("/proc/" + pid + "/root/v/file")
	if err != nil || string(got) != "from the node" {
		t.Errorf("the pod reads %q, %v", got, err)
	}
}

package systemd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// apt runs apt-get without questions. The guest has no network.
func apt(t *testing.T, args ...string) {
	t.Helper()
	t.Logf("apt-get %s", strings.Join(args, " "))
	must(t, append([]string{"env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--yes", "--quiet", "--no-install-recommends",
		"--allow-downgrades", "-o", "Dpkg::Options::=--force-confold"}, args...)...)
}

// deb returns the path of a package, of the old or the new version.
func deb(t *testing.T, version, name string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(packages, version, name+"_*_amd64.deb"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the packages %s of %s are %q, %v; want one", name, version, found, err)
	}
	return found[0]
}

// packaged is a pod, and what it must keep.
type packaged struct {
	ids map[string]string
	pid string
	at  string
}

func startPackaged(t *testing.T) packaged {
	t.Helper()
	if err := os.WriteFile(filepath.Join(manifests, "kept.yaml"), []byte(manifest("kept", plain)), 0o644); err != nil {
		t.Fatal(err)
	}
	ids := awaitRunning(t, "kept")
	pid := pidOf(t, "kept")
	return packaged{ids, pid, processStart(t, pid)}
}

// processStart returns when a process started, in ticks since the boot.
func processStart(t *testing.T, pid string) string {
	t.Helper()
	stat := kernelText(t, "/proc/"+pid+"/stat")
	return strings.Fields(stat[strings.LastIndex(stat, ")")+1:])[19]
}

func (p packaged) wantSame(t *testing.T, when string) {
	t.Helper()
	wantSame(t, when, p.ids)
	if at := processStart(t, p.pid); at != p.at {
		t.Errorf("%s the container's process began at %s; want %s", when, at, p.at)
	}
}

func starts(t *testing.T) [2]string {
	t.Helper()
	return [2]string{startOf(t, podconfigd).id, startOf(t, podexecd).id}
}

// wantStarts checks that both daemons were started again, or neither.
func wantStarts(t *testing.T, when string, was [2]string, again bool) {
	t.Helper()
	awaitActive(t, podconfigd, podexecd)
	for i, id := range starts(t) {
		if (id != was[i]) != again {
			t.Errorf("%s daemon %d has the invocation %s, before %s; started again should be %v", when, i, id, was[i], again)
		}
	}
}

// wantStopped checks that units don't run.
func wantStopped(t *testing.T, when string, units ...string) {
	t.Helper()
	for _, unit := range units {
		if state := show(t, unit, "ActiveState"); state != "inactive" {
			t.Errorf("%s %s is %s; want inactive", when, unit, state)
		}
	}
}

var packageUnits = []string{"podconfigd.socket", podconfigd, "podexecd.socket", podexecd}

// TestPackages: no installation, upgrade, downgrade, interruption, removal or purge of a package ends a container.
func TestPackages(t *testing.T) {
	earlier, later := deb(t, "old", "podstream"), deb(t, "new", "podstream")
	apt(t, "install", earlier)
	awaitActive(t, podconfigd, podexecd)
	pod := startPackaged(t)

	t.Run("Upgrades", func(t *testing.T) { upgradePackages(t, pod, earlier, later) })
	t.Run("Policy", func(t *testing.T) { heedPolicy(t, pod, earlier, later) })
	t.Run("FormerUser", func(t *testing.T) { changeUser(t, pod, later) })
	t.Run("StoppedKubelet", func(t *testing.T) { besideStopped(t, pod, earlier, later) })
	t.Run("Removals", func(t *testing.T) { removePackages(t, pod, later) })
	t.Run("Kubelet", func(t *testing.T) { replaceKubelet(t, later) })
}

func upgradePackages(t *testing.T, pod packaged, earlier, later string) {
	// No script runs what an environment file contains, and the administrator's content stays.
	const marker, file = "/var/tmp/run-by-a-script", "/etc/podstream/podconfigd.env"
	hostile := "EVIL=$(touch " + marker + ")\nMORE=\"; touch " + marker + "\"\nPODCONFIGD_FLAGS=\"--v 4\"\n`touch " + marker + "`\n"
	if err := os.WriteFile(file, []byte(hostile), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ name, file string }{{"an upgrade", later}, {"a downgrade", earlier}} {
		was := starts(t)
		apt(t, "install", step.file)
		wantStarts(t, "after "+step.name, was, true)
		pod.wantSame(t, "after "+step.name)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != hostile {
		t.Errorf("%s has %q, %v; want the administrator's text", file, got, err)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a script ran the content of an environment file")
	}

	// dpkg is killed between the new files and the restart: the old daemons run on.
	was := starts(t)
	must(t, "dpkg", "--force-confold", "--unpack", later)
	wantStarts(t, "unpacked", was, false)
	must(t, "dpkg", "--force-confold", "--configure", "-a")
	wantStarts(t, "configured later", was, true)
	pod.wantSame(t, "after an interrupted upgrade")

	// Podexecd is replaced while it ends a pod.
	const name = "ending"
	slow := strings.Replace(manifest(name, plain), "terminationGracePeriodSeconds: 1", "terminationGracePeriodSeconds: 10", 1)
	slow = strings.Replace(slow, "args: [sleep]", "args: [ignore-term]", 1)
	if err := os.WriteFile(filepath.Join(manifests, name+".yaml"), []byte(slow), 0o644); err != nil {
		t.Fatal(err)
	}
	awaitRunning(t, name)
	if err := os.Remove(filepath.Join(manifests, name+".yaml")); err != nil {
		t.Fatal(err)
	}
	apt(t, "install", earlier)
	eventually(t, "the ending pod is gone", func() error {
		if all, err := containers(t, name); err != nil || len(all) > 0 {
			return fmt.Errorf("it has %d containers, %w", len(all), err)
		}
		return nil
	})
	pod.wantSame(t, "after an upgrade while a pod ends")
}

func heedPolicy(t *testing.T, pod packaged, earlier, later string) {
	const policy = "/usr/sbin/policy-rc.d"
	if err := os.WriteFile(policy, []byte("#!/bin/sh\nexit 101\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	was := starts(t)
	apt(t, "install", later)
	wantStarts(t, "with policy-rc.d", was, false)
	if err := os.Remove(policy); err != nil {
		t.Fatal(err)
	}
	// What the administrator stopped stays stopped.
	must(t, append([]string{"systemctl", "stop"}, packageUnits...)...)
	apt(t, "install", earlier)
	wantStopped(t, "after a downgrade of stopped daemons", packageUnits...)
	must(t, append([]string{"systemctl", "start"}, packageUnits...)...)
	awaitActive(t, podconfigd, podexecd)
	pod.wantSame(t, "after that")
}

func removePackages(t *testing.T, pod packaged, later string) {
	apt(t, "remove", "podstream")
	wantStopped(t, "after the removal", packageUnits...)
	pod.wantSame(t, "after the removal")
	apt(t, "install", later)
	awaitActive(t, podconfigd, podexecd)
	awaitStatus(t, podexecd, "running; pods: ")
	pod.wantSame(t, "after the installation again")

	apt(t, "purge", "podstream")
	pod.wantSame(t, "after the purge")
	if left, err := filepath.Glob(kubeletDir + "/pods/*"); err != nil || len(left) != 1 {
		t.Errorf("the purge left the pods' directories %q, %v; want one", left, err)
	}
	// The administrator's directory is a symbolic link now.
	must(t, "sh", "-c", "mv /etc/podstream /srv/podstream && ln -s /srv/podstream /etc/podstream")
	apt(t, "install", later)
	awaitActive(t, podconfigd, podexecd)
	awaitStatus(t, podexecd, "running; pods: ")
	pod.wantSame(t, "with a symbolic link")
	if info, err := os.Lstat("/etc/podstream"); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("/etc/podstream is %v, %v; want the link", info, err)
	}
	remove(t, "kept")
	apt(t, "purge", "podstream")
	if _, err := os.Stat(stores); !os.IsNotExist(err) {
		t.Errorf("without pods the purge left %s: %v", stores, err)
	}
}

func replaceKubelet(t *testing.T, later string) {
	apt(t, "install", later)
	awaitActive(t, podconfigd, podexecd)
	apt(t, "install", deb(t, "new", "podstream-kubelet"), packages+"/needs-kubelet.deb")
	wantStopped(t, "beside kubelet.service", packageUnits...)
	must(t, "systemctl", "start", "podexecd.service")
	wantStopped(t, "started by hand", podexecd)
	awaitActive(t, kubelet)
	if got := must(t, "/usr/bin/kubelet", "--version"); !strings.HasPrefix(got, "Kubernetes v1.") {
		t.Errorf("kubelet --version prints %q", got)
	}
	apt(t, "remove", "podstream-kubelet", "needs-kubelet")
	wantStopped(t, "removed", kubelet)
	must(t, append([]string{"systemctl", "start"}, packageUnits...)...)
	awaitActive(t, podconfigd, podexecd)
}

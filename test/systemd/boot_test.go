package systemd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

const (
	// late is how long after the start of its unit containerd starts.
	late = 3 * time.Minute
	// booted are the static pods of the boot.
	booted = 3
	// brokenName sorts before the others.
	brokenName = "a-broken"
)

// TestBeforeBoot prepares the boot that TestAfterBoot examines: an API server that is away, a broken manifest, and
// containerd late. Nothing is undone: the guest ends after it.
func TestBeforeBoot(t *testing.T) {
	kubeconfig := "/etc/podstream/kubelet.conf"
	writeKubeconfig(t, kubeconfig, "192.0.2.1:6443")
	for path, content := range map[string]string{
		"/etc/podstream/podconfigd.env": "PODCONFIGD_FLAGS=--pod-manifest-path " + manifests + " --kubeconfig " + kubeconfig + "\n",
		"/etc/podstream/podexecd.env":   "PODEXECD_FLAGS=--kubeconfig " + kubeconfig + "\n",
		"/etc/systemd/system/containerd.service.d/late.conf": fmt.Sprintf(
			"[Service]\nExecStartPre=/bin/sleep %.0f\nTimeoutStartSec=infinity\n", late.Seconds()),
		filepath.Join(manifests, brokenName+".yaml"): "{apiVersion: v1, kind: Pod, metadata: {name: broken}, spec: {containers: [{",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i := range booted {
		name := fmt.Sprintf("boot-%d", i)
		if err := os.WriteFile(filepath.Join(manifests, name+".yaml"), []byte(manifest(name, plain)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	must(t, "sync")
}

// TestAfterBoot: both daemons were ready long before containerd, all static pods run, and no unit was restarted.
func TestAfterBoot(t *testing.T) {
	if _, err := os.Stat(filepath.Join(manifests, brokenName+".yaml")); err != nil {
		t.Fatalf("TestBeforeBoot didn't run: %v", err)
	}
	awaitActive(t, podconfigd, podexecd)
	awaitStatus(t, podconfigd, "waiting for source api")
	awaitStatus(t, podexecd, "runtime: unreachable since ")
	if active := show(t, "containerd", "ActiveState"); active != "activating" {
		t.Fatalf("containerd is %s; want this test to run before its start", active)
	}
	awaitActiveWithin(t, late+patience, "containerd.service")
	var names []string
	for i := range booted {
		names = append(names, fmt.Sprintf("boot-%d", i))
	}
	awaitRunning(t, names...)
	awaitStatus(t, podexecd, "waiting for source api")
	at := func(unit string) time.Duration {
		n, err := strconv.Atoi(show(t, unit, "ActiveEnterTimestampMonotonic"))
		if err != nil {
			t.Fatal(err)
		}
		return (time.Duration(n) * time.Microsecond).Round(time.Second)
	}
	for _, unit := range []string{podconfigd, podexecd} {
		t.Logf("%s was ready %v after the kernel's start, containerd %v", unit, at(unit), at("containerd"))
		if at("containerd")-at(unit) < late/2 {
			t.Errorf("%s waits for containerd", unit)
		}
		if n := show(t, unit, "NRestarts"); n != "0" {
			t.Errorf("%s was restarted %s times", unit, n)
		}
	}
}

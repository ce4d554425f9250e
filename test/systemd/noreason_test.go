package systemd_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/test/rig"
)

// period is the watchdog's in these tests.
const period = 6 * time.Second

// hold checks for three periods of the watchdog that both daemons are the ones that they were. It ends with the first
// that is not.
func hold(t *testing.T, what string) {
	t.Helper()
	before := map[string]start{podconfigd: startOf(t, podconfigd), podexecd: startOf(t, podexecd)}
	over := time.NewTimer(3 * period)
	defer over.Stop()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for last := false; !last; {
		select {
		case <-look.C:
		case <-over.C:
			last = true
		}
		for unit, was := range before {
			if now := startOf(t, unit); now != was {
				journal, _ := run("journalctl", "--no-pager", "-o", "cat", "-n", "200", "-u", unit)
				t.Fatalf("%s: %s is the start %v; want %v still\n%s", what, unit, now, was, journal)
			}
		}
	}
}

// watch gives both units a short watchdog, flags, and a start.
func watch(t *testing.T, podconfigdFlags, podexecdFlags string) {
	t.Helper()
	for unit, flags := range map[string]string{podconfigd: podconfigdFlags, podexecd: podexecdFlags} {
		dropIn(t, unit, "WatchdogSec="+period.String(),
			`Environment="`+strings.ToUpper(strings.TrimSuffix(unit, ".service"))+"_FLAGS="+flags+`"`)
	}
	must(t, "systemctl", "restart", podconfigd, podexecd)
	awaitActive(t, podconfigd, podexecd)
}

// TestNoReasonRuntime: a container runtime that hangs, while podexecd runs and when it starts.
func TestNoReasonRuntime(t *testing.T) {
	write(t, "patient", manifest("patient", plain))
	before := awaitRunning(t, "patient")
	watch(t, "", "")
	awaitStatus(t, podexecd, "running; pods: ")
	must(t, "systemctl", "kill", "--kill-whom=main", "--signal=STOP", "containerd")
	proceed := func() { must(t, "systemctl", "kill", "--kill-whom=main", "--signal=CONT", "containerd") }
	defer proceed()
	hold(t, "containerd hangs")
	must(t, "systemctl", "restart", podexecd)
	awaitActive(t, podexecd)
	awaitStatus(t, podexecd, "runtime: ")
	hold(t, "containerd hangs at the start")
	proceed()
	awaitStatus(t, podexecd, "running; pods: ")
	wantSame(t, "after containerd hung", before)
}

// TestNoReasonDisk: the disk of both stores hangs, while podconfigd has a change to store, and podexecd too.
func TestNoReasonDisk(t *testing.T) {
	write(t, "patient", manifest("patient", plain))
	awaitRunning(t, "patient")
	watch(t, "", "")
	pid := pidOf(t, "patient")
	must(t, "fsfreeze", "--freeze", stores)
	frozen := true
	thaw := func() {
		if frozen {
			must(t, "fsfreeze", "--unfreeze", stores)
			frozen = false
		}
	}
	defer thaw()
	must(t, "kill", "-KILL", pid)
	if err := os.WriteFile(filepath.Join(manifests, "late.yaml"), []byte(manifest("late", plain)), 0o644); err != nil {
		t.Fatal(err)
	}
	hold(t, "the stores' disk hangs")
	if all, err := containers(t, "late"); err != nil || len(all) > 0 {
		t.Errorf("the new pod has the containers %v, %v; want podconfigd to wait for the disk before it publishes the pod", all, err)
	}
	thaw()
	write(t, "late", manifest("late", plain))
	awaitRunning(t, "late")
}

// TestNoReasonAPIServer: an API server that accepts connections and never answers.
func TestNoReasonAPIServer(t *testing.T) {
	write(t, "patient", manifest("patient", plain))
	before := awaitRunning(t, "patient")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	kubeconfig := filepath.Join(readable(t), "kubeconfig")
	writeKubeconfig(t, kubeconfig, l.Addr().String())
	watch(t, "--pod-manifest-path "+manifests+" --kubeconfig "+kubeconfig, "--kubeconfig "+kubeconfig)
	awaitStatus(t, podconfigd, "waiting for source api")
	awaitStatus(t, podexecd, "waiting for source api")
	hold(t, "the API server hangs")
	wantSame(t, "while the API server hangs", before)
}

// readable returns a directory that podconfigd can read: its /tmp and /var/tmp are its own.
func readable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/etc/podstream", "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, "chmod", "755", dir)
	return dir
}

func writeKubeconfig(t *testing.T, path, server string) {
	t.Helper()
	content := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c,
  clusters: [{name: c, cluster: {server: "https://%s", insecure-skip-tls-verify: true}}],
  users: [{name: u, user: {token: none}}], contexts: [{name: c, context: {cluster: c, user: u}}]}
`, server)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestNoReasonManyPods: 500 pods when both daemons start.
func TestNoReasonManyPods(t *testing.T) {
	const pods = 500
	root := filepath.Join(stores, "simulated")
	socket := "/run/simruntimed.sock"
	must(t, "systemd-run", "--unit=simruntimed", "/usr/local/bin/simruntimed", "--listen", "unix://"+socket)
	t.Cleanup(func() { // After the units have their own flags again.
		must(t, "systemctl", "stop", "simruntimed")
		must(t, "rm", "-rf", root)
	})
	many := readable(t)
	for i := range pods {
		name := fmt.Sprintf("many-%d", i)
		if err := os.WriteFile(filepath.Join(many, name+".yaml"), []byte(manifest(name, plain)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	watch(t, "--pod-manifest-path "+many,
		"--root-dir "+root+" --kubelet-dir "+root+" --cgroups-per-qos=false --eviction-hard memory.available<1Mi --max-pods 600 --container-runtime-endpoint unix://"+socket)
	hold(t, "500 pods start")
	conn, err := rig.Dial("unix://" + socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	sim := runtimeapi.NewRuntimeServiceClient(conn)
	eventually(t, "all pods run", func() error {
		resp, err := sim.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
		if n := len(resp.GetContainers()); err != nil || n != pods {
			return fmt.Errorf("%d containers, %w", n, err)
		}
		return nil
	})
	// Once more, with all of them in the stores.
	must(t, "systemctl", "restart", podconfigd, podexecd)
	awaitActive(t, podconfigd, podexecd)
	hold(t, "500 pods are adopted")
}

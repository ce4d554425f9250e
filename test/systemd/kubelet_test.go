package systemd_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	kubelet = "kubelet.service"
	// kubeletManifests is the staticPodPath of kubeadm.
	kubeletManifests = "/etc/kubernetes/manifests"
)

// kubeletFiles are those of a node that kubeadm has set up: the packages' unit and drop-in, the configuration, and the files of
// flags.
var kubeletFiles = map[string]string{
	"/etc/systemd/system/kubelet.service": `[Unit]
Description=kubelet: The Kubernetes Node Agent
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=1

[Install]
WantedBy=multi-user.target
`,
	"/etc/systemd/system/kubelet.service.d/10-kubeadm.conf": `[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`,
	"/var/lib/kubelet/kubeadm-flags.env": "KUBELET_KUBEADM_ARGS=\"--hostname-override=cp-1\"\n",
	"/var/lib/kubelet/config.yaml": `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}}
authorization: {mode: Webhook}
cgroupDriver: systemd
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
failSwapOn: false
healthzBindAddress: 127.0.0.1
healthzPort: 10248
rotateCertificates: true
staticPodPath: /etc/kubernetes/manifests
`,
	"/etc/kubernetes/bootstrap-kubelet.conf": `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: u, user: {token: abcdef.0123456789abcdef}}]
`,
}

// children returns the process IDs of both daemons in the unit, by name.
func children(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pid := range strings.Fields(must(t, "sh", "-c", "cat /sys/fs/cgroup/system.slice/kubelet.service/cgroup.procs 2>/dev/null || true")) {
		if name, err := os.ReadFile("/proc/" + pid + "/comm"); err == nil {
			out[strings.TrimSpace(string(name))] = pid
		}
	}
	return out
}

// awaitKubelet waits until the unit is active, has both daemons other than before, and answers.
func awaitKubelet(t *testing.T, before map[string]string) map[string]string {
	t.Helper()
	var now map[string]string
	eventually(t, "the kubelet's unit has both daemons", func() error {
		now = children(t)
		for _, name := range []string{"kubelet", "podconfigd", "podexecd"} {
			if now[name] == "" || now[name] == before[name] {
				return fmt.Errorf("its processes are %v; before that %v", now, before)
			}
		}
		resp, err := http.Get("http://127.0.0.1:10248/healthz")
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("healthz: %s", resp.Status)
		}
		return nil
	})
	return now
}

// TestKubelet: with kubeadm's unit, drop-in and files, the launcher runs a static pod while the API server is away. A restart
// with other flags, a crash, a hang and a stop leave the pod's container, and no daemon remains after a stop.
func TestKubelet(t *testing.T) {
	must(t, "systemctl", "stop", podconfigd, podexecd, "podconfigd.socket", "podexecd.socket")
	must(t, "install", "-m", "0755", share+"/bin/kubelet", "/usr/bin/kubelet")
	for path, text := range kubeletFiles {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(kubeletManifests, 0o700); err != nil {
		t.Fatal(err)
	}
	pod := filepath.Join(kubeletManifests, "static.yaml")
	if err := os.WriteFile(pod, []byte(manifest("static", plain)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		must(t, "systemctl", "stop", kubelet)
		for _, path := range []string{"/etc/systemd/system/kubelet.service.d", "/etc/systemd/system/kubelet.service", "/etc/default/kubelet", "/etc/kubernetes", "/var/lib/kubelet", "/usr/bin/kubelet"} {
			if err := os.RemoveAll(path); err != nil {
				t.Error(err)
			}
		}
		must(t, "systemctl", "daemon-reload")
		must(t, "systemctl", "start", "podconfigd.socket", "podexecd.socket", podconfigd, podexecd)
		awaitActive(t, podconfigd, podexecd)
	})
	must(t, "systemctl", "daemon-reload")
	must(t, "systemctl", "start", kubelet)
	first := awaitKubelet(t, nil)
	before := awaitRunning(t, "static")
	if uid := must(t, "stat", "-c", "%u", "/proc/"+first["podconfigd"]); uid != userID(t) {
		t.Errorf("podconfigd runs as user %s; want %s", uid, userID(t))
	}
	if log := must(t, "journalctl", "--unit", kubelet, "--output", "cat", "--no-pager"); !strings.Contains(log, "daemon=podexecd ") || !strings.Contains(log, "daemon=podconfigd ") {
		t.Errorf("the journal lacks a daemon's lines:\n%s", log)
	}

	// It finds podexecd's flags, and doesn't take the launcher for a kubelet. Without an API server it fails as a whole.
	advice, _ := run("podctl", "doctor")
	for line := range strings.Lines(advice) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "processes" && fields[1] == "failed" {
			t.Errorf("doctor: %s", line)
		}
	}
	if !strings.Contains(advice, "/etc/kubernetes/kubelet.conf") {
		t.Errorf("doctor doesn't look at podexecd's flags:\n%s", advice)
	}

	if err := os.WriteFile("/etc/default/kubelet", []byte("KUBELET_EXTRA_ARGS=--node-labels=a=b --v=4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// With these, a restart waits until the launcher is ready.
	drop := "/etc/systemd/system/kubelet.service.d/20-notify.conf"
	if err := os.WriteFile(drop, []byte("[Service]\nType=notify\nWatchdogSec=60\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "systemctl", "daemon-reload")
	must(t, "systemctl", "restart", kubelet)
	if text := show(t, kubelet, "StatusText"); !strings.Contains(text, "podconfigd: ") || !strings.Contains(text, "podexecd: ") {
		t.Errorf("once the unit is active, its status is %q", text)
	}
	second := awaitKubelet(t, first)
	for _, name := range []string{"podconfigd", "podexecd"} {
		if args := must(t, "sh", "-c", "tr '\\0' ' ' </proc/"+second[name]+"/cmdline"); !strings.Contains(args, "--v=4") {
			t.Errorf("after a restart with other flags %s runs as %s", name, args)
		}
	}
	wantSame(t, "after a restart", before)

	must(t, "systemctl", "kill", "--signal=KILL", "--kill-whom=main", kubelet)
	third := awaitKubelet(t, second)
	wantSame(t, "after a crash of the launcher", before)
	// A stopped process makes no progress, and handles only SIGKILL, which the launcher sends after 75 s.
	must(t, "kill", "-STOP", third["podexecd"])
	eventuallyWithin(t, 5*time.Minute, "podexecd is started again alone", func() error {
		if now := children(t); now["podexecd"] == "" || now["podexecd"] == third["podexecd"] || now["podconfigd"] != third["podconfigd"] {
			return fmt.Errorf("the processes are %v; before that %v", now, third)
		}
		return nil
	})

	wantSame(t, "after a hang of podexecd", before)

	must(t, "systemctl", "stop", kubelet)
	if left := children(t); len(left) > 0 {
		t.Errorf("after a stop, the unit has %v", left)
	}
	if result := show(t, kubelet, "Result"); result != "success" {
		t.Errorf("the unit's result is %s:\n%s", result, must(t, "journalctl", "--unit", kubelet, "--no-pager", "--lines=30"))
	}
	wantSame(t, "after a stop", before)

	must(t, "systemctl", "start", kubelet)
	awaitKubelet(t, third)
	if err := os.Remove(pod); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is gone", func() error {
		if all, err := containers(t, "static"); err != nil || len(all) > 0 {
			return fmt.Errorf("it has %d containers, %w", len(all), err)
		}
		return nil
	})
}

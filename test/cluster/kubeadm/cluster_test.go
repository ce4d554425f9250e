package kubeadm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// cluster is the test's two nodes.
type cluster struct {
	t               *testing.T
	tools, dir      string
	control, worker *machine
}

// step runs a command on a node, logs its last lines, and returns its output. The test ends if it fails.
func (c *cluster) step(m *machine, args ...string) string {
	c.t.Helper()
	stdout, _ := c.stepBoth(m, args...)
	return stdout
}

// stepBoth is step, and returns the output of both streams together, too.
func (c *cluster) stepBoth(m *machine, args ...string) (stdout, both string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), stepTimeout)
	defer cancel()
	began := time.Now()
	stdout, both, err := m.runBoth(ctx, args...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Logf("%s: %s (%.1f s)\n%s", m.name, strings.Join(args, " "), time.Since(began).Seconds(), tail(both, 1500))
	return stdout, both
}

// eventually runs the check until it succeeds. The test ends if it doesn't in time.
func (c *cluster) eventually(what string, check func(ctx context.Context) error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), stepTimeout/2)
	defer cancel()
	began := time.Now()
	for {
		err := check(ctx)
		if err == nil {
			c.t.Logf("%s (%.1f s)", what, time.Since(began).Seconds())
			return
		}
		select {
		case <-ctx.Done():
			c.t.Fatalf("not in time: %s: %v", what, err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	return c.step(c.control, append([]string{"kubectl"}, args...)...)
}

// serial returns the serial number of the API server's certificate, from its port.
func (c *cluster) serial(ctx context.Context) (string, error) {
	return c.fetch(ctx, c.control, "tls://"+apiServer)
}

// fetch has this program fetch a URL on a node: see fetchVariable.
func (c *cluster) fetch(ctx context.Context, m *machine, url string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return m.run(ctx, "env", fetchVariable+"="+url, self)
}

// containers returns the containers of a node, by the runtime.
func (c *cluster) containers(ctx context.Context, m *machine) ([]string, error) {
	output, err := m.run(ctx, "ctr", "-n", "k8s.io", "containers", "list", "--quiet")
	return strings.Fields(output), err
}

// logs writes the ends of the node's logs to the test's output.
func (c *cluster) logs(m *machine) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, path := range []string{"/var/log/kubelet.log", "/var/log/containerd.log"} {
		c.t.Logf("%s: the end of %s:\n%s", m.name, path, m.read(ctx, path, 12<<10))
	}
	output, _ := m.run(ctx, "bash", "-c", "cat /var/lib/kubelet/config.yaml /var/lib/kubelet/kubeadm-flags.env; ls -la /etc/kubernetes /etc/kubernetes/manifests; "+
		"for log in /var/log/pods/*/*/*.log; do echo \"== $log\"; tail -n 15 $log; done")
	c.t.Logf("%s:\n%s", m.name, tail(output, 24<<10))
}

// awaitNodes waits until both nodes are ready.
func (c *cluster) awaitNodes() {
	c.t.Helper()
	c.eventually("both nodes are ready", func(ctx context.Context) error {
		output, err := c.control.run(ctx, "kubectl", "get", "nodes",
			"-o", `jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].status} {end}`)
		if err == nil && strings.TrimSpace(output) != "control=True worker=True" {
			err = fmt.Errorf("nodes: %s", output)
		}
		return err
	})
}

// restartAgent restarts a node's agent, and waits until it has renewed the node's Lease.
func (c *cluster) restartAgent(m *machine) {
	c.t.Helper()
	c.step(m, "systemctl", "restart", "kubelet")
	restarted := time.Now()
	c.eventually("the agent of "+m.name+" renews its Lease", func(ctx context.Context) error {
		output, err := c.control.run(ctx, "kubectl", "-n", "kube-node-lease", "get", "lease", m.name, "-o", "jsonpath={.spec.renewTime}")
		if err != nil {
			return err
		}
		renewed, err := time.Parse(time.RFC3339, output)
		if err == nil && !renewed.After(restarted) {
			err = fmt.Errorf("it was renewed at %s", output)
		}
		return err
	})
}

// versions returns the version of kubeadm, and the images that it uses.
func (c *cluster) versions() (version string, images []string) {
	c.t.Helper()
	kubeadm := filepath.Join(c.tools, "kubeadm")
	output, err := exec.CommandContext(c.t.Context(), kubeadm, "version", "-o", "short").Output()
	if err != nil {
		c.t.Fatal(err)
	}
	version = strings.TrimSpace(string(output))
	if output, err = exec.CommandContext(c.t.Context(), kubeadm, "config", "images", "list", "--kubernetes-version="+version).Output(); err != nil {
		c.t.Fatal(err)
	}
	return version, strings.Fields(string(output))
}

// node makes a node with the agent's programs. podRange is the range of its pods' addresses.
func (c *cluster) node(name string, agent map[string]string, pause, podRange string) *machine {
	c.t.Helper()
	m, err := newMachine(c.t.Context(), name, filepath.Join(c.dir, name), c.tools)
	if err != nil {
		c.t.Fatal(err)
	}
	cgroup := filepath.Base(c.dir) + "-" + name
	for _, controller := range []string{"blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb", "memory", "pids", "systemd", "unified"} {
		dir := filepath.Join("/sys/fs/cgroup", controller)
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		if err := os.MkdirAll(filepath.Join(dir, cgroup), 0o755); err != nil {
			c.t.Fatal(err)
		}
	}
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.logs(m)
		}
		if err := errors.Join(m.close(), removeCgroups(cgroup)); err != nil {
			c.t.Error(err)
		}
	})
	patch := "failCgroupV1: false\ncgroupRoot: /" + cgroup + "\n"
	if err := errors.Join(m.write(c.t.Context(), "/etc/kubeadm-patches/kubeletconfiguration.yaml", patch, 0o644),
		m.install(c.t.Context(), agent, pause, podRange)); err != nil {
		c.t.Fatal(err)
	}
	return m
}

// wire connects the nodes, and routes the ranges of their pods.
func (c *cluster) wire() {
	c.t.Helper()
	c.step(c.control, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
	// A process ID of this machine isn't one of the node's: the end is moved from here.
	move := exec.CommandContext(c.t.Context(), "nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", c.control.pid),
		"ip", "link", "set", "eth1", "netns", fmt.Sprint(c.worker.pid))
	if output, err := move.CombinedOutput(); err != nil {
		c.t.Fatalf("%v: %s", err, output)
	}
	for _, end := range []struct {
		m                        *machine
		link, own, peer, peerPod string
	}{{c.control, "eth0", controlIP, workerIP, "10.244.251.0/24"}, {c.worker, "eth1", workerIP, controlIP, "10.244.250.0/24"}} {
		c.step(end.m, "bash", "-ec", fmt.Sprintf("[[ %[1]s == eth0 ]] || ip link set %[1]s name eth0; ip address add %[2]s/24 dev eth0; ip link set eth0 up; "+
			"ip route add %[3]s via %[4]s; ip route add default dev eth0", end.link, end.own, end.peerPod, end.peer))
	}
}

// agentPrograms returns the programs of an agent, kubelet or podstream, by their names on a node.
func (c *cluster) agentPrograms(agent string) map[string]string {
	c.t.Helper()
	programs := map[string]string{}
	switch agent {
	case "kubelet":
		programs["kubelet"] = filepath.Join(c.tools, "kubelet")
	case "", "podstream":
		for _, name := range []string{"kubelet", "podconfigd", "podexecd", "podctl"} {
			programs[name] = filepath.Join(filepath.Dir(c.tools), "bin", name)
		}
	default:
		c.t.Fatalf("AGENT=%s: want kubelet or podstream", agent)
	}
	return programs
}

// startCluster has kubeadm make a cluster of two nodes with this agent.
func startCluster(t *testing.T, agent string) *cluster {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv(dirVariable)
	if dir == "" {
		t.Skip("needs programs and root: make test-kubeadm")
	}
	c := &cluster{t: t, tools: filepath.Join(root, ".tools"), dir: dir}
	version, names := c.versions()
	var pause string
	for _, name := range names {
		if strings.Contains(name, "/pause:") {
			pause = name
		}
	}
	images := filepath.Join(c.dir, "images.tar")
	if err := writeImages(t.Context(), images, c.tools, filepath.Join(root, "bin", "sample"), names); err != nil {
		t.Fatal(err)
	}
	programs := c.agentPrograms(agent)
	c.control, c.worker = c.node("control", programs, pause, "10.244.250.0/24"), c.node("worker", programs, pause, "10.244.251.0/24")
	c.wire()
	for _, m := range []*machine{c.control, c.worker} {
		if err := m.startContainerd(t.Context(), images); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.control.write(t.Context(), "/etc/kubeadm.yaml", strings.ReplaceAll(initConfig, "VERSION", version), 0o600); err != nil {
		t.Fatal(err)
	}

	_, both := c.stepBoth(c.control, "kubeadm", "init", "--config=/etc/kubeadm.yaml", "--ignore-preflight-errors="+ignoredErrors())
	for name, text := range ignored {
		if !strings.Contains(both, text) {
			t.Errorf("kubeadm has no error %s, which the test ignores", name)
		}
	}
	join := strings.Fields(c.step(c.control, "kubeadm", "token", "create", "--print-join-command"))
	c.step(c.worker, append(join, "--cri-socket=unix:///run/containerd/containerd.sock", "--node-name=worker",
		"--patches=/etc/kubeadm-patches", "--ignore-preflight-errors="+ignoredErrors())...)

	c.awaitNodes()
	return c
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/test/devnode"
)

// The names of the agents.
const (
	podstream   = "podstream"
	kubeletName = "kubelet"
)

// nodeName is the node's name, and the suffix of its static pods.
const nodeName = "node-1"

// nodeIP is the node's address in its network namespace.
const nodeIP = "192.0.2.1"

// readOnly is the address of both agents' read-only API, in the node's network namespace.
const readOnly = "http://127.0.0.1:10255"

// agent is a running agent.
type agent struct {
	manifests string
	processes []*devnode.Process
	targets   []target
}

// agents start the agents.
var agents = map[string]func(node *devnode.Node, kubeconfig string) (*agent, error){podstream: startPodstream, kubeletName: startKubelet}

// kubeletTargets are the paths that Prometheus scrapes of a kubelet, by the usual configuration.
func kubeletTargets() []target {
	var all []target
	for _, path := range []string{"/metrics", "/metrics/cadvisor", "/metrics/probes", "/metrics/resource"} {
		all = append(all, target{"kubelet", path, readOnly + path})
	}
	return all
}

func newAgent(node *devnode.Node, name string) (*agent, error) {
	a := &agent{manifests: node.Path(name, "manifests"), targets: kubeletTargets()}
	return a, os.MkdirAll(a.manifests, 0o755)
}

func startPodstream(node *devnode.Node, kubeconfig string) (*agent, error) {
	a, err := newAgent(node, podstream)
	if err != nil {
		return a, err
	}
	address, err := freeAddress()
	if err != nil {
		return a, err
	}
	a.targets = append(a.targets, target{"podconfigd", "/metrics", "http://" + address + "/metrics"})
	config := "unix://" + node.Socket("c")
	for name, args := range map[string][]string{
		"podconfigd": {"--listen", config, "--pod-manifest-path", a.manifests, "--metrics-address", address},
		"podexecd": {
			"--kubelet-dir", node.Path("kubelet"), "--listen", "unix://" + node.Socket("x"), "--podconfig-endpoint", config, "--container-runtime-endpoint", node.Endpoint(),
			"--pod-logs-dir", node.Path("logs", "pods"), "--enable-server", "--read-only-port", "10255", "--address", "127.0.0.1",
			"--anonymous-auth=true", "--authentication-token-webhook=false", "--authorization-mode=AlwaysAllow",
			"--kubeconfig", kubeconfig, "--node-ip", nodeIP,
		},
	} {
		p, err := node.StartDaemon(name, slices.Concat([]string{"--root-dir", node.Path(name), "--hostname-override", nodeName}, args)...)
		if err != nil {
			return a, err
		}
		a.processes = append(a.processes, p)
	}
	return a, nil
}

// freeAddress returns an address on loopback that was free a moment ago.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// isolated starts the kubelet in a mount namespace of its own: it writes to fixed directories and to sysctls, and
// none of that may reach the machine. It ends if it can't set its sysctls, so it finds them set. Its cAdvisor finds
// the names of containers only at containerd's usual socket.
const isolated = `#!/bin/sh
CONTAINERD=$1
shift
export CONTAINERD
exec unshare --mount --propagation private sh -ec '
mkdir -p /var/log/containers /var/lib/kubelet
mount -t tmpfs tmpfs /var/log/containers
mount -t tmpfs tmpfs /var/lib/kubelet
mkdir -p /run/containerd
mount -t tmpfs tmpfs /run/containerd
ln -s "$CONTAINERD" /run/containerd/containerd.sock
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
	kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
	file=/var/lib/kubelet/$(basename "${setting%%=*}")
	echo "${setting#*=}" >"$file"
	[ ! -e "/proc/sys/${setting%%=*}" ] || mount --bind "$file" "/proc/sys/${setting%%=*}"
done
exec "$0" "$@"' %q "$@"
`

// kubeletConfig has the kubelet's defaults for all that its metrics depend on. Its thresholds are none that the disk
// of a busy machine may pass.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: %q
podLogsDir: %q
volumePluginDir: %q
containerRuntimeEndpoint: %q
cgroupRoot: %q
cgroupDriver: cgroupfs
enforceNodeAllocatable: [none]
address: 127.0.0.1
readOnlyPort: 10255
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
failCgroupV1: false
failSwapOn: false
evictionHard: {memory.available: 100Mi}
imageGCHighThresholdPercent: 100
`

func startKubelet(node *devnode.Node, kubeconfig string) (*agent, error) {
	a, err := newAgent(node, kubeletName)
	if err != nil {
		return a, err
	}
	cgroup := filepath.Join(node.CgroupRoot(), kubeletName)
	pattern := "/sys/fs/cgroup/*"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		pattern = "/sys/fs/cgroup"
	}
	hierarchies, err := filepath.Glob(pattern + "/cgroup.procs")
	if err != nil {
		return a, err
	}
	for _, file := range hierarchies {
		// The kubelet doesn't make its root.
		if err := os.MkdirAll(filepath.Join(filepath.Dir(file), cgroup), 0o755); err != nil {
			return a, err
		}
	}
	config := fmt.Appendf(nil, kubeletConfig, a.manifests, node.Path("logs", "pods"), node.Path("plugins"), node.Endpoint(), cgroup)
	if err := os.WriteFile(node.Path("kubelet.yaml"), config, 0o600); err != nil {
		return a, err
	}
	p, err := node.StartDaemon(kubeletName, strings.TrimPrefix(node.Endpoint(), "unix://"), "--config", node.Path("kubelet.yaml"), "--root-dir", node.Path("kubelet"),
		"--cert-dir", node.Path("kubelet", "pki"), "--hostname-override", nodeName, "--node-ip", nodeIP,
		"--kubeconfig", kubeconfig)
	if err == nil {
		a.processes = append(a.processes, p)
	}
	return a, err
}

// stop ends the agent.
func (a *agent) stop() error {
	var errs []error
	for _, p := range a.processes {
		errs = append(errs, p.Kill())
	}
	return errors.Join(errs...)
}

func (a *agent) logs() string {
	var all strings.Builder
	for _, p := range a.processes {
		fmt.Fprintf(&all, "%s:\n%s\n", p.Name, p.LogTail())
	}
	return all.String()
}

// add writes manifests, and renames them, so that they are read whole.
func (a *agent) add(pods ...pod) error {
	for _, p := range pods {
		draft := filepath.Join(a.manifests, "."+p.name)
		if err := os.WriteFile(draft, []byte(p.manifest()), 0o644); err != nil { //nolint:gosec // Like any manifest.
			return err
		}
		if err := os.Rename(draft, filepath.Join(a.manifests, p.name+".yaml")); err != nil {
			return err
		}
	}
	return nil
}

func (a *agent) remove(names ...string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, os.Remove(filepath.Join(a.manifests, name+".yaml")))
	}
	return errors.Join(errs...)
}

// patience is how long pods may take.
const patience = time.Minute

// awaitRunning returns when pods of these names run.
func (s *scraper) awaitRunning(ctx context.Context, names ...string) error {
	return s.await(ctx, "the pods don't run", func(pods []v1.Pod) bool {
		for _, name := range names {
			if !slices.ContainsFunc(pods, func(p v1.Pod) bool { return p.Name == name+"-"+nodeName && p.Status.Phase == v1.PodRunning }) {
				return false
			}
		}
		return true
	})
}

// awaitNone returns when the agent has no pods.
func (s *scraper) awaitNone(ctx context.Context) error {
	return s.await(ctx, "the pods don't end", func(pods []v1.Pod) bool { return len(pods) == 0 })
}

// await polls the agent's API, which has no watch.
func (s *scraper) await(ctx context.Context, problem string, done func([]v1.Pod) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	poll := time.NewTicker(200 * time.Millisecond)
	defer poll.Stop()
	for {
		data, err := s.get(ctx, readOnly+"/pods")
		var list v1.PodList
		if err == nil {
			err = json.Unmarshal(data, &list)
		}
		if err == nil && done(list.Items) {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %.3000s", problem, errors.Join(err, ctx.Err()), data)
		}
	}
}

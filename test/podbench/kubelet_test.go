package podbench

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/opencontainers/cgroups"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/test/devnode"
)

// kubeletProgram is a kubelet that is measured in turn with the daemons.
var kubeletProgram = flag.String("kubelet", "", "`program` of a kubelet that is measured in turn with the daemons; default: none")

// kubelet is a node with a kubelet, which has no API server.
type kubelet struct {
	node      *devnode.Node
	pipe      *pipe
	manifests manifestDir
	cri       runtimeapi.RuntimeServiceClient
	process   *devnode.Process
}

// kubeletIP is the node's address in the kubelet's own network namespace.
const kubeletIP = "192.0.2.1"

// isolated starts the kubelet in network and mount namespaces of its own: it writes to fixed directories, to sysctls and
// to iptables, and none of that may reach the machine. It ends if it can't set its sysctls, so it finds them set. Pods
// don't see what it mounts; the pods of the benchmark need none of that.
const isolated = `#!/bin/sh
exec unshare --net --mount --propagation private sh -ec '
ip link set lo up
ip address add ` + kubeletIP + `/24 dev lo
mkdir -p /var/log/containers /var/lib/kubelet
mount -t tmpfs tmpfs /var/log/containers
mount -t tmpfs tmpfs /var/lib/kubelet
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

// kubeletConfig has the kubelet's defaults for all that pods depend on. Its thresholds are none that the disk of a busy
// machine may pass.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: %q
podLogsDir: %q
volumePluginDir: %q
containerRuntimeEndpoint: %q
cgroupRoot: %q
cgroupDriver: cgroupfs
enforceNodeAllocatable: [none]
enableServer: false
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
failCgroupV1: false
failSwapOn: false
evictionHard: {memory.available: 100Mi}
imageGCHighThresholdPercent: 100
`

// newKubelet starts a node with a kubelet. It returns nil if none is to be measured.
func newKubelet(b *testing.B, runtime devnode.Runtime) *kubelet {
	b.Helper()
	if *kubeletProgram == "" {
		return nil
	}
	program, err := filepath.Abs(*kubeletProgram)
	if err != nil {
		b.Fatal(err)
	}
	bin, err := binaries()
	if err == nil {
		err = os.WriteFile(filepath.Join(bin, "kubelet"), fmt.Appendf(nil, isolated, program), 0o755)
	}
	if err != nil {
		b.Fatal(err)
	}
	node := startNode(b, runtime)
	k := &kubelet{
		node: node, pipe: newPipe(b, node.Path("pipe")), manifests: newManifestDir(b, node),
		cri: runtimeapi.NewRuntimeServiceClient(dial(b, node.Endpoint())),
	}
	config := fmt.Appendf(nil, kubeletConfig, k.manifests, node.Path("logs", "pods"), node.Path("plugins"), node.Endpoint(), k.makeCgroup(b))
	if err := os.WriteFile(node.Path("kubelet.yaml"), config, 0o600); err != nil {
		b.Fatal(err)
	}
	k.process, err = node.StartDaemon("kubelet", "--config", node.Path("kubelet.yaml"), "--root-dir", node.Path("kubelet"),
		"--cert-dir", node.Path("kubelet", "pki"), "--hostname-override", nodeName, "--node-ip", kubeletIP)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if b.Failed() {
			b.Logf("the kubelet ends with:\n%s", k.process.LogTail())
		}
	})
	return k
}

// makeCgroup makes the cgroup of all pods, in each hierarchy: the kubelet doesn't make its root.
func (k *kubelet) makeCgroup(b *testing.B) string {
	b.Helper()
	path := filepath.Join(k.node.CgroupRoot(), "kubelet")
	pattern := "/sys/fs/cgroup/*"
	if cgroups.IsCgroup2UnifiedMode() {
		pattern = "/sys/fs/cgroup"
	}
	hierarchies, err := filepath.Glob(pattern + "/cgroup.procs")
	if err != nil {
		b.Fatal(err)
	}
	for _, file := range hierarchies {
		if err := os.MkdirAll(filepath.Join(filepath.Dir(file), path), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	return path
}

// run starts the pods, and ends them. It returns the time until all of their processes ran.
func (k *kubelet) run(b *testing.B, pods ...pod) time.Duration {
	b.Helper()
	began := k.manifests.add(b, k.pipe, pods)
	took := k.pipe.await(b, beginnings(pods)...).Sub(began)
	k.manifests.remove(b, pods)
	k.awaitEnd(b)
	return took
}

// awaitEnd returns when no pod is left that runs. The kubelet removes the ended ones when it comes to that.
func (k *kubelet) awaitEnd(b *testing.B) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	running := &runtimeapi.PodSandboxFilter{State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}}
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		list, err := k.cri.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: running})
		if err != nil {
			b.Fatalf("wait for the end of the kubelet's pods: %v", err)
		}
		if len(list.GetItems()) == 0 {
			return
		}
		<-poll.C
	}
}

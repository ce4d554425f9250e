//go:build kubelet

package cridiff

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/test/devnode"
)

// The machine's runtime, of a guest.
var (
	machineRuntime = flag.String("machine.runtime", "", "TestInside uses this machine's runtime, at that endpoint, and all pods are below systemd's slices; "+
		"empty: a containerd of its own, and cgroupfs")
	machineIP = flag.String("machine.ip", "", "the address of the machine, with -machine.runtime")
)

// TestInside runs pods whose processes report what they find, with both agents, one after the other on one containerd.
func TestInside(t *testing.T) {
	pods, err := InsidePods(devnode.SampleImage)
	if err != nil {
		t.Fatal(err)
	}
	site := startNode(t)
	kubelet := playShared(t, site, Kubelet, pods)
	podstream := playShared(t, site, Podstream, pods)
	table := judge(t, pods, kubelet, podstream)
	wantApplied(t, table, insideRules)
	if table.Inside < len(pods) {
		t.Errorf("of %d pods, %d containers have found something", len(pods), table.Inside)
	}
	for agent, trace := range map[string]Trace{"kubelet": kubelet, "podstream": podstream} {
		for uid, steps := range trace {
			for step, fields := range steps {
				if why, ok := fields[noReport]; ok {
					t.Errorf("%s: %s: %s: %s", agent, uid, step, why)
				}
			}
		}
	}
}

// startNode starts a node with its own containerd 2 and network, unless the machine's runtime is to be used.
func startNode(t *testing.T) Site {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "cridiff")
	if err != nil {
		t.Fatal(err)
	}
	// The IDs of a pod's users may enter.
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	config := devnode.Config{
		Dir: filepath.Join(dir, "node"), Runtime: devnode.Containerd2, BinDir: os.Getenv("CRIDIFF_PROGRAMS"), NetworkNamespace: true, Log: os.Stderr,
	}
	if *machineRuntime != "" {
		config.Runtime, config.Endpoint, config.NetworkNamespace = devnode.Endpoint, *machineRuntime, false
	}
	node, err := devnode.Start(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(node.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	if *machineRuntime != "" {
		longestEnd = 15 // All pods of a batch end together, on one processor.
		return Site{Runtime: node.Endpoint(), Network: "/proc/1/ns/net", IP: *machineIP}
	}
	return Site{
		Runtime: node.Endpoint(), Network: fmt.Sprintf("/proc/%d/ns/net", node.Runtime().Pid()), IP: devnode.NodeIPs[0].String(),
	}
}

// playShared is play in a directory whose mounts reach the containers. It removes all pods of the runtime first: the
// kubelet would stop pods that it doesn't know, and the names of its sandboxes are podexecd's too.
func playShared(t *testing.T, site Site, agent Agent, pods []*v1.Pod) Trace {
	t.Helper()
	if err := RemoveSandboxes(t.Context(), site.Runtime); err != nil {
		t.Fatal(err)
	}
	return playAt(t, site, agent, pods, func(dir string) (func() error, error) {
		err := errors.Join(os.Chmod(dir, 0o711), unix.Mount(dir, dir, "", unix.MS_BIND, ""), unix.Mount("", dir, "", unix.MS_SHARED, ""))
		return func() error { return unix.Unmount(dir, unix.MNT_DETACH) }, err
	})
}

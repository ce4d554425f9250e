package e2e

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
	shared "github.com/podstream/podstream/test/rig"
)

// The program kubelet, with a kubelet's command line and configuration, runs static pods. They go on when it is stopped, or
// killed with both daemons, and the next one has the same containers.
func TestKubeletRunsPods(t *testing.T) {
	t.Parallel()
	node := startNode(t, devnode.Containerd2)
	name := fmt.Sprintf("n%d", rigs.Add(1))
	runDir := node.Socket(name)
	manifests, config, rootDir := node.Path(name, "manifests"), node.Path(name, "config.yaml"), node.Path(name, "kubelet")
	check(t, os.MkdirAll(manifests, 0o700))
	check(t, os.MkdirAll(runDir, 0o700))
	check(t, os.WriteFile(filepath.Join(manifests, "web.yaml"), []byte(manifest("web", "main: sleep")), 0o600))
	check(t, os.WriteFile(config, fmt.Appendf(nil, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: %s
podLogsDir: %s
fileCheckFrequency: 0s
failCgroupV1: false
`, manifests, node.Path(name, "log", "pods")), 0o600))
	kubelet, err := node.NewDaemonAs(name+"-kubelet", "kubelet", slices.Concat(devnode.RoomFlags, devnode.HostFlags, []string{
		"--cgroup-root=" + filepath.Join(node.CgroupRoot(), name), "--config=" + config, "--root_dir=" + rootDir, "--hostname-override=" + name,
		"--container-runtime-endpoint=" + node.Endpoint(), "--node-labels=", "--v=2", "--hairpin-mode=hairpin-veth",
	})...)
	check(t, err)

	conn, err := shared.Dial("unix://" + filepath.Join(runDir, "podexecd.sock"))
	check(t, err)
	defer conn.Close()
	cri, err := shared.Dial(node.Endpoint())
	check(t, err)
	defer cri.Close()
	exec, runtime := podexecv1.NewPodExecServiceClient(conn), runtimeapi.NewRuntimeServiceClient(cri)
	// Of the pod with that UID, or of all pods.
	pods := func() (out []*podexecv1.ObservedPod, err error) {
		resp, err := exec.ListPods(t.Context(), &podexecv1.ListPodsRequest{})
		return resp.GetPods(), err
	}
	containers := func(uid string) []*runtimeapi.Container {
		resp, err := runtime.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
			LabelSelector: map[string]string{"io.kubernetes.pod.uid": uid},
		}})
		check(t, err)
		return resp.GetContainers()
	}
	within := func(what string, check func() error) {
		t.Helper()
		if err := shared.Poll(patience, check); err != nil {
			t.Fatalf("not within %v: %s: %v\n%s", patience, what, err, kubelet.LogTail())
		}
	}
	var uid string
	runs := func() error {
		found, err := pods()
		if err != nil {
			return err
		}
		if len(found) != 1 || found[0].GetPhase() != string(v1.PodRunning) || !found[0].GetDesired() {
			return fmt.Errorf("pods %v", found)
		}
		uid = found[0].GetRef().GetUid()
		return nil
	}
	var before []*runtimeapi.Container
	for round, end := range []func() error{kubelet.Stop, kubelet.Kill, kubelet.Stop} {
		began := time.Now()
		check(t, kubelet.StartWith("PODSTREAM_RUN_DIR="+runDir))
		within("the pod runs", runs)
		within("it is healthy", func() error { return healthz(node) })
		now := containers(uid)
		switch {
		case round == 0:
			before = now
		case len(now) != 1:
			t.Fatalf("round %d: containers %v", round, now)
		default:
			if diff := cmp.Diff(before, now, protocmp.Transform()); diff != "" {
				t.Errorf("round %d: the containers differ (-before +now):\n%s", round, diff)
			}
		}
		t.Logf("round %d: the pod runs %v after the start", round, time.Since(began).Round(time.Millisecond))
		if round == 2 {
			check(t, os.Remove(filepath.Join(manifests, "web.yaml")))
			within("the pod is gone", func() error {
				if left := containers(uid); len(left) > 0 {
					return fmt.Errorf("containers %v", left)
				}
				return nil
			})
		}
		check(t, end())
	}
	if _, err := os.Stat(filepath.Join(rootDir, "podconfigd", "podconfigd.db")); err != nil {
		t.Error(err)
	}
}

// healthz asks for the kubelet's health at its default port, in the node's network.
func healthz(node *devnode.Node) error {
	return node.InNetwork(func() error {
		// An HTTP client would connect on another thread.
		conn, err := net.DialTimeout("tcp", "127.0.0.1:10248", time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.0\r\n\r\n"); err != nil {
			return err
		}
		answer, err := io.ReadAll(io.LimitReader(conn, 4096))
		if err != nil || !strings.Contains(string(answer), "200 OK") {
			return fmt.Errorf("healthz answers %q, %w", answer, err)
		}
		return nil
	})
}

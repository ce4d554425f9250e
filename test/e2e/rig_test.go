package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
)

// patience bounds every wait; the machine may be slow and busy.
const patience = 60 * time.Second

// rig is a pair of daemons on a node.
type rig struct {
	t                    *testing.T
	node                 *devnode.Node
	name                 string // the node's name, and the suffix of its static pods
	dir                  string
	manifests            string
	podconfigd, podexecd *devnode.Process

	config podconfigv1.PodConfigServiceClient
	exec   podexecv1.PodExecServiceClient
	cri    runtimeapi.RuntimeServiceClient
}

var rigs atomic.Int32

// newRig starts a pair of daemons with an empty manifest directory.
func newRig(t *testing.T, node *devnode.Node) *rig {
	t.Helper()
	name := fmt.Sprintf("n%d", rigs.Add(1))
	r := &rig{t: t, node: node, name: name, dir: node.Path(name), manifests: node.Path(name, "manifests")}
	if err := os.MkdirAll(r.manifests, 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	r.podconfigd, err = node.StartDaemonAs(name+"-podconfigd", "podconfigd", r.podconfigdArgs()...)
	if err != nil {
		t.Fatal(err)
	}
	r.podexecd, err = node.StartDaemonAs(name+"-podexecd", "podexecd",
		"--root-dir", r.path("podexecd"), "--listen", "unix://"+r.execSocket(), "--hostname-override", name,
		"--podconfig-endpoint", "unix://"+r.configSocket(), "--container-runtime-endpoint", node.Endpoint(),
		"--pod-logs-dir", r.path("log", "pods"))
	if err != nil {
		t.Fatal(err)
	}
	r.config = podconfigv1.NewPodConfigServiceClient(dial(t, "unix://"+r.configSocket()))
	r.exec = podexecv1.NewPodExecServiceClient(dial(t, "unix://"+r.execSocket()))
	r.cri = runtimeapi.NewRuntimeServiceClient(dial(t, node.Endpoint()))
	t.Cleanup(r.close)
	return r
}

func (r *rig) podconfigdArgs() []string {
	return []string{
		"--root-dir", r.path("podconfigd"), "--listen", "unix://" + r.configSocket(), "--hostname-override", r.name,
		"--pod-manifest-path", r.manifests,
	}
}

// close removes all pods and checks that nothing of them stays.
func (r *rig) close() {
	for _, p := range []*devnode.Process{r.podconfigd, r.podexecd} {
		if r.t.Failed() {
			r.t.Logf("%s ends with:\n%s", p.Name, p.LogTail())
		}
	}
	if r.running(r.podconfigd) && r.running(r.podexecd) {
		entries, _ := os.ReadDir(r.manifests)
		for _, e := range entries {
			_ = os.Remove(filepath.Join(r.manifests, e.Name()))
		}
		r.eventually("every pod is gone", func() error { return r.empty() })
	}
	_ = r.podexecd.Kill()
	_ = r.podconfigd.Kill()
}

func (r *rig) running(p *devnode.Process) bool {
	select {
	case <-p.Done():
		return false
	default:
		return true
	}
}

func (r *rig) path(elements ...string) string {
	return filepath.Join(append([]string{r.dir}, elements...)...)
}

func (r *rig) configSocket() string { return r.node.Socket(r.name + "c") }

func (r *rig) execSocket() string { return r.node.Socket(r.name + "x") }

// write puts a manifest into place by renaming.
func (r *rig) write(name, content string) {
	r.t.Helper()
	temp := filepath.Join(r.manifests, "."+name+".tmp")
	if err := os.WriteFile(temp, []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(r.manifests, name)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) remove(name string) {
	r.t.Helper()
	if err := os.Remove(filepath.Join(r.manifests, name)); err != nil {
		r.t.Fatal(err)
	}
}

// eventually polls until check succeeds, and fails the test if it doesn't within patience.
func (r *rig) eventually(what string, check func() error) {
	r.t.Helper()
	r.within(patience, what, check)
}

func (r *rig) within(limit time.Duration, what string, check func() error) {
	r.t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-poll.C:
		case <-deadline.C:
			r.t.Fatalf("not within %v: %s: %v\npodconfigd:\n%s\npodexecd:\n%s", limit, what, err, r.podconfigd.LogTail(), r.podexecd.LogTail())
		}
	}
}

// observed is podexecd's view of the desired pod of that name (without the node's suffix).
func (r *rig) observed(name string) (*podexecv1.ObservedPod, *v1.PodStatus, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	resp, err := r.exec.GetPod(ctx, &podexecv1.GetPodRequest{
		Ref: &podconfigv1.PodRef{Name: name + "-" + r.name}, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF,
	})
	if err != nil {
		return nil, nil, err
	}
	status := &v1.PodStatus{}
	if err := status.Unmarshal(resp.GetPod().GetProtobuf()); err != nil {
		return nil, nil, err
	}
	return resp.GetPod(), status, nil
}

// awaitRunning waits until the pod's phase is Running and all its containers run, and returns its UID.
func (r *rig) awaitRunning(name string) (uid string) {
	r.t.Helper()
	r.eventually("pod "+name+" runs", func() error {
		pod, status, err := r.observed(name)
		if err != nil {
			return err
		}
		if pod.GetPhase() != string(v1.PodRunning) {
			return fmt.Errorf("phase is %s (%s): %s", pod.GetPhase(), waiting(status), pod.GetLastError())
		}
		for _, c := range status.ContainerStatuses {
			if c.State.Running == nil {
				return fmt.Errorf("container %s doesn't run: %s", c.Name, waiting(status))
			}
		}
		uid = pod.GetRef().GetUid()
		return nil
	})
	return uid
}

func waiting(s *v1.PodStatus) string {
	var out []string
	for _, c := range s.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			out = append(out, c.Name+": "+w.Reason+": "+w.Message)
		}
	}
	return strings.Join(out, "; ")
}

// containers are the CRI containers of the pods of this rig with that UID; all of the rig's for an empty UID.
func (r *rig) containers(uid string) []*runtimeapi.Container {
	r.t.Helper()
	filter := &runtimeapi.ContainerFilter{}
	if uid != "" {
		filter.LabelSelector = map[string]string{"io.kubernetes.pod.uid": uid}
	}
	resp, err := r.cri.ListContainers(r.t.Context(), &runtimeapi.ListContainersRequest{Filter: filter})
	if err != nil {
		r.t.Fatal(err)
	}
	var out []*runtimeapi.Container
	for _, c := range resp.GetContainers() {
		if strings.HasSuffix(c.GetLabels()["io.kubernetes.pod.name"], "-"+r.name) {
			out = append(out, c)
		}
	}
	return out
}

// empty is nil if nothing of any pod of this rig is left.
func (r *rig) empty() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	sandboxes, err := r.cri.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	for _, s := range sandboxes.GetItems() {
		if strings.HasSuffix(s.GetMetadata().GetName(), "-"+r.name) {
			return fmt.Errorf("sandbox of %s is there", s.GetMetadata().GetName())
		}
	}
	for _, dir := range []string{r.path("podexecd", "pods"), r.path("log", "pods"), r.path("log", "containers")} {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		if len(entries) > 0 {
			return fmt.Errorf("%s holds %s", dir, entries[0].Name())
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	if strings.Contains(string(mounts), r.dir+"/") {
		return fmt.Errorf("something is mounted beneath %s", r.dir)
	}
	return nil
}

func dial(t *testing.T, endpoint string) *grpc.ClientConn {
	t.Helper()
	// A daemon that starts, or starts again, is waited for.
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond}}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// manifest is a pod of containers, each given as "name: args".
func manifest(name string, containers ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\nspec:\n  terminationGracePeriodSeconds: 2\n  containers:\n", name)
	for _, c := range containers {
		n, args, _ := strings.Cut(c, ": ")
		fmt.Fprintf(&b, "  - name: %s\n    image: %s\n    imagePullPolicy: Never\n    args: [%s]\n", n, devnode.SampleImage, args)
	}
	return b.String()
}

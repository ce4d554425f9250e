package migration

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/adoption"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// liar is a container runtime that answers what it is told to.
type liar struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
	ips        int
	err        error
}

func (l *liar) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	return &runtimeapi.ListPodSandboxResponse{Items: l.sandboxes}, l.err
}

func (l *liar) ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: l.containers}, nil
}

func (l *liar) PodSandboxStatus(context.Context, *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	ips := make([]*runtimeapi.PodIP, l.ips)
	for i := range ips {
		ips[i] = &runtimeapi.PodIP{}
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{
		State: runtimeapi.PodSandboxState_SANDBOX_READY, Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "10.0.0.1", AdditionalIps: ips},
	}}, nil
}

// lie makes the liar the node's runtime.
func (k *kubelet) lie(l *liar) {
	k.t.Helper()
	path := filepath.Join(k.t.TempDir(), "cri.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		k.t.Fatal(err)
	}
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, l)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	k.t.Cleanup(func() { server.Stop(); <-done })
	k.cfg.RuntimeEndpoint = "unix://" + path
}

// TestLyingRuntime: what the runtime answers is bounded in bytes and in number before it is decoded.
func TestLyingRuntime(t *testing.T) {
	p := pod("web", "6a1e3f0c-1")
	mine := &runtimeapi.PodSandbox{Id: "s", State: runtimeapi.PodSandboxState_SANDBOX_READY, Labels: podmeta.Labels(p), Metadata: &runtimeapi.PodSandboxMetadata{}}
	million := func() (out []*runtimeapi.PodSandbox) {
		for range 1 << 20 {
			out = append(out, &runtimeapi.PodSandbox{})
		}
		return out
	}
	for name, test := range map[string]struct {
		liar *liar
		want string
	}{
		"a million sandboxes":  {&liar{sandboxes: million()}, "more than 16384 sandboxes"},
		"a million containers": {&liar{containers: make([]*runtimeapi.Container, 1<<20)}, "more than 16384 sandboxes or containers"},
		"a huge string":        {&liar{sandboxes: []*runtimeapi.PodSandbox{{Id: strings.Repeat("x", 9<<20)}}}, "larger than max"},
		"a million IPs":        {&liar{sandboxes: []*runtimeapi.PodSandbox{mine}, ips: 1 << 20}, "larger than max"},
		"many IPs":             {&liar{sandboxes: []*runtimeapi.PodSandbox{mine}, ips: 64}, "more than 64 IPs"},
		"a long error":         {&liar{err: status.Error(codes.Internal, strings.Repeat("x", 1<<20))}, "the container runtime at "},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKubelet(t)
			k.mkdir("kubelet", "pods", string(p.UID))
			k.mkdir("logs", filepath.Base(podmeta.LogDir("", p.Namespace, p.Name, p.UID)))
			for i, c := range test.liar.containers {
				if c == nil {
					test.liar.containers[i] = &runtimeapi.Container{}
				}
			}
			k.lie(test.liar)
			frugally(t, func() {
				_, err := Examine(t.Context(), k.cfg)
				if err == nil || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 3000 {
					t.Errorf("%.4000v; want %q", err, test.want)
				}
			})
		})
	}
}

// TestManyContainers: the plan of a pod with very many containers takes no long time.
func TestManyContainers(t *testing.T) {
	p := pod("web", "6a1e3f0c-1")
	l := &liar{sandboxes: []*runtimeapi.PodSandbox{{Id: "s", State: runtimeapi.PodSandboxState_SANDBOX_READY, Labels: podmeta.Labels(p)}}}
	for i := range maxListed {
		l.containers = append(l.containers, &runtimeapi.Container{
			Id: fmt.Sprint(i), PodSandboxId: "s", Labels: podmeta.Labels(p), State: runtimeapi.ContainerState_CONTAINER_RUNNING,
			Metadata: &runtimeapi.ContainerMetadata{Name: strings.Repeat("c", 200) + fmt.Sprint(i)},
		})
	}
	for i := range maxContainers - 1 {
		c := p.Spec.Containers[0]
		c.Name = strings.Repeat("c", 200) + fmt.Sprint(i*16)
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	k := newKubelet(t)
	k.mkdir("kubelet", "pods", string(p.UID))
	k.mkdir("logs", filepath.Base(podmeta.LogDir("", p.Namespace, p.Name, p.UID)))
	k.lie(l)
	k.list(p)
	frugally(t, func() {
		if r := k.examine(); len(r.Pods) != 1 || r.Pods[0].Action != adoption.Restart {
			t.Errorf("%d pods", len(r.Pods))
		}
	})
}

// TestNamedPipes: a named pipe in a file's place doesn't keep the reader waiting.
func TestNamedPipes(t *testing.T) {
	fifo := func(k *kubelet, name string) {
		k.t.Helper()
		if err := unix.Mkfifo(filepath.Join(k.dir, name), 0o600); err != nil {
			k.t.Fatal(err)
		}
	}
	k := newKubelet(t)
	k.run(pod("static-node1", hashUID), "file")
	if err := os.Remove(filepath.Join(k.dir, "manifests")); err != nil {
		t.Fatal(err)
	}
	fifo(k, "manifests")
	r := k.examine()
	if notes := strings.Join(r.Notes, "\n"); actions(r)["static-node1"] != adoption.Keep || !strings.Contains(notes, "isn't a regular file: it is a named pipe") {
		t.Errorf("the actions are %v, the notes\n%s", actions(r), notes)
	}

	k = newKubelet(t)
	k.mkdir("kubelet")
	fifo(k, "kubelet/agent-id")
	if _, err := Examine(t.Context(), k.cfg); err == nil || !strings.Contains(err.Error(), "it is a named pipe") {
		t.Errorf("the agent's ID: %v", err)
	}

	k = newKubelet(t)
	fifo(k, "kubeconfig")
	k.cfg.Kubeconfig, k.cfg.KubeconfigGiven = filepath.Join(k.dir, "kubeconfig"), true
	if _, err := Examine(t.Context(), k.cfg); err == nil || !strings.Contains(err.Error(), "it is a named pipe") {
		t.Errorf("the kubeconfig: %v", err)
	}
}

// TestBelowAFile: a path through a file is no single manifest.
func TestBelowAFile(t *testing.T) {
	k := newKubelet(t)
	k.cfg.Manifests = filepath.Join(k.dir, "config.yaml", "manifests")
	if _, err := Examine(t.Context(), k.cfg); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("%v", err)
	}
}

// TestStuckFile: a file that can't be opened doesn't keep the reader beyond its time: the library of the kubeconfig waits for a writer
// of the pipe that the kubeconfig names.
func TestStuckFile(t *testing.T) {
	k := newKubelet(t)
	pipe := filepath.Join(k.dir, "ca.crt")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	k.write("kubeconfig", `{"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1","certificate-authority":"ca.crt"}}],
		"contexts":[{"name":"x","context":{"cluster":"c"}}],"current-context":"x"}`)
	k.cfg.Kubeconfig, k.cfg.KubeconfigGiven, k.cfg.Patience = filepath.Join(k.dir, "kubeconfig"), true, 300*time.Millisecond
	defer func() {
		// The reader that was left behind ends once there is a writer. It opens the path again, which is then no pipe.
		w, err := os.OpenFile(pipe, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		k.write("empty", "")
		if err := os.Rename(filepath.Join(k.dir, "empty"), pipe); err != nil {
			t.Fatal(err)
		}
		w.Close()
	}()
	if _, err := Examine(t.Context(), k.cfg); err == nil || !strings.Contains(err.Error(), "the node's pods: reading hasn't ended within 300ms") {
		t.Errorf("%v", err)
	}
}

package podbench

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/test/devnode"
)

// floor runs pods with the minimum number of CRI calls, which every agent must make.
type floor struct {
	node  *devnode.Node
	pipe  *pipe
	cri   runtimeapi.RuntimeServiceClient
	image *runtimeapi.Image
	// cgroup is the cgroup of all pods, as deep as a pod's own, so that the runtime and the kernel have the
	// same work. The first pod's start creates it: a cgroup for each pod is what an agent adds, and no CRI call
	// creates it.
	cgroup string

	mu sync.Mutex
	// running are the running pods.
	running []ids
}

// ids are the IDs of a pod.
type ids struct{ sandbox, container string }

func newFloor(b *testing.B, runtime devnode.Runtime) *floor {
	b.Helper()
	node := startNode(b, runtime)
	conn := dial(b, node.Endpoint())
	f := &floor{
		node: node, pipe: newPipe(b, node.Path("pipe")), cri: runtimeapi.NewRuntimeServiceClient(conn),
		cgroup: filepath.Join(node.CgroupRoot(), "floor", "kubepods", "besteffort", "pods"),
	}
	resp, err := runtimeapi.NewImageServiceClient(conn).ImageStatus(b.Context(), &runtimeapi.ImageStatusRequest{
		Image: &runtimeapi.ImageSpec{Image: devnode.SampleImage},
	})
	if err != nil {
		b.Fatal(err)
	}
	f.image = resp.GetImage()
	return f
}

func dial(b *testing.B, endpoint string) *grpc.ClientConn {
	b.Helper()
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}

// order has the CRI messages of a pod.
type order struct {
	sandbox   *runtimeapi.PodSandboxConfig
	container *runtimeapi.ContainerConfig
}

// order returns the messages that podexecd would send, and creates the directories and files that they name.
func (f *floor) order(b *testing.B, p pod) order {
	b.Helper()
	object := p.object(b, f.pipe.dir)
	sandbox, err := criconfig.SandboxConfig(criconfig.SandboxInput{
		Pod: object, Agent: "floor", LogsDir: f.node.Path("logs"), Hostname: object.Name, CgroupParent: f.cgroup,
	})
	if err != nil {
		b.Fatal(err)
	}
	o := order{sandbox: sandbox}
	message := f.node.Path("messages", p.name)
	for _, dir := range []string{filepath.Join(o.sandbox.GetLogDirectory(), object.Spec.Containers[0].Name), filepath.Dir(message)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
	}
	if err := os.WriteFile(message, nil, 0o666); err != nil {
		b.Fatal(err)
	}
	mounts := []criconfig.Mount{{HostPath: f.pipe.dir, ContainerPath: pipeDirInPod}}
	for _, v := range p.volumes {
		mounts = append(mounts, criconfig.Mount{HostPath: f.make(b, p, v), ContainerPath: v.mountPath(), ReadOnly: v.readOnly})
	}
	mounts = append(mounts, criconfig.Mount{HostPath: message, ContainerPath: v1.TerminationMessagePathDefault})
	o.container = f.container(b, object, 0, mounts)
	return o
}

// make creates what a container sees of the volume, on the node's disk for each kind of volume: a file if it is
// a key of an object.
func (f *floor) make(b *testing.B, p pod, v volume) string {
	b.Helper()
	path := f.node.Path("volumes", p.name, v.name)
	dir := path
	if v.subPath == key {
		dir = filepath.Dir(path)
	}
	err := os.MkdirAll(dir, 0o755)
	if err == nil && dir != path {
		err = os.WriteFile(path, nil, 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
	return path
}

func (f *floor) container(b *testing.B, object *v1.Pod, attempt uint32, mounts []criconfig.Mount) *runtimeapi.ContainerConfig {
	b.Helper()
	config, err := criconfig.ContainerConfig(criconfig.ContainerInput{
		Pod: object, Container: &object.Spec.Containers[0], Attempt: attempt, ImageRef: f.image.GetId(), ImageUser: criconfig.ImageUserOf(f.image),
		Mounts: mounts, Agent: "floor", Node: criconfig.Node{MemoryCapacity: 8 << 30},
	})
	if err != nil {
		b.Fatal(err)
	}
	return config
}

// run starts the pods, this many at a time, and removes them. It returns the time until all of their processes
// ran.
func (f *floor) run(b *testing.B, parallel int, pods ...pod) time.Duration {
	b.Helper()
	began := f.start(b, parallel, pods...)
	took := f.pipe.await(b, beginnings(pods)...).Sub(began)
	f.removeAll(b)
	return took
}

// start starts the pods, this many at a time, and returns the start time.
func (f *floor) start(b *testing.B, parallel int, pods ...pod) time.Time {
	b.Helper()
	orders := make([]order, len(pods))
	for i, p := range pods {
		orders[i] = f.order(b, p)
	}
	began := time.Now()
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(parallel)
	for _, o := range orders {
		group.Go(func() error {
			sandbox, err := f.cri.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: o.sandbox})
			if err != nil {
				return err
			}
			container, err := f.startContainer(ctx, sandbox.GetPodSandboxId(), o)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.running = append(f.running, ids{sandbox.GetPodSandboxId(), container})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	return began
}

// startContainer creates and starts the container in its sandbox, and returns its ID.
func (f *floor) startContainer(ctx context.Context, sandbox string, o order) (string, error) {
	made, err := f.cri.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox, Config: o.container, SandboxConfig: o.sandbox})
	if err != nil {
		return "", err
	}
	_, err = f.cri.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: made.GetContainerId()})
	return made.GetContainerId(), err
}

// removeAll ends and removes all pods.
func (f *floor) removeAll(b *testing.B) {
	b.Helper()
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(4)
	for _, r := range f.running {
		group.Go(func() error {
			_, err := f.cri.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: r.sandbox})
			if err == nil {
				_, err = f.cri.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: r.sandbox})
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	f.running = nil
}

package devnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// everyContainerd has a name for each containerd that the tests run on.
var everyContainerd = map[string]Runtime{"containerd-1.7": Containerd17, "containerd-2": Containerd2}

// onEachContainerd runs a test on each containerd in .tools.
func onEachContainerd(t *testing.T, test func(t *testing.T, node *Node, cri internalapi.RuntimeService)) {
	for name, runtime := range everyContainerd {
		t.Run(name, func(t *testing.T) {
			node := startNode(t, Config{Dir: t.TempDir(), Runtime: runtime})
			cri, err := connect(t.Context(), node.Endpoint())
			if err != nil {
				t.Fatal(err)
			}
			defer cri.Close(context.Background())
			test(t, node, cri)
		})
	}
}

// TestContainerEvents reads the events of a pod.
func TestContainerEvents(t *testing.T) {
	onEachContainerd(t, func(t *testing.T, node *Node, cri internalapi.RuntimeService) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		version, err := cri.Version(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		prefix := map[Runtime]string{Containerd17: "1.7.", Containerd2: "2."}[node.config.Runtime]
		if !strings.HasPrefix(version.GetRuntimeVersion(), prefix) {
			t.Errorf("version %s; want %s", version.GetRuntimeVersion(), prefix)
		}
		events, ended := make(chan *runtimeapi.ContainerEventResponse, 100), make(chan error, 1)
		go func() { ended <- cri.GetContainerEvents(ctx, events, nil) }()
		pod, err := runPod(ctx, cri, node.Path("pods"), "told")
		if err != nil {
			t.Fatal(err)
		}
		if err := node.KillTask(pod.container); err != nil {
			t.Fatal(err)
		}
		for _, want := range []struct {
			id   string
			kind runtimeapi.ContainerEventType
		}{
			{pod.sandbox, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT},
			{pod.sandbox, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT},
			{pod.container, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT},
			{pod.container, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT},
			{pod.container, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT},
		} {
			select {
			case event := <-events:
				uid := event.GetPodSandboxStatus().GetMetadata().GetUid()
				if event.GetContainerId() != want.id || event.GetContainerEventType() != want.kind || uid != "told" {
					t.Errorf("event %s of %.6s in pod %q, want %s of %.6s", event.GetContainerEventType(), event.GetContainerId(), uid, want.kind, want.id)
				}
			case err := <-ended:
				t.Fatalf("the events have ended: %v", err)
			}
		}
		cancel()
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Errorf("events: %v", err)
		}
	})
}

// TestKillPod kills the processes below containerd one after the other. CRI reports each end. After Close, nothing is
// left.
func TestKillPod(t *testing.T) {
	onEachContainerd(t, func(t *testing.T, node *Node, cri internalapi.RuntimeService) {
		const ready, notReady = runtimeapi.PodSandboxState_SANDBOX_READY, runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		const running, exited = runtimeapi.ContainerState_CONTAINER_RUNNING, runtimeapi.ContainerState_CONTAINER_EXITED
		await := func(p pod, sandbox runtimeapi.PodSandboxState, container runtimeapi.ContainerState) {
			t.Helper()
			if err := p.await(t.Context(), node, cri, sandbox, container); err != nil {
				t.Fatal(err)
			}
		}
		var pods []pod
		var sockets []string
		for _, name := range []string{"task", "pause", "shim", "orphan", "left"} {
			p, err := runPod(t.Context(), cri, node.Path("pods", name), name)
			if err != nil {
				t.Fatal(err)
			}
			socket, err := node.shimSocket(p.sandbox)
			if _, statErr := os.Stat(socket); err != nil || statErr != nil {
				t.Fatalf("socket of a shim: %q, %v, %v", socket, err, statErr)
			}
			pods, sockets = append(pods, p), append(sockets, socket)
		}
		shims, err := node.Shims()
		if err != nil || len(shims) != len(pods) {
			t.Fatalf("shims %v, %v", shims, err)
		}
		task, pause, shim, orphan, left := pods[0], pods[1], pods[2], pods[3], pods[4]

		if err := node.KillTask(task.container); err != nil {
			t.Fatal(err)
		}
		await(task, ready, exited)
		if err := node.KillTask(task.container); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("KillTask of an ended process: %v; want os.ErrProcessDone", err)
		}
		if err := node.KillTask(pause.sandbox); err != nil {
			t.Fatal(err)
		}
		await(pause, notReady, running)
		if err := node.KillShim(shim.sandbox); err != nil {
			t.Fatal(err)
		}
		await(shim, notReady, exited)
		if err := node.KillShim(shim.sandbox); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("KillShim of an ended process: %v; want os.ErrProcessDone", err)
		}

		// Without containerd, the pod's processes run on. When containerd starts again, it detects that their shim has
		// ended.
		if err := node.Runtime().Kill(); err != nil {
			t.Fatal(err)
		}
		if err := node.KillShim(orphan.sandbox); err != nil {
			t.Fatal(err)
		}
		if _, err := node.taskPID(orphan.container); err != nil {
			t.Errorf("the container without a shim: %v", err)
		}
		if err := node.Runtime().Start(); err != nil {
			t.Fatal(err)
		}
		if err := node.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		await(orphan, notReady, exited)
		await(left, ready, running)

		// Close removes the rest.
		if err := node.Runtime().Kill(); err != nil {
			t.Fatal(err)
		}
		if err := node.KillShim(left.sandbox); err != nil {
			t.Fatal(err)
		}
		if err := node.Close(); err != nil {
			t.Fatal(err)
		}
		for _, trace := range traces(t, node.Dir(), pods...) {
			t.Errorf("left: %s", trace)
		}
		for _, socket := range sockets {
			if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("left: %s, %v", socket, err)
			}
		}
	})
}

// await waits until CRI shows the pod in the given states.
func (p pod) await(ctx context.Context, node *Node, cri internalapi.RuntimeService,
	wantSandbox runtimeapi.PodSandboxState, wantContainer runtimeapi.ContainerState,
) error {
	return until(ctx, node.Runtime(), "the pod to change", func(ctx context.Context) error {
		sandbox, err := cri.PodSandboxStatus(ctx, p.sandbox, false)
		if err != nil {
			return err
		}
		container, err := cri.ContainerStatus(ctx, p.container, false)
		if err != nil {
			return err
		}
		if have := sandbox.GetStatus().GetState(); have != wantSandbox {
			return fmt.Errorf("it is %s, not %s", have, wantSandbox)
		}
		if have := container.GetStatus().GetState(); have != wantContainer {
			return fmt.Errorf("its container is %s, not %s", have, wantContainer)
		}
		return nil
	})
}

package migration

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/adoption"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// The bounds of what the runtime answers.
const (
	// maxMessage is that of the kubelet's and podexecd's clients, in bytes.
	maxMessage = 16 << 20
	// maxHeaders bounds the headers of an answer, which have the text of an error, in bytes.
	maxHeaders = 1 << 20
	// maxListed is the maximum number of sandboxes, and of containers: more than any node has.
	maxListed = 1 << 16
)

// running is what the runtime has.
type running struct {
	pods    []*observed.Pod
	ignored []adoption.Pod
}

// readRuntime reads the pods that podexecd would take, in the detail that adoption.Plan needs.
func readRuntime(ctx context.Context, endpoint string, rule adoption.Rule) (running, error) {
	if !strings.HasPrefix(endpoint, "unix:///") {
		return running{}, fmt.Errorf("the container runtime's endpoint %q: want unix:///PATH", endpoint)
	}
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithMaxHeaderListSize(maxHeaders), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return running{}, fmt.Errorf("the container runtime at %s: %w", endpoint, err)
	}
	defer conn.Close()
	out, err := read(ctx, runtimeapi.NewRuntimeServiceClient(conn), rule)
	if err != nil {
		return running{}, fmt.Errorf("the container runtime at %s: %w", endpoint, err)
	}
	return out, nil
}

func read(ctx context.Context, client runtimeapi.RuntimeServiceClient, rule adoption.Rule) (running, error) {
	sandboxes, err := client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return running{}, fmt.Errorf("list sandboxes: %w", err)
	}
	containers, err := client.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return running{}, fmt.Errorf("list containers: %w", err)
	}
	if s, c := len(sandboxes.GetItems()), len(containers.GetContainers()); s > maxListed || c > maxListed {
		return running{}, fmt.Errorf("it lists %d sandboxes and %d containers; at most %d of each can be examined", s, c, maxListed)
	}
	var out running
	out.pods, out.ignored = rule.Split(sandboxes.GetItems(), containers.GetContainers())
	for _, p := range out.pods {
		if err := complete(ctx, client, p); err != nil {
			return running{}, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	return out, nil
}

// complete reads the network of the pod's ready sandboxes, and the exit codes of the latest containers.
func complete(ctx context.Context, client runtimeapi.RuntimeServiceClient, p *observed.Pod) error {
	for i := range p.Sandboxes {
		s := &p.Sandboxes[i]
		if !s.Ready {
			continue
		}
		resp, err := client.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: s.ID})
		switch {
		case status.Code(err) == codes.NotFound:
			s.Ready = false
		case err != nil:
			return fmt.Errorf("read the status of sandbox %s: %w", s.ID, err)
		default:
			s.SetStatus(resp.GetStatus())
		}
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.State != observed.Exited || p.Latest(c.Name) != c {
			continue
		}
		resp, err := client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.ID})
		switch {
		case status.Code(err) == codes.NotFound:
			// It was removed after it was listed; the kubelet does so with the older ones only, and not with the latest.
		case err != nil:
			return fmt.Errorf("read the status of container %s: %w", c.ID, err)
		default:
			c.ExitCode = resp.GetStatus().GetExitCode()
		}
	}
	return nil
}

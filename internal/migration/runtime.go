package migration

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/execsvc/decide/adoption"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// The bounds of what the runtime answers.
const (
	// maxLists is the maximum size of a list, in bytes: half of what the kubelet's and podexecd's clients accept. An entry takes 1 or
	// 2 KiB with the usual annotations.
	maxLists = 8 << 20
	// maxListed is the maximum number of sandboxes, and of containers: more than any node has.
	maxListed = 1 << 14
	// maxStatus is the maximum size of a status, in bytes. Its annotations are the pod's, at most 256 KiB.
	maxStatus = 1 << 20
	// maxIPs is the maximum number of a sandbox's IPs.
	maxIPs = 64
	// maxHeaders bounds the headers of an answer, which have the text of an error, in bytes.
	maxHeaders = 64 << 10
)

// running is what the runtime has.
type running struct {
	pods    []*observed.Pod
	ignored []adoption.Pod
}

// readRuntime reads the pods that podexecd would take, in the detail that adoption.Plan needs.
func readRuntime(ctx context.Context, cfg settled) (running, error) {
	agent, err := daemon.KnownID(cfg.RootDir, "agent-id")
	if err != nil {
		return running{}, err
	}
	rule := adoption.Rule{Agent: agent, Directories: adoption.Directories{
		Pods: []string{kubeletdir.PodsDir(cfg.RootDir)}, Logs: cfg.LogsDir, IsDirectory: func(path string) bool { return ctx.Err() == nil && isDirectory(path) },
	}}
	endpoint := cfg.RuntimeEndpoint
	if !strings.HasPrefix(endpoint, "unix:///") {
		return running{}, fmt.Errorf("the container runtime's endpoint %q: want unix:///PATH", endpoint)
	}
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithMaxHeaderListSize(maxHeaders), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxStatus)))
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
	list := []grpc.CallOption{grpc.MaxCallRecvMsgSize(maxLists), grpc.ForceCodecV2(counted{encoding.GetCodecV2(proto.Name)})}
	sandboxes, err := client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{}, list...)
	if err != nil {
		return running{}, fmt.Errorf("list sandboxes: %w", err)
	}
	containers, err := client.ListContainers(ctx, &runtimeapi.ListContainersRequest{}, list...)
	if err != nil {
		return running{}, fmt.Errorf("list containers: %w", err)
	}
	var out running
	out.pods, out.ignored = rule.Split(sandboxes.GetItems(), containers.GetContainers())
	if ctx.Err() != nil {
		return running{}, context.Cause(ctx)
	}
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
		case len(resp.GetStatus().GetNetwork().GetAdditionalIps()) >= maxIPs:
			return fmt.Errorf("sandbox %s has more than %d IPs", s.ID, maxIPs)
		default:
			s.SetStatus(resp.GetStatus())
		}
	}
	later := map[string]bool{}
	for i := range p.Containers {
		c := &p.Containers[i]
		latest := !later[c.Name]
		if later[c.Name] = true; c.State != observed.Exited || !latest {
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

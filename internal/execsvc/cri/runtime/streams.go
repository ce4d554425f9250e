package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// ErrNoSandbox is what PortForwardURL returns if the pod has no running sandbox.
var ErrNoSandbox = errors.New("the pod has no sandbox that runs")

// pingPeriod is the period of pings to the runtime's streaming server, so that the server's idle time doesn't end a
// terminal that waits for keys. kubectl has 5 s. A server closes its connection right after the result. If the kernel still
// holds output then, because the caller reads slowly, a ping that follows makes it drop that output. So pings are rare.
const pingPeriod = 10 * time.Minute

// StreamInput has the streams of a container to connect. The runtime rejects Stderr together with TTY.
type StreamInput struct {
	ContainerID string
	// Command is the command of an exec; empty for an attach.
	Command                    []string
	Stdin, Stdout, Stderr, TTY bool
}

// ExecURL returns the URL at which the runtime serves the streams of a command. The command starts when a client
// connects. Like every URL of the runtime it is valid for one connection, for a minute or so. It must be on this
// machine's loopback interface, because the runtime must not be able to direct connections elsewhere.
func (r *Runtime) ExecURL(ctx context.Context, in StreamInput) (*url.URL, error) {
	resp, err := r.cfg.Runtime.Exec(ctx, &runtimeapi.ExecRequest{
		ContainerId: in.ContainerID, Cmd: in.Command, Stdin: in.Stdin, Stdout: in.Stdout, Stderr: in.Stderr, Tty: in.TTY,
	})
	if err != nil {
		return nil, fmt.Errorf("ask the container runtime for a stream: %w", err)
	}
	return streamURL(resp.GetUrl())
}

// AttachURL returns the URL of the streams of a container's first process.
func (r *Runtime) AttachURL(ctx context.Context, in StreamInput) (*url.URL, error) {
	resp, err := r.cfg.Runtime.Attach(ctx, &runtimeapi.AttachRequest{
		ContainerId: in.ContainerID, Stdin: in.Stdin, Stdout: in.Stdout, Stderr: in.Stderr, Tty: in.TTY,
	})
	if err != nil {
		return nil, fmt.Errorf("ask the container runtime for a stream: %w", err)
	}
	return streamURL(resp.GetUrl())
}

// PortForwardURL returns the URL of connections to ports in a pod's network. A client that connects names the ports;
// the ports given here are for WebSockets, which can't name them.
func (r *Runtime) PortForwardURL(ctx context.Context, uid types.UID, ports []int32) (*url.URL, error) {
	sandboxes, err := r.cfg.Runtime.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{podmeta.PodUIDLabel: string(uid)},
		State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	})
	if err != nil {
		return nil, fmt.Errorf("list the pod's sandboxes: %w", err)
	}
	sandboxes = slices.DeleteFunc(sandboxes, func(s *runtimeapi.PodSandbox) bool { return !r.mine(s.GetLabels(), s.GetAnnotations()) })
	if len(sandboxes) == 0 {
		return nil, ErrNoSandbox
	}
	newest := slices.MaxFunc(sandboxes, func(a, b *runtimeapi.PodSandbox) int {
		return cmp.Compare(a.GetMetadata().GetAttempt(), b.GetMetadata().GetAttempt())
	})
	resp, err := r.cfg.Runtime.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: newest.GetId(), Port: ports})
	if err != nil {
		return nil, fmt.Errorf("ask the container runtime for a stream: %w", err)
	}
	return streamURL(resp.GetUrl())
}

// streamURL parses a URL of the runtime, which must be on this machine.
func streamURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the container runtime's stream: %w", err)
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() != "localhost" && !ip.IsLoopback() {
		return nil, fmt.Errorf("the container runtime's stream is at %s://%s, which isn't a web address on this machine's loopback", u.Scheme, u.Host)
	}
	return u, nil
}

// Attach connects in's streams to those of the container's first process, until that process or ctx ends. It runs no
// Command.
func (r *Runtime) Attach(ctx context.Context, in ExecInput) error {
	u, err := r.AttachURL(ctx, in.streams())
	if err != nil {
		return err
	}
	if err := r.converse(ctx, u, in); err != nil {
		return fmt.Errorf("attach to the container: %w", err)
	}
	return nil
}

// converse connects in's streams to those at a URL of the runtime, until they end or ctx does.
func (r *Runtime) converse(ctx context.Context, u *url.URL, in ExecInput) error {
	// The goroutines that wait for sizes, or for a runtime that doesn't read, must end with the streams.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	transport, err := r.streamTransport(ctx)
	if err != nil {
		return err
	}
	executor, err := remotecommand.NewSPDYExecutorRejectRedirects(transport, spdy.NewUpgraderForStreaming(transport), http.MethodPost, u)
	if err != nil {
		return err
	}
	options := remotecommand.StreamOptions{Stdin: in.Stdin, Stdout: in.Stdout, Tty: in.TTY}
	if !in.TTY {
		options.Stderr = in.Stderr
	} else if in.Resize != nil {
		options.TerminalSizeQueue = sizes{ctx, in.Resize}
	}
	if err := executor.StreamWithContext(ctx, options); err != nil {
		return err
	}
	if !transport.result.Load() {
		return errNoResult
	}
	return nil
}

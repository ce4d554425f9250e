package runtime

import (
	"cmp"
	"context"
	"crypto/tls"
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
	streamspdy "k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

// ErrNoSandbox is what PortForwardURL returns if the pod has no sandbox that runs.
var ErrNoSandbox = errors.New("the pod has no sandbox that runs")

// pingPeriod is how often the runtime's streaming server is asked whether it is there, as kubectl does it.
const pingPeriod = 5 * time.Second

// goodbye is how long the end of a connection with it may take.
const goodbye = time.Second

// StreamInput says which streams of a container are wanted. The runtime refuses Stderr together with TTY.
type StreamInput struct {
	ContainerID string
	// Command is what an exec runs; an attach has none.
	Command                    []string
	Stdin, Stdout, Stderr, TTY bool
}

// ExecURL is where the runtime serves the streams of a command that it begins when somebody connects. Like every URL of the runtime it
// is good for one connection, for a minute or so, and on this machine's loopback: nothing else may be reached by the runtime's word.
func (r *Runtime) ExecURL(ctx context.Context, in StreamInput) (*url.URL, error) {
	resp, err := r.cfg.Runtime.Exec(ctx, &runtimeapi.ExecRequest{
		ContainerId: in.ContainerID, Cmd: in.Command, Stdin: in.Stdin, Stdout: in.Stdout, Stderr: in.Stderr, Tty: in.TTY,
	})
	if err != nil {
		return nil, fmt.Errorf("ask the container runtime for a stream: %w", err)
	}
	return streamURL(resp.GetUrl())
}

// AttachURL is where the runtime serves the streams of a container's first process.
func (r *Runtime) AttachURL(ctx context.Context, in StreamInput) (*url.URL, error) {
	resp, err := r.cfg.Runtime.Attach(ctx, &runtimeapi.AttachRequest{
		ContainerId: in.ContainerID, Stdin: in.Stdin, Stdout: in.Stdout, Stderr: in.Stderr, Tty: in.TTY,
	})
	if err != nil {
		return nil, fmt.Errorf("ask the container runtime for a stream: %w", err)
	}
	return streamURL(resp.GetUrl())
}

// PortForwardURL is where the runtime serves connections to ports in a pod's network. Whoever connects names the ports; those given here
// are for WebSockets, which can't.
func (r *Runtime) PortForwardURL(ctx context.Context, uid types.UID, ports []int32) (*url.URL, error) {
	sandboxes, err := r.cfg.Runtime.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{criconfig.PodUIDLabel: string(uid)},
		State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	})
	if err != nil {
		return nil, fmt.Errorf("list the pod's sandboxes: %w", err)
	}
	sandboxes = slices.DeleteFunc(sandboxes, func(s *runtimeapi.PodSandbox) bool { return !r.mine(s.GetAnnotations()) })
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

// streamURL is a URL of the runtime, if it is on this machine.
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

// Attach connects in's streams with those of the container's first process, which runs no Command, until that ends or ctx does.
func (r *Runtime) Attach(ctx context.Context, in ExecInput) error {
	u, err := r.AttachURL(ctx, in.streams())
	if err != nil {
		return err
	}
	if err := converse(ctx, u, in); err != nil {
		return fmt.Errorf("attach to the container: %w", err)
	}
	return nil
}

// converse connects in's streams with those at a URL of the runtime, until they end or ctx does.
func converse(ctx context.Context, u *url.URL, in ExecInput) error {
	// What waits for sizes, and for a runtime that doesn't read, has to end with the streams.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	transport, err := streamspdy.NewRoundTripperWithConfig(streamspdy.RoundTripperConfig{PingPeriod: pingPeriod, UpgradeTransport: &http.Transport{
		DialContext: func(dialing context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(dialing, network, address)
			if err == nil {
				// The executor says goodbye before it closes a connection, which behind a write that is stuck would take for ever.
				context.AfterFunc(ctx, func() { time.AfterFunc(goodbye, func() { _ = conn.Close() }) })
			}
			return conn, err
		},
		// It is on this machine and speaks to whoever comes, so a certificate would prove nothing.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // See above.
	}})
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
	return executor.StreamWithContext(ctx, options)
}

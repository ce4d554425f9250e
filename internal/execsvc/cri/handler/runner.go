package handler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// Execer runs commands in containers; the CRI's runtime service is one.
type Execer interface {
	// ExecSync returns the command's output once it has ended. An exit code other than 0 is a
	// k8s.io/utils/exec.ExitError. A command that took longer than the timeout (zero: none) is a cri-client
	// ErrCommandTimedOut, and so is a runtime that doesn't answer before ctx ends.
	ExecSync(ctx context.Context, containerID string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error)
}

// Config configures a Runner.
type Config struct {
	// Runtime runs commands in containers.
	Runtime Execer
	// RequestTimeout is how long Runtime waits for an answer, beyond a command's own timeout. Zero: longer than any
	// bound in this package.
	RequestTimeout time.Duration
	// Answers makes a cheap request to the container runtime, and returns nil if it answered. Nil: a command without an
	// answer never counts as the container's failure.
	Answers func(ctx context.Context) error
	// Version is the version in User-Agents: kube-probe/VERSION. Major and minor, as in the kubelet: "1.37". Empty
	// means "unknown".
	Version string
	// Events gets a warning when an HTTPS hook was retried over HTTP. Nil: there is none.
	Events *events.Recorder
	// Metrics registers the metrics of hooks. Nil: they aren't served.
	Metrics prometheus.Registerer
}

// Runner runs probes and hooks. It is safe for concurrent use.
type Runner struct {
	cfg       Config
	transport *http.Transport
	// fallbacks counts HTTPS hooks that succeeded over HTTP, and early sleep hooks that were ended before their time.
	fallbacks, early prometheus.Counter
}

// New returns a Runner.
func New(cfg Config) *Runner {
	if cfg.Version == "" {
		cfg.Version = "unknown"
	}
	return &Runner{
		cfg: cfg, transport: newTransport(),
		fallbacks: kubeletmetrics.LifecycleHTTPFallbacks.New(cfg.Metrics), early: kubeletmetrics.SleepTerminatedEarly.New(cfg.Metrics),
	}
}

// Outcome is the result of a probe.
type Outcome int

// The outcomes.
const (
	Failure Outcome = iota
	Success
	// Warning is a success with a problem for the pod's author: a redirect to another host, which isn't followed.
	Warning
)

// Probe runs the probe once, within its timeout. The output is the reason of a failure, or the answer; it may be the
// container's own text. An error means that the probe couldn't run, which says nothing about the container.
func (r *Runner) Probe(ctx context.Context, t Target, p *v1.Probe) (Outcome, string, error) {
	timeout := time.Duration(max(p.TimeoutSeconds, 1)) * time.Second
	outcome, output, err := r.ask(ctx, t, &p.ProbeHandler, timeout)
	// An event's message must be UTF-8.
	return outcome, strings.ToValidUTF8(output, "\uFFFD"), err
}

func (r *Runner) ask(ctx context.Context, t Target, h *v1.ProbeHandler, timeout time.Duration) (Outcome, string, error) {
	switch {
	case h.Exec != nil:
		return r.probeExec(ctx, t, h.Exec, timeout)
	case h.HTTPGet != nil:
		return r.probeHTTP(ctx, t, h.HTTPGet, timeout)
	case h.TCPSocket != nil:
		return probeTCP(ctx, t, h.TCPSocket, timeout)
	case h.GRPC != nil:
		return r.probeGRPC(ctx, t, h.GRPC, timeout)
	default:
		return Failure, "", errors.New("the probe has no action")
	}
}

// The bounds of an answer, in bytes: of its body as far as it is read, and of its headers, for which browsers allow
// less. Otherwise an endless answer would cost the node megabytes for each probe.
const (
	maxOutput  = 10 << 10
	maxHeaders = 256 << 10
)

// address returns the destination of a handler's requests. Host is the handler's, empty for the pod.
func address(t Target, host string, port intstr.IntOrString) (string, error) {
	number, err := portNumber(t, port)
	if err != nil {
		return "", err
	}
	if host == "" {
		host = t.PodIP
	}
	if host == "" {
		return "", errors.New("the pod's address isn't known")
	}
	return net.JoinHostPort(host, strconv.Itoa(number)), nil
}

// portNumber resolves a port that is a number, a container port's name, or a number written as a string.
func portNumber(t Target, port intstr.IntOrString) (int, error) {
	number := port.IntValue() // 0 if it isn't a number
	if port.Type == intstr.String {
		for _, p := range t.Ports {
			if p.Name == port.StrVal {
				number = int(p.ContainerPort)
				break
			}
		}
	}
	if number < 1 || number > 65535 {
		return 0, fmt.Errorf("container %s has no port %s", t.Container, port.String())
	}
	return number, nil
}

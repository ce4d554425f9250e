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

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podstream/podstream/internal/execsvc/events"
)

// Execer runs commands in containers; the CRI's runtime service is one.
type Execer interface {
	// ExecSync returns what the command printed once it has ended. An exit code other than 0 is a k8s.io/utils/exec.ExitError, a command
	// that took longer than the timeout (zero: none) a cri-client ErrCommandTimedOut.
	ExecSync(ctx context.Context, containerID string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error)
}

// Config says by what means a Runner acts.
type Config struct {
	// Runtime runs commands in containers.
	Runtime Execer
	// Version is told in User-Agents: kube-probe/VERSION. Major and minor, as the kubelet has it: "1.37". Empty means "unknown".
	Version string
	// Events gets a warning when an HTTPS hook had to be done over HTTP. Nil: nobody is told.
	Events *events.Recorder
}

// Runner carries out probes and hooks. It is safe for concurrent use.
type Runner struct {
	cfg       Config
	transport *http.Transport
}

// New returns a Runner.
func New(cfg Config) *Runner {
	if cfg.Version == "" {
		cfg.Version = "unknown"
	}
	return &Runner{cfg: cfg, transport: newTransport()}
}

// Outcome is what a probe says.
type Outcome int

// The outcomes.
const (
	Failure Outcome = iota
	Success
	// Warning is a success that the pod's author should look at: a redirect to another host, which isn't followed.
	Warning
)

// Probe asks once, for as long as the probe's timeout allows. The output says why it failed, or what was answered; it may be the
// container's own words. An error means that the container couldn't be asked, which says nothing about it.
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
		return Failure, "", errors.New("the probe doesn't say what to do")
	}
}

// The bounds of an answer, in bytes: how much is read of what it says, and how large its headers may be, which is more than browsers take. A
// container that answers without end would else cost the node megabytes for each of its probes.
const (
	maxOutput  = 10 << 10
	maxHeaders = 256 << 10
)

// address is where a handler's requests go. Host is what the handler names, empty for the pod.
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
	number := port.IntValue() // 0 if it is no number
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

package runtime

import (
	"context"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// World gives a pod's sandbox and containers what doesn't stand in the pod itself.
type World interface {
	// Sandbox is asked before a sandbox is made, and again with each container.
	Sandbox(pod *v1.Pod) (Sandbox, error)
	// Handler is what the runtime calls the pod's RuntimeClass; empty for its default. It is asked before a sandbox is made, and only then.
	Handler(pod *v1.Pod) (string, error)
	// Container is asked before a container is made, with the pod's addresses, the primary one first.
	Container(ctx context.Context, pod *v1.Pod, c *v1.Container, ips []string) (Given, error)
}

// Sandbox is what a World gives a sandbox.
type Sandbox struct {
	// Hostname and Domain are those of criconfig.HostnameOf.
	Hostname, Domain string
	// DNS is nil for what the runtime copies from the node, CgroupParent empty for its choice.
	DNS           *runtimeapi.DNSConfig
	CgroupParent  string
	UserNamespace *criconfig.UserNamespace
	// Warnings are for the pod's author, about what was left out.
	Warnings []Warning
}

// Warning is an event.
type Warning struct{ Reason, Message string }

// Given is what a World gives a container.
type Given struct {
	Env    []criconfig.EnvVar
	Mounts []criconfig.Mount
}

// sandboxConfig is what the runtime is told of the pod's sandbox.
func (s *round) sandboxConfig() (config *runtimeapi.PodSandboxConfig, given Sandbox, err error) {
	if given, err = s.World.Sandbox(s.Pod); err != nil {
		return nil, Sandbox{}, err
	}
	config, err = criconfig.SandboxConfig(criconfig.SandboxInput{
		Pod: s.Pod, Attempt: s.do.SandboxAttempt, Agent: s.cfg.Agent, LogsDir: s.cfg.LogsDir, Hostname: given.Hostname, Domain: given.Domain,
		DNS: given.DNS, CgroupParent: given.CgroupParent, UserNamespace: given.UserNamespace, Node: s.cfg.Node,
	})
	return config, given, err
}

// ips are the pod's addresses. Those of a new sandbox are asked for.
func (s *round) ips(ctx context.Context) ([]string, error) {
	if s.Pod.Spec.HostNetwork {
		return s.cfg.HostIPs(), nil
	}
	for i := range s.Has.Sandboxes {
		if box := &s.Has.Sandboxes[i]; box.ID == s.do.SandboxID && len(box.IPs) > 0 {
			return box.IPs, nil
		}
	}
	if s.addresses == nil {
		// The reading that follows this round needs them too, and finds them remembered.
		box := observed.Sandbox{ID: s.do.SandboxID}
		if err := s.askSandbox(ctx, &box, false); err != nil {
			return nil, err
		}
		s.addresses = box.IPs
	}
	return s.addresses, nil
}

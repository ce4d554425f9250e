package runtime

import (
	"context"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// PodSetup returns the options of a pod's sandbox and containers that the pod spec does not contain; podsetup.Manager
// implements it.
type PodSetup interface {
	// SandboxOptions is called before a sandbox is created, and again for each container.
	SandboxOptions(pod *v1.Pod) (SandboxOptions, error)
	// RuntimeHandler returns the handler of the pod's RuntimeClass; empty selects the runtime's default. It is called
	// only before a sandbox is created.
	RuntimeHandler(pod *v1.Pod) (string, error)
	// ContainerOptions is called before a container is created, with the pod's IPs, the primary one first.
	ContainerOptions(ctx context.Context, pod *v1.Pod, c *v1.Container, ips []string) (ContainerOptions, error)
}

// SandboxOptions are the options of a sandbox.
type SandboxOptions struct {
	// Hostname and Domain come from criconfig.HostnameOf.
	Hostname, Domain string
	// DNS is nil if the runtime copies the node's resolv.conf. An empty CgroupParent leaves the choice to the runtime.
	DNS           *runtimeapi.DNSConfig
	CgroupParent  string
	UserNamespace *criconfig.UserNamespace
	// ExtraGroups are groups that volumes give to the pod's processes, beside those of its security context.
	ExtraGroups []int64
	// Warnings become events of the pod: they name the settings that were left out.
	Warnings []Warning
}

// Warning is the reason and message of an event.
type Warning struct{ Reason, Message string }

// ContainerOptions are the options of a container.
type ContainerOptions struct {
	Env    []criconfig.EnvVar
	Mounts []criconfig.Mount
	// Devices are the block devices of its volumeDevices.
	Devices []criconfig.Device
}

// sandboxConfig returns the CRI config of the pod's sandbox.
func (s *round) sandboxConfig() (config *runtimeapi.PodSandboxConfig, options SandboxOptions, err error) {
	if options, err = s.Setup.SandboxOptions(s.Pod); err != nil {
		return nil, SandboxOptions{}, err
	}
	config, err = criconfig.SandboxConfig(criconfig.SandboxInput{
		Pod: s.Pod, Attempt: s.do.SandboxAttempt, Agent: s.cfg.Agent, LogsDir: s.cfg.LogsDir, Hostname: options.Hostname, Domain: options.Domain,
		DNS: options.DNS, CgroupParent: options.CgroupParent, UserNamespace: options.UserNamespace, ExtraGroups: options.ExtraGroups, Node: s.cfg.Node,
	})
	return config, options, err
}

// ips returns the pod's IPs. For a new sandbox it asks the runtime.
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
		// The status is cached: the relist that follows this sync needs it too.
		box := observed.Sandbox{ID: s.do.SandboxID}
		if err := s.askSandbox(ctx, &box, false); err != nil {
			if ctx.Err() == nil {
				s.cfg.Events.Record(s.Pod, "", events.Warning, events.FailedPodSandboxStatus, "Unable to get pod sandbox status: "+Answer(err).Error())
			}
			return nil, err
		}
		s.addresses = box.IPs
	}
	return s.addresses, nil
}

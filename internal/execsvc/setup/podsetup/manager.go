package podsetup

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/downward"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/execsvc/setup/cgroup"
	"github.com/podstream/podstream/internal/execsvc/setup/dns"
	"github.com/podstream/podstream/internal/execsvc/setup/hosts"
	"github.com/podstream/podstream/internal/execsvc/setup/podenv"
	"github.com/podstream/podstream/internal/execsvc/setup/token"
	"github.com/podstream/podstream/internal/execsvc/setup/userns"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// Config configures a Manager.
type Config struct {
	// PodDirs are the places of the pods' directories.
	PodDirs kubeletdir.Pods
	Volumes *volume.Manager
	Cgroups *cgroup.Manager
	Objects *objects.Objects
	DNS     dns.Settings
	// Users allocates ID ranges to pods with a user namespace. Nil: such pods can't be created.
	Users *userns.Manager
	// Tokens are the service account tokens that Volumes uses. Nil: there is no API server.
	Tokens *token.Tokens
	// Cluster has the API server's data for pods. Nil: there is no API server.
	Cluster Cluster
	// Claims has the claims of pods' volumes dropped. Nil: there are none.
	Claims interface{ Drop(uid types.UID) }
	// VolumeGroups returns the groups that the pod's volumes give to its processes. Nil: none.
	VolumeGroups func(uid types.UID) []int64
	// Node is the node's name, Allocatable its allocatable resources, HostIPs its addresses, the primary one first.
	Node        string
	Allocatable v1.ResourceList
	HostIPs     func() []string
	// Events receives warnings about settings that were left out, and about outdated volumes. It may be nil.
	Events *events.Recorder
}

// Cluster has what pods need from the API server; cluster.Cluster implements it.
type Cluster interface {
	// Services returns the environment variables of the services that the pod may see.
	Services(pod *v1.Pod) ([]criconfig.EnvVar, error)
	// RuntimeHandler returns the handler of the pod's RuntimeClass; empty selects the runtime's default.
	Handler(pod *v1.Pod) (string, error)
	// Drop removes the pod's data.
	Drop(uid types.UID)
}

// Manager is safe for concurrent use by the workers of different pods.
type Manager struct{ cfg Config }

// New returns a Manager. It creates nothing.
func New(cfg Config) *Manager { return &Manager{cfg: cfg} }

// SetUp creates or updates what the pod's sandbox and containers need. It creates the pod's directory, with the
// volumes, before the cgroup: after a restart the directory is how a pod that is no longer desired is found.
func (m *Manager) SetUp(ctx context.Context, pod *v1.Pod) error {
	if err := m.cfg.Volumes.SetUp(ctx, m.volumeRequest(pod)); err != nil {
		return err
	}
	return m.cfg.Cgroups.Ensure(pod)
}

// volumeRequest returns the request for the pod's volumes.
func (m *Manager) volumeRequest(pod *v1.Pod) volume.Request {
	return volume.Request{
		Pod: pod, Objects: m.cfg.Objects.For(pod), Facts: m.downwardFacts(nil),
		Outdated: func(err error) { m.cfg.Events.Record(pod, "", events.Warning, events.FailedMountVolume, err.Error()) },
	}
}

// ResizeCgroup sets the pod's cgroup to the pod's current limits, after its containers have theirs.
func (m *Manager) ResizeCgroup(pod *v1.Pod) error { return m.cfg.Cgroups.SetPod(pod) }

// BalanceCgroups sets the QoS cgroups for these pods: all that aren't terminating. It is called before a pod starts, and
// periodically.
func (m *Manager) BalanceCgroups(pods []*v1.Pod) error { return m.cfg.Cgroups.Balance(pods) }

// killTime bounds the wait for processes left in a pod's cgroup.
const killTime = 5 * time.Second

// TearDown removes all that SetUp made, also before a restart. The pod's directory goes last, as it is how leftovers
// are found.
func (m *Manager) TearDown(ctx context.Context, uid types.UID) error {
	kill, cancel := context.WithTimeout(ctx, killTime)
	defer cancel()
	if err := m.cfg.Cgroups.Remove(kill, uid); err != nil {
		return err
	}
	if err := m.cfg.Volumes.TearDown(ctx, uid); err != nil {
		return fmt.Errorf("tear down volumes: %w", err)
	}
	if m.cfg.Users != nil {
		m.cfg.Users.Free(uid)
	}
	m.cfg.Objects.Drop(uid)
	if m.cfg.Tokens != nil {
		m.cfg.Tokens.Drop(uid)
	}
	if m.cfg.Cluster != nil {
		m.cfg.Cluster.Drop(uid)
	}
	if m.cfg.Claims != nil {
		m.cfg.Claims.Drop(uid)
	}
	return nil
}

// RemoveContainerCgroup removes the cgroup of a container or sandbox that has ended, with the processes in it.
func (m *Manager) RemoveContainerCgroup(ctx context.Context, uid types.UID, id string) error {
	return m.cfg.Cgroups.RemoveContainer(ctx, uid, id)
}

// PodsOnDisk returns the pods with a directory, for which SetUp may have run.
func (m *Manager) PodsOnDisk() ([]types.UID, error) { return m.cfg.Volumes.PodsOnDisk() }

// SandboxOptions is part of runtime.PodSetup.
func (m *Manager) SandboxOptions(pod *v1.Pod) (runtime.SandboxOptions, error) {
	hostname, domain, err := criconfig.HostnameOf(pod, m.cfg.DNS.ClusterDomain)
	if err != nil {
		return runtime.SandboxOptions{}, err
	}
	config, warnings, err := dns.Config(pod, m.cfg.DNS)
	if err != nil {
		return runtime.SandboxOptions{}, fmt.Errorf("make the pod's resolv.conf: %w", err)
	}
	options := runtime.SandboxOptions{Hostname: hostname, Domain: domain, DNS: config, CgroupParent: m.cfg.Cgroups.Parent(pod)}
	if m.cfg.VolumeGroups != nil {
		options.ExtraGroups = m.cfg.VolumeGroups(pod.UID)
	}
	if m.cfg.Users != nil && !ptr.Deref(pod.Spec.HostUsers, true) {
		if options.UserNamespace, err = m.cfg.Users.Of(pod.UID); err != nil {
			return runtime.SandboxOptions{}, err
		}
	}
	for _, warning := range warnings {
		// A standalone node has no cluster DNS; a warning on each pod with the default policy would be noise.
		if warning.Reason != dns.MissingClusterDNS || m.cfg.Cluster != nil {
			options.Warnings = append(options.Warnings, runtime.Warning(warning))
		}
	}
	return options, nil
}

// RuntimeHandler is part of runtime.PodSetup. Without an API server the class's name is the handler.
func (m *Manager) RuntimeHandler(pod *v1.Pod) (string, error) {
	if m.cfg.Cluster == nil {
		return ptr.Deref(pod.Spec.RuntimeClassName, ""), nil
	}
	return m.cfg.Cluster.Handler(pod)
}

// ContainerOptions is part of runtime.PodSetup.
func (m *Manager) ContainerOptions(ctx context.Context, pod *v1.Pod, c *v1.Container, ips []string) (runtime.ContainerOptions, error) {
	// The container sees the same IPs as the pod's status.
	ips = status.OnePerFamily(ips, m.cfg.HostIPs())
	if slices.ContainsFunc(pod.Spec.EphemeralContainers, func(e v1.EphemeralContainer) bool { return e.Name == c.Name }) {
		if err := m.cfg.Volumes.SetUpFor(ctx, m.volumeRequest(pod), c); err != nil {
			return runtime.ContainerOptions{}, err
		}
	}
	devices, err := m.cfg.Volumes.Devices(ctx, pod, c)
	if err != nil {
		return runtime.ContainerOptions{}, err
	}
	services, err := m.serviceEnv(pod)
	if err != nil {
		return runtime.ContainerOptions{}, err
	}
	env, skipped, err := podenv.Of(podenv.Input{
		Pod: pod, Container: c, Objects: m.cfg.Objects.For(pod), Facts: m.downwardFacts(ips), Services: services,
		ReadFile: func(name, path string) ([]byte, error) { return m.cfg.Volumes.ReadFile(pod, name, path) },
	})
	if err != nil {
		return runtime.ContainerOptions{}, err
	}
	for _, message := range skipped {
		m.cfg.Events.Record(pod, c.Name, events.Warning, events.InvalidEnvironmentVariableNames, message)
	}
	values := make(map[string]string, len(env))
	for _, v := range env {
		values[v.Name] = v.Value
	}
	mounts, err := m.cfg.Volumes.Mounts(ctx, pod, c, values)
	if err != nil {
		return runtime.ContainerOptions{}, err
	}
	file, err := m.hostsFile(pod, c, ips)
	if file != nil {
		mounts = append(mounts, *file)
	}
	return runtime.ContainerOptions{Env: env, Mounts: mounts, Devices: devices}, err
}

func (m *Manager) serviceEnv(pod *v1.Pod) ([]criconfig.EnvVar, error) {
	if m.cfg.Cluster == nil {
		return nil, nil
	}
	return m.cfg.Cluster.Services(pod)
}

// hostsFile returns the container's /etc/hosts; nil if it mounts its own.
func (m *Manager) hostsFile(pod *v1.Pod, c *v1.Container, ips []string) (*criconfig.Mount, error) {
	hostname, domain, err := criconfig.HostnameOf(pod, m.cfg.DNS.ClusterDomain)
	if err != nil {
		return nil, err
	}
	file, err := hosts.Mount(hosts.Input{
		PodDir: m.cfg.PodDirs.Of(pod.UID), Pod: pod, Container: c, PodIPs: ips, Hostname: hostname, Domain: domain,
	})
	if err != nil {
		return nil, fmt.Errorf("make the pod's /etc/hosts: %w", err)
	}
	if file != nil {
		failpoint.Reached(failpoint.HostsWritten)
	}
	return file, nil
}

func (m *Manager) downwardFacts(podIPs []string) downward.Facts {
	return downward.Facts{Node: m.cfg.Node, PodIPs: podIPs, HostIPs: m.cfg.HostIPs(), Allocatable: m.cfg.Allocatable}
}

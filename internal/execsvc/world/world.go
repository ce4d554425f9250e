package world

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/cgroup"
	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/dns"
	"github.com/podstream/podstream/internal/execsvc/downward"
	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/hosts"
	"github.com/podstream/podstream/internal/execsvc/objects"
	"github.com/podstream/podstream/internal/execsvc/podenv"
	"github.com/podstream/podstream/internal/execsvc/runtime"
	"github.com/podstream/podstream/internal/execsvc/status"
	"github.com/podstream/podstream/internal/execsvc/token"
	"github.com/podstream/podstream/internal/execsvc/userns"
	"github.com/podstream/podstream/internal/execsvc/volume"
	"github.com/podstream/podstream/internal/failpoint"
)

// Config says where a World takes things from.
type Config struct {
	// PodsDir has a directory for each pod: <root-dir>/pods.
	PodsDir string
	Volumes *volume.Manager
	Cgroups *cgroup.Manager
	Objects *objects.Objects
	DNS     dns.Settings
	// Users gives ranges of user ids to pods with users of their own. Nil: there are none, and such pods can't be made.
	Users *userns.Manager
	// Tokens are the service account tokens that Volumes asks for. Nil: there is no API server.
	Tokens *token.Tokens
	// Cluster is what else there is for pods at the API server. Nil: there is none.
	Cluster Cluster
	// Node is the node's name, Allocatable what its pods may have, HostIPs its addresses, the primary one first.
	Node        string
	Allocatable v1.ResourceList
	HostIPs     func() []string
	// Events is told what is left out of a pod's world, or isn't up to date in it. Nil: nobody is.
	Events *events.Recorder
}

// Cluster is what pods take from the API server; cluster.Cluster is one.
type Cluster interface {
	// Services are the variables of the services that the pod may see.
	Services(pod *v1.Pod) ([]criconfig.EnvVar, error)
	// Handler is what the runtime calls the pod's RuntimeClass; empty for its default.
	Handler(pod *v1.Pod) (string, error)
	// Forget drops what is known of the pod.
	Forget(uid types.UID)
}

// World is safe for concurrent use by the workers of different pods.
type World struct{ cfg Config }

// New returns a World. It makes nothing.
func New(cfg Config) *World { return &World{cfg: cfg} }

// SetUp makes what the pod's sandbox and containers need, or brings it up to date. The pod's directory, which comes with its volumes, is there
// before the cgroup: by it what is left is found, should this agent die now and nobody want the pod any more when it lives again.
func (w *World) SetUp(ctx context.Context, pod *v1.Pod) error {
	err := w.cfg.Volumes.SetUp(ctx, volume.Request{
		Pod: pod, Objects: w.cfg.Objects.For(pod), Facts: w.facts(nil),
		Outdated: func(err error) { w.cfg.Events.Record(pod, "", events.Warning, events.FailedMountVolume, err.Error()) },
	})
	if err != nil {
		return err
	}
	return w.cfg.Cgroups.Ensure(pod)
}

// Settle brings what bounds the pod as a whole to what the pod asks for now, once its containers have theirs.
func (w *World) Settle(pod *v1.Pod) error { return w.cfg.Cgroups.SetPod(pod) }

// Balance shares the node out among these pods: all that aren't to end. It is called when they change, and now and then.
func (w *World) Balance(pods []*v1.Pod) error { return w.cfg.Cgroups.Balance(pods) }

// killTime is how long what is left in a pod's cgroup gets to die, before others have their turn.
const killTime = 5 * time.Second

// TearDown takes away what SetUp made, and what it may have made in an earlier life of this agent. The pod's directory goes last, as by it
// what is left is found.
func (w *World) TearDown(ctx context.Context, uid types.UID) error {
	kill, cancel := context.WithTimeout(ctx, killTime)
	defer cancel()
	if err := w.cfg.Cgroups.Remove(kill, uid); err != nil {
		return err
	}
	if err := w.cfg.Volumes.TearDown(ctx, uid); err != nil {
		return fmt.Errorf("tear down volumes: %w", err)
	}
	if w.cfg.Users != nil {
		w.cfg.Users.Free(uid)
	}
	w.cfg.Objects.Forget(uid)
	if w.cfg.Tokens != nil {
		w.cfg.Tokens.Forget(uid)
	}
	if w.cfg.Cluster != nil {
		w.cfg.Cluster.Forget(uid)
	}
	return nil
}

// Leftovers are the pods for which something may have been made.
func (w *World) Leftovers() ([]types.UID, error) { return w.cfg.Volumes.Leftovers() }

// Sandbox is part of runtime.World.
func (w *World) Sandbox(pod *v1.Pod) (runtime.Sandbox, error) {
	hostname, domain, err := criconfig.HostnameOf(pod, w.cfg.DNS.ClusterDomain)
	if err != nil {
		return runtime.Sandbox{}, err
	}
	config, warnings, err := dns.Config(pod, w.cfg.DNS)
	if err != nil {
		return runtime.Sandbox{}, fmt.Errorf("make the pod's resolv.conf: %w", err)
	}
	given := runtime.Sandbox{Hostname: hostname, Domain: domain, DNS: config, CgroupParent: w.cfg.Cgroups.Parent(pod)}
	if w.cfg.Users != nil && !ptr.Deref(pod.Spec.HostUsers, true) {
		if given.UserNamespace, err = w.cfg.Users.Of(pod.UID); err != nil {
			return runtime.Sandbox{}, err
		}
	}
	for _, warning := range warnings {
		// That there is no cluster is no news on a node by itself, where every pod that says nothing wants a cluster's DNS.
		if warning.Reason != dns.MissingClusterDNS {
			given.Warnings = append(given.Warnings, runtime.Warning(warning))
		}
	}
	return given, nil
}

// Handler is part of runtime.World. Without an API server a class is what the runtime calls so.
func (w *World) Handler(pod *v1.Pod) (string, error) {
	if w.cfg.Cluster == nil {
		return ptr.Deref(pod.Spec.RuntimeClassName, ""), nil
	}
	return w.cfg.Cluster.Handler(pod)
}

// Container is part of runtime.World.
func (w *World) Container(ctx context.Context, pod *v1.Pod, c *v1.Container, ips []string) (runtime.Given, error) {
	// What the process reads is what the pod's status says.
	ips = status.OnePerFamily(ips, w.cfg.HostIPs())
	services, err := w.services(pod)
	if err != nil {
		return runtime.Given{}, err
	}
	env, skipped, err := podenv.Of(podenv.Input{
		Pod: pod, Container: c, Objects: w.cfg.Objects.For(pod), Facts: w.facts(ips), Services: services,
		ReadFile: func(name, path string) ([]byte, error) { return w.cfg.Volumes.ReadFile(pod, name, path) },
	})
	if err != nil {
		return runtime.Given{}, err
	}
	for _, message := range skipped {
		w.cfg.Events.Record(pod, c.Name, events.Warning, events.InvalidEnvironmentVariableNames, message)
	}
	values := make(map[string]string, len(env))
	for _, v := range env {
		values[v.Name] = v.Value
	}
	mounts, err := w.cfg.Volumes.Mounts(ctx, pod, c, values)
	if err != nil {
		return runtime.Given{}, err
	}
	file, err := w.hostsFile(pod, c, ips)
	if file != nil {
		mounts = append(mounts, *file)
	}
	return runtime.Given{Env: env, Mounts: mounts}, err
}

func (w *World) services(pod *v1.Pod) ([]criconfig.EnvVar, error) {
	if w.cfg.Cluster == nil {
		return nil, nil
	}
	return w.cfg.Cluster.Services(pod)
}

// hostsFile is the container's /etc/hosts; nil if it has one of its own.
func (w *World) hostsFile(pod *v1.Pod, c *v1.Container, ips []string) (*criconfig.Mount, error) {
	hostname, domain, err := criconfig.HostnameOf(pod, w.cfg.DNS.ClusterDomain)
	if err != nil {
		return nil, err
	}
	file, err := hosts.Mount(hosts.Input{
		PodDir: filepath.Join(w.cfg.PodsDir, string(pod.UID)), Pod: pod, Container: c, PodIPs: ips, Hostname: hostname, Domain: domain,
	})
	if err != nil {
		return nil, fmt.Errorf("make the pod's /etc/hosts: %w", err)
	}
	if file != nil {
		failpoint.Reached(failpoint.HostsWritten)
	}
	return file, nil
}

// EmptyDir is the directory of the pod's emptyDir of that name.
func (w *World) EmptyDir(pod *v1.Pod, name string) string {
	return w.cfg.Volumes.EmptyDir(pod.UID, name)
}

func (w *World) facts(podIPs []string) downward.Facts {
	return downward.Facts{Node: w.cfg.Node, PodIPs: podIPs, HostIPs: w.cfg.HostIPs(), Allocatable: w.cfg.Allocatable}
}

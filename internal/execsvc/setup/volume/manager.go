package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/execsvc/machine/nodefs"
	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/downward"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/payload"
	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// dirMode is the mode of the directories around volumes: only root can read them.
const dirMode = 0o750

// maxName is the maximum length of a directory's name.
const maxName = 255

// Config configures a Manager.
type Config struct {
	// PodDirs are the places of the pods' directories. They are created when they are needed.
	PodDirs kubeletdir.Pods
	// Mounter mounts and unmounts. Nil means the node's own mounter.
	Mounter mount.Interface
	// Plugins are additional plugins. They take precedence over the built-in ones.
	Plugins []Plugin
	// Tokens returns the service account tokens of projected volumes. Nil: there is no API server, and such volumes
	// fail.
	Tokens payload.Tokens
	// Bundles returns the trust anchors of projected volumes. Nil: there is no API server, and such volumes fail.
	Bundles payload.Bundles
	// RecursiveReadOnly reports whether the runtime supports recursive read-only mounts for the pod. Nil: it does
	// not.
	RecursiveReadOnly func(*v1.Pod) bool
	// ReadOnlyDirs are absolute paths of the node that are read-only in containers, whichever hostPath volume leads
	// there.
	ReadOnlyDirs []string
	// Helpers accesses file systems that may hang. Nil: the Manager has its own.
	Helpers *foreign.Helpers
	// Metrics registers the metrics of volumes. Nil: they aren't served.
	Metrics prometheus.Registerer
}

// Manager sets up and tears down the volumes of pods, and returns their mounts.
type Manager struct {
	podDirs           kubeletdir.Pods
	mounter           mount.Interface
	recursiveReadOnly func(*v1.Pod) bool
	readOnlyDirs      []string
	plugins           []Plugin
	helpers           *foreign.Helpers
	// hostPaths is one of the plugins.
	hostPaths *hostPath
	nodePaths *nodePaths
	metrics   *metrics
}

// New returns a Manager.
func New(cfg Config) *Manager {
	if cfg.Mounter == nil {
		cfg.Mounter = kernel{mount.New("")}
	}
	if cfg.RecursiveReadOnly == nil {
		cfg.RecursiveReadOnly = func(*v1.Pod) bool { return false }
	}
	m := &Manager{podDirs: cfg.PodDirs, mounter: cfg.Mounter, recursiveReadOnly: cfg.RecursiveReadOnly, readOnlyDirs: cfg.ReadOnlyDirs}
	if m.helpers = cfg.Helpers; m.helpers == nil {
		m.helpers = foreign.New(foreign.Config{})
	}
	m.metrics = newMetrics(cfg.Metrics)
	m.nodePaths = &nodePaths{waits: nodefs.New(nodefs.Config{}), stat: os.Stat}
	m.hostPaths = &hostPath{nodePaths: m.nodePaths, good: map[types.UID]map[hostPathKey]bool{}}
	m.plugins = append(m.plugins, cfg.Plugins...)
	m.plugins = append(m.plugins, emptyDir{mounter: cfg.Mounter}, m.hostPaths, image{})
	m.plugins = append(m.plugins, payloadPlugins(cfg)...)
	return m
}

// Request is a request to set up the volumes of one pod.
type Request struct {
	Pod *v1.Pod
	// Objects are the ConfigMaps and Secrets that the pod may read. Nil: none, and volumes that need one fail.
	Objects Objects
	// Facts are the values of downwardAPI volumes, and bound the size of volumes in memory.
	Facts downward.Facts
	// Outdated receives the error of each existing volume that can't be updated. It may be nil.
	Outdated func(error)
}

// SetUp creates or updates the pod's volumes: all that its containers use, in the pod's order. A volume that fails
// doesn't keep the others from being set up; the error joins a FailedError of each one, with the kubelet's message, and the
// caller retries. An existing volume that can't be updated is no error: as with the kubelet, the pod continues with it. A
// volume that only ephemeral containers use is no error either: they start in a running pod, and SetUpFor returns its
// error.
func (m *Manager) SetUp(ctx context.Context, req Request) error {
	pod := req.Pod
	if err := podmeta.CheckUID(pod.UID); err != nil {
		return err
	}
	if req.Objects == nil {
		req.Objects = noObjects{}
	}
	failpoint.Reached(failpoint.BeforeSetUp)
	defer failpoint.Reached(failpoint.AfterSetUp)
	if err := os.MkdirAll(m.podDir(pod.UID), dirMode); err != nil {
		return fmt.Errorf("make the pod's directory: %w", err)
	}
	lasting, ephemeral := usedVolumes(pod)
	return m.setUpVolumes(ctx, req, func(name string) use {
		switch {
		case lasting[name]:
			return needed
		case ephemeral[name]:
			return optional
		default:
			return unused
		}
	})
}

// use says what a volume is set up for.
type use int

// The uses of a volume: it isn't set up; it is, and an error is ignored; it is, and an error is returned.
const (
	unused use = iota
	optional
	needed
)

// setUpVolumes sets up volumes side by side.
func (m *Manager) setUpVolumes(ctx context.Context, req Request, useOf func(name string) use) error {
	var all []func() error
	var uses []use
	var names []string
	for i := range req.Pod.Spec.Volumes {
		spec := &req.Pod.Spec.Volumes[i]
		if u := useOf(spec.Name); u != unused {
			uses, names = append(uses, u), append(names, spec.Name)
			all = append(all, func() error { return m.setUpVolume(ctx, req, spec) })
		}
	}
	var errs []error
	for i, err := range sideBySide(ctx, all) {
		_, usable := errors.AsType[*OutdatedError](err)
		switch {
		case usable && req.Outdated != nil:
			req.Outdated(err)
		case err != nil && !usable && uses[i] == needed:
			errs = append(errs, &FailedError{names[i], err})
		}
	}
	return errors.Join(errs...)
}

// SetUpFor sets up the volumes of one container, after SetUp. It is for an ephemeral container, before its start.
func (m *Manager) SetUpFor(ctx context.Context, req Request, c *v1.Container) error {
	if err := podmeta.CheckUID(req.Pod.UID); err != nil {
		return err
	}
	if req.Objects == nil {
		req.Objects = noObjects{}
	}
	req.Outdated = nil
	return m.setUpVolumes(ctx, req, func(name string) use {
		if criconfig.UsesVolume(c, name) {
			return needed
		}
		return unused
	})
}

// setUpVolume sets up one volume. Its error has the kubelet's wording.
func (m *Manager) setUpVolume(ctx context.Context, req Request, spec *v1.Volume) error {
	plugin, v, err := m.volume(ctx, req.Pod, spec)
	if err == nil {
		v.Objects, v.Facts = req.Objects, req.Facts
		began := time.Now()
		err = plugin.SetUp(ctx, v)
		_, usable := errors.AsType[*OutdatedError](err)
		m.metrics.setUp(&v, plugin.Name(), time.Since(began), unless(usable, err))
	}
	if _, named := errors.AsType[*OperationError](err); named || err == nil {
		return err
	}
	return fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", cmp.Or(v.Name, spec.Name), err)
}

// unless returns the error, or nil if the volume can be used in spite of it.
func unless(usable bool, err error) error {
	if usable {
		return nil
	}
	return err
}

// volume returns the volume of a spec, and its plugin.
func (m *Manager) volume(ctx context.Context, pod *v1.Pod, spec *v1.Volume) (Plugin, Volume, error) {
	if err := checkName(spec.Name); err != nil {
		return nil, Volume{}, err
	}
	for _, p := range m.plugins {
		if p.Takes(spec) {
			v, err := m.locate(ctx, p, pod, spec)
			return p, v, err
		}
	}
	name := criconfig.VolumeSourceName(&spec.VolumeSource)
	return nil, Volume{}, criconfig.NotSupported(name, name)
}

// checkName rejects a name that can't be a directory's. Names that begin with a dot are makeDir's.
func checkName(name string) error {
	if name == "" || len(name) > maxName || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("the name %.300q can't be a directory's", name)
	}
	return nil
}

// usedVolumes returns the names of the volumes that init and main containers use, and of those that ephemeral
// containers use. As with the kubelet, the others aren't set up.
func usedVolumes(pod *v1.Pod) (lasting, ephemeral map[string]bool) {
	lasting, ephemeral = map[string]bool{}, map[string]bool{}
	for i := range pod.Spec.Volumes {
		name := pod.Spec.Volumes[i].Name
		uses := func(c v1.Container) bool { return criconfig.UsesVolume(&c, name) }
		lasting[name] = slices.ContainsFunc(pod.Spec.InitContainers, uses) || slices.ContainsFunc(pod.Spec.Containers, uses)
		ephemeral[name] = slices.ContainsFunc(pod.Spec.EphemeralContainers, func(e v1.EphemeralContainer) bool {
			return uses(v1.Container(e.EphemeralContainerCommon))
		})
	}
	return lasting, ephemeral
}

// PodsOnDisk returns the pods that have a directory, or a volume of a Located plugin.
func (m *Manager) PodsOnDisk() ([]types.UID, error) {
	uids, err := m.podDirs.List()
	if err != nil {
		return nil, err
	}
	for _, l := range m.located() {
		for _, uid := range l.Pods() {
			if !slices.Contains(uids, uid) {
				uids = append(uids, uid)
			}
		}
	}
	return uids, nil
}

// The directories in a pod's directory.
const (
	volumesDir  = "volumes"
	devicesDir  = "volumeDevices"
	subPathsDir = "volume-subpaths"
)

func (m *Manager) podDir(uid types.UID) string { return m.podDirs.Of(uid) }

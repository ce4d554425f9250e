package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/downward"
	"github.com/podstream/podstream/internal/execsvc/volume/payload"
	"github.com/podstream/podstream/internal/failpoint"
)

// dirMode is that of the directories around volumes: only root looks into them.
const dirMode = 0o750

// maxName is how long the name of a directory can be.
const maxName = 255

// Config says where a Manager works.
type Config struct {
	// PodsDir has a directory for each pod: <root-dir>/pods. It is made when it is needed.
	PodsDir string
	// Mounter mounts and unmounts. Nil means the node's own.
	Mounter mount.Interface
	// Plugins are more kinds of volumes. They are asked before those that are built in.
	Plugins []Plugin
	// Tokens gives the service account tokens of projected volumes. Nil: there is nobody to ask, and such volumes fail.
	Tokens payload.Tokens
	// Bundles gives the trust anchors of projected volumes. Nil: there is nobody to ask, and such volumes fail.
	Bundles payload.Bundles
	// RecursiveReadOnly tells whether the runtime can make the mounts below a volume read-only with it.
	RecursiveReadOnly bool
}

// Manager makes, shows and removes the volumes of pods.
type Manager struct {
	podsDir           string
	mounter           mount.Interface
	recursiveReadOnly bool
	plugins           []Plugin
	// hostPaths is one of the plugins.
	hostPaths *hostPath
}

// New returns a Manager.
func New(cfg Config) *Manager {
	if cfg.Mounter == nil {
		cfg.Mounter = kernel{mount.New("")}
	}
	m := &Manager{podsDir: cfg.PodsDir, mounter: cfg.Mounter, recursiveReadOnly: cfg.RecursiveReadOnly}
	m.hostPaths = &hostPath{good: map[types.UID]map[hostPathKey]bool{}}
	m.plugins = append(m.plugins, cfg.Plugins...)
	m.plugins = append(m.plugins, emptyDir{mounter: cfg.Mounter}, m.hostPaths, image{})
	m.plugins = append(m.plugins, payloadPlugins(cfg)...)
	return m
}

// Request is for the volumes of one pod.
type Request struct {
	Pod *v1.Pod
	// Objects are the ConfigMaps and Secrets that the pod may read. Nil: none, and volumes that need one fail.
	Objects Objects
	// Facts are for downwardAPI volumes, and bound what a volume in memory may hold.
	Facts downward.Facts
	// Outdated is told of each volume that was set up before and can't be brought up to date. Nil: nobody is.
	Outdated func(error)
}

// SetUp makes the pod's volumes and brings those that are there up to date: all that a container uses, in the pod's order. One that
// can't be had doesn't keep the others from it; the error joins one of each that failed, which speaks as the kubelet does. Try again.
// A volume that was set up before and can't be brought up to date is no error: as with the kubelet, what runs in the pod goes on with it.
func (m *Manager) SetUp(ctx context.Context, req Request) error {
	pod := req.Pod
	if err := criconfig.CheckUID(pod.UID); err != nil {
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
	used := usedVolumes(pod)
	var errs []error
	for i := range pod.Spec.Volumes {
		spec := &pod.Spec.Volumes[i]
		if !used[spec.Name] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		err := m.setUpVolume(ctx, req, spec)
		if err == nil {
			continue
		}
		err = fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", spec.Name, err)
		if _, usable := errors.AsType[*OutdatedError](err); !usable {
			errs = append(errs, err)
		} else if req.Outdated != nil {
			req.Outdated(err)
		}
	}
	return errors.Join(errs...)
}

func (m *Manager) setUpVolume(ctx context.Context, req Request, spec *v1.Volume) error {
	plugin, v, err := m.volume(req.Pod, spec)
	if err != nil {
		return err
	}
	v.Objects, v.Facts = req.Objects, req.Facts
	return plugin.SetUp(ctx, v)
}

// volume is what is known of the pod's volume from its spec, and the plugin that it is for.
func (m *Manager) volume(pod *v1.Pod, spec *v1.Volume) (Plugin, Volume, error) {
	if err := checkName(spec.Name); err != nil {
		return nil, Volume{}, err
	}
	for _, p := range m.plugins {
		if p.Takes(spec) {
			dir := filepath.Join(m.podDir(pod.UID), volumesDir, dirName(p), spec.Name)
			return p, Volume{UID: pod.UID, Name: spec.Name, Dir: dir, Pod: pod, Spec: spec}, nil
		}
	}
	return nil, Volume{}, fmt.Errorf("%s isn't supported yet", criconfig.VolumeSourceName(&spec.VolumeSource))
}

// checkName refuses a name that can't be that of a directory. Those that begin with a dot are makeDir's.
func checkName(name string) error {
	if name == "" || len(name) > maxName || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("the name %.300q can't be that of a directory", name)
	}
	return nil
}

// usedVolumes are the names of the volumes that a container mounts or reads its environment from. As with the kubelet, the others
// aren't made.
func usedVolumes(pod *v1.Pod) map[string]bool {
	used := map[string]bool{}
	eachContainer(pod, func(c *v1.Container) {
		for i := range c.VolumeMounts {
			used[c.VolumeMounts[i].Name] = true
		}
		for i := range c.Env {
			if from := c.Env[i].ValueFrom; from != nil && from.FileKeyRef != nil {
				used[from.FileKeyRef.VolumeName] = true
			}
		}
	})
	return used
}

// eachContainer calls do for all containers of the pod.
func eachContainer(pod *v1.Pod, do func(*v1.Container)) {
	for i := range pod.Spec.InitContainers {
		do(&pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		do(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.EphemeralContainers {
		do((*v1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
}

// Leftovers are the pods that have a directory here.
func (m *Manager) Leftovers() ([]types.UID, error) {
	entries, err := os.ReadDir(m.podsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the pods' directories: %w", err)
	}
	var uids []types.UID
	for _, e := range entries {
		if e.IsDir() {
			uids = append(uids, types.UID(e.Name()))
		}
	}
	return uids, nil
}

// The directories in a pod's own.
const (
	volumesDir  = "volumes"
	subPathsDir = "volume-subpaths"
)

// EmptyDir is the directory of the pod's emptyDir of that name, whether or not it is there.
func (m *Manager) EmptyDir(uid types.UID, name string) string {
	return filepath.Join(m.podDir(uid), volumesDir, dirName(emptyDir{}), name)
}

func (m *Manager) podDir(uid types.UID) string { return filepath.Join(m.podsDir, string(uid)) }

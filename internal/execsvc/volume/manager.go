package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/failpoint"
)

// dirMode is that of the directories around volumes: only root looks into them.
const dirMode = 0o750

// Config says where a Manager works.
type Config struct {
	// PodsDir has a directory for each pod: <root-dir>/pods. It is made when it is needed.
	PodsDir string
	// Mounter mounts and unmounts. Nil means the node's own.
	Mounter mount.Interface
}

// Manager makes, shows and removes the volumes of pods.
type Manager struct {
	podsDir string
	mounter mount.Interface
}

// New returns a Manager.
func New(cfg Config) *Manager {
	if cfg.Mounter == nil {
		cfg.Mounter = mount.New("")
	}
	return &Manager{podsDir: cfg.PodsDir, mounter: cfg.Mounter}
}

// SetUp makes the pod's volumes. Those that are there already are left as they are.
func (m *Manager) SetUp(ctx context.Context, pod *v1.Pod) error {
	if err := criconfig.CheckUID(pod.UID); err != nil {
		return err
	}
	failpoint.Reached(failpoint.BeforeSetUp)
	defer failpoint.Reached(failpoint.AfterSetUp)
	if err := os.MkdirAll(m.podDir(pod.UID), dirMode); err != nil {
		return fmt.Errorf("make the pod's directory: %w", err)
	}
	for i := range pod.Spec.Volumes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.setUpVolume(pod, &pod.Spec.Volumes[i]); err != nil {
			return fmt.Errorf("volume %q: %w", pod.Spec.Volumes[i].Name, err)
		}
	}
	return nil
}

func (m *Manager) setUpVolume(pod *v1.Pod, v *v1.Volume) error {
	switch {
	case v.EmptyDir != nil:
		return m.setUpEmptyDir(pod, v)
	case v.HostPath != nil:
		return setUpHostPath(v.HostPath)
	default:
		return fmt.Errorf("%s isn't supported yet", SourceType(&v.VolumeSource))
	}
}

// Mounts are the volumes that a container sees, in the order of its volumeMounts. It asks nothing of the disk.
func (m *Manager) Mounts(pod *v1.Pod, c *v1.Container) ([]criconfig.Mount, error) {
	if err := criconfig.CheckUID(pod.UID); err != nil {
		return nil, err
	}
	var mounts []criconfig.Mount
	for i := range c.VolumeMounts {
		vm := &c.VolumeMounts[i]
		host, err := m.hostPath(pod, vm)
		if err != nil {
			return nil, fmt.Errorf("volumeMounts[%d] (%s): %w", i, vm.Name, err)
		}
		mounted := criconfig.Mount{HostPath: host, ContainerPath: vm.MountPath, ReadOnly: vm.ReadOnly}
		if !filepath.IsAbs(mounted.ContainerPath) {
			mounted.ContainerPath = "/" + mounted.ContainerPath
		}
		if vm.MountPropagation != nil {
			mounted.Propagation = *vm.MountPropagation
		}
		mounts = append(mounts, mounted)
	}
	return mounts, nil
}

// hostPath is where the mounted volume is on the node.
func (m *Manager) hostPath(pod *v1.Pod, vm *v1.VolumeMount) (string, error) {
	switch {
	case vm.SubPath != "":
		return "", errors.New("subPath isn't supported yet")
	case vm.SubPathExpr != "":
		return "", errors.New("subPathExpr isn't supported yet")
	case len(vm.BindMountOptions) > 0:
		return "", errors.New("bindMountOptions isn't supported yet")
	case vm.RecursiveReadOnly != nil && *vm.RecursiveReadOnly == v1.RecursiveReadOnlyEnabled:
		return "", errors.New("recursiveReadOnly: Enabled isn't supported yet")
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case v.Name != vm.Name:
		case v.EmptyDir != nil:
			return m.emptyDir(pod.UID, v.Name), nil
		case v.HostPath != nil:
			return v.HostPath.Path, nil
		default:
			return "", fmt.Errorf("%s isn't supported yet", SourceType(&v.VolumeSource))
		}
	}
	return "", errors.New("the pod has no volume of this name")
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

func (m *Manager) podDir(uid types.UID) string { return filepath.Join(m.podsDir, string(uid)) }

// SourceType is the name of the volume's type as a manifest has it ("configMap"), or "a volume without a source".
func SourceType(source *v1.VolumeSource) string {
	fields := reflect.ValueOf(source).Elem()
	for i := range fields.NumField() {
		if !fields.Field(i).IsNil() {
			name, _, _ := strings.Cut(fields.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return "a volume without a source"
}

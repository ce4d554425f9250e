package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// The permissions of a device in a container, as the kubelet gives them: mknod, read and write.
const (
	fullAccess = "mrw"
	readAccess = "r"
)

// Devices returns the block devices that a container has, in the order of its volumeDevices. It checks them, so it is called
// before each start of the container. The errors have the kubelet's texts.
func (m *Manager) Devices(ctx context.Context, pod *v1.Pod, c *v1.Container) ([]criconfig.Device, error) {
	if len(c.VolumeDevices) == 0 {
		return nil, nil
	}
	if err := podmeta.CheckUID(pod.UID); err != nil {
		return nil, err
	}
	devices := make([]criconfig.Device, len(c.VolumeDevices))
	for i := range c.VolumeDevices {
		var err error
		if devices[i], err = m.device(ctx, pod, c, &c.VolumeDevices[i]); err != nil {
			return nil, err
		}
	}
	return devices, nil
}

func (m *Manager) device(ctx context.Context, pod *v1.Pod, c *v1.Container, d *v1.VolumeDevice) (criconfig.Device, error) {
	if !filepath.IsAbs(d.DevicePath) {
		return criconfig.Device{}, fmt.Errorf("error DevicePath `%s` must be an absolute path", d.DevicePath)
	}
	fail := func(err error) (criconfig.Device, error) {
		return criconfig.Device{}, fmt.Errorf("cannot find volume %q to pass into container %q: %w", d.Name, c.Name, err)
	}
	spec, err := specOf(pod, d.Name)
	if err != nil {
		return fail(err)
	}
	plugin, v, err := m.volume(ctx, pod, spec)
	if err != nil {
		return fail(err)
	}
	l, ok := plugin.(Located)
	if !ok || !v.Device {
		return fail(errors.New("it isn't a block device"))
	}
	if err := l.Usable(v); err != nil {
		return fail(err)
	}
	source := l.Source(v)
	device := criconfig.Device{HostPath: source.Path, ContainerPath: d.DevicePath, Permissions: fullAccess}
	if source.ReadOnly {
		device.Permissions = readAccess
	}
	return device, nil
}

// removeDevices removes the directories of a pod's devices, after their plugins have removed the links in them. It returns
// their paths. A link that is still there stays, and is an error: the volume may be published.
func (m *Manager) removeDevices(podsDir string, uid types.UID) ([]string, error) {
	var guarded []string
	parent, err := openHere(podsDir, filepath.Join(string(uid), devicesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("remove the directories of block devices: %w", err)
	}
	defer parent.Close()
	for _, name := range m.guardedDirs() {
		if err := removeEmpty(parent, name); err != nil {
			return nil, fmt.Errorf("remove the directories of block devices: %w", err)
		}
		guarded = append(guarded, filepath.Join(podsDir, string(uid), devicesDir, name))
	}
	return guarded, nil
}

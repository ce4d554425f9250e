package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// blocks is an attacher whose volumes are devices. Their links are made by the tests.
type blocks struct {
	attacher
	readOnly bool
	unusable error
}

func (b blocks) Locate(_ context.Context, v Volume) (Location, error) {
	return Location{Plugin: "kubernetes.io/csi", Name: "pv-" + v.Spec.PersistentVolumeClaim.ClaimName, Device: true}, nil
}

func (b blocks) Source(v Volume) Source {
	return Source{Path: v.Dir, Device: true, ReadOnly: b.readOnly}
}

func (b blocks) Usable(Volume) error { return b.unusable }

// devicePod is a pod whose container has the claim c as a device, and one that isn't its volume.
func devicePod() *v1.Pod {
	p := podWith("u1", claimVolume("c"), emptyDirVolume("e", v1.EmptyDirVolumeSource{}))
	p.Spec.Containers[0].VolumeMounts = nil
	p.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "c", DevicePath: "/dev/xvda"}}
	return p
}

// TestDevices: a container has a block volume as a device, with the kubelet's path and permissions.
func TestDevices(t *testing.T) {
	for permissions, b := range map[string]blocks{"mrw": {}, "r": {readOnly: true}} {
		pods := t.TempDir()
		m := New(Config{PodDirs: kubeletdir.Pods{Current: pods}, Plugins: []Plugin{b}})
		p := devicePod()
		got, err := m.Devices(t.Context(), p, &p.Spec.Containers[0])
		want := []criconfig.Device{{
			HostPath: filepath.Join(pods, "u1/volumeDevices/kubernetes.io~csi/pv-c"), ContainerPath: "/dev/xvda", Permissions: permissions,
		}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v; devices (-want +got):\n%s", err, diff)
		}
	}
}

// TestNoDevice: the errors have the kubelet's texts.
func TestNoDevice(t *testing.T) {
	for name, test := range map[string]struct {
		plugin Plugin
		change func(*v1.Container)
		want   string
	}{
		"a relative path": {blocks{}, func(c *v1.Container) { c.VolumeDevices[0].DevicePath = "xvda" }, "error DevicePath `xvda` must be an absolute path"},
		"no volume":       {blocks{}, func(c *v1.Container) { c.VolumeDevices[0].Name = "x" }, `cannot find volume "x" to pass into container "main"`},
		"an emptyDir":     {blocks{}, func(c *v1.Container) { c.VolumeDevices[0].Name = "e" }, `cannot find volume "e" to pass into container "main"`},
		"a file system":   {attacher{}, func(*v1.Container) {}, `cannot find volume "c" to pass into container "main"`},
		"not set up":      {blocks{unusable: errors.New("it isn't mounted")}, func(*v1.Container) {}, "it isn't mounted"},
	} {
		m := New(Config{PodDirs: kubeletdir.Pods{Current: t.TempDir()}, Plugins: []Plugin{test.plugin}})
		p := devicePod()
		p.Spec.Containers[0].Name = "main"
		test.change(&p.Spec.Containers[0])
		if got, err := m.Devices(t.Context(), p, &p.Spec.Containers[0]); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, %v; want %s", name, got, err, test.want)
		}
	}
	m := New(Config{PodDirs: kubeletdir.Pods{Current: t.TempDir()}, Plugins: []Plugin{blocks{}}})
	p := devicePod()
	c := &p.Spec.Containers[0]
	c.Name, c.VolumeMounts = "main", []v1.VolumeMount{{Name: "c", MountPath: "/c"}}
	if got, err := m.Mounts(t.Context(), p, c, nil); err == nil || !strings.Contains(err.Error(), `cannot find volume "c" to mount into container "main"`) {
		t.Errorf("a device as a file system: %v, %v", got, err)
	}
}

// TestDeviceLinkStays: a link that no plugin has removed stays, with the pod's directory: the volume may be published. Nothing is
// removed where it leads.
func TestDeviceLinkStays(t *testing.T) {
	pods, outside := t.TempDir(), t.TempDir()
	m := New(Config{PodDirs: kubeletdir.Pods{Current: pods}, Plugins: []Plugin{blocks{}}})
	dir := filepath.Join(pods, "u1/volumeDevices/kubernetes.io~csi")
	link := filepath.Join(dir, "pv-c")
	if err := errors.Join(os.MkdirAll(dir, 0o750), os.Symlink(outside, link)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(outside, "canary"), "alive")
	for range 2 {
		if err := m.TearDown(t.Context(), "u1"); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("error %v; want one that names %s", err, dir)
		}
	}
	there(t, link)
	holds(t, filepath.Join(outside, "canary"), "alive")
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := m.TearDown(t.Context(), "u1"); err != nil {
		t.Fatal(err)
	}
	gone(t, filepath.Join(pods, "u1"))

	// The directory of devices is a link itself.
	if err := errors.Join(os.MkdirAll(filepath.Join(pods, "u1"), 0o750), os.Symlink(outside, filepath.Join(pods, "u1/volumeDevices"))); err != nil {
		t.Fatal(err)
	}
	if err := m.TearDown(t.Context(), "u1"); err == nil {
		t.Error("it is removed through a link")
	}
	holds(t, filepath.Join(outside, "canary"), "alive")
}

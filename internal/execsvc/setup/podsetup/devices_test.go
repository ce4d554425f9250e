package podsetup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/execsvc/setup/cgroup"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// disk is a plugin whose volumes are block devices, unless they fail.
type disk struct {
	volume.Located
	err error
}

func (*disk) Name() string { return "kubernetes.io/csi" }

func (*disk) Plugins() []string { return []string{"kubernetes.io/csi"} }

func (*disk) Takes(spec *v1.Volume) bool { return spec.PersistentVolumeClaim != nil }

func (*disk) Locate(context.Context, volume.Volume) (volume.Location, error) {
	return volume.Location{Plugin: "kubernetes.io/csi", Name: "pv", Device: true}, nil
}

func (d *disk) Usable(volume.Volume) error { return d.err }

func (*disk) Source(v volume.Volume) volume.Source { return volume.Source{Path: v.Dir, Device: true} }

// A container has the devices of its volumeDevices, and waits if one can't be used.
func TestContainerHasDevices(t *testing.T) {
	cgroups, err := cgroup.New(cgroup.Config{})
	if err != nil {
		t.Fatal(err)
	}
	dirs, d := kubeletdir.Pods{Current: t.TempDir()}, &disk{}
	if err := os.Mkdir(filepath.Join(dirs.Current, "a"), 0o750); err != nil {
		t.Fatal(err)
	}
	w := New(Config{
		PodDirs: dirs, Cgroups: cgroups, Objects: objects.New(objects.Config{}), HostIPs: func() []string { return nil },
		Volumes: volume.New(volume.Config{PodDirs: dirs, Plugins: []volume.Plugin{d}}),
	})
	source := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a", Namespace: "default", Name: "web"}, Spec: v1.PodSpec{
		HostNetwork: true, Volumes: []v1.Volume{{Name: "v", VolumeSource: source}},
		Containers: []v1.Container{
			{Name: "main", VolumeDevices: []v1.VolumeDevice{{Name: "v", DevicePath: "/dev/xvda"}}}, {Name: "other"},
		},
	}}
	for i, want := range [][]criconfig.Device{
		{{HostPath: filepath.Join(dirs.Current, "a/volumeDevices/kubernetes.io~csi/pv"), ContainerPath: "/dev/xvda", Permissions: "mrw"}}, nil,
	} {
		given, err := w.ContainerOptions(t.Context(), pod, &pod.Spec.Containers[i], nil)
		if diff := cmp.Diff(want, given.Devices); diff != "" || err != nil {
			t.Errorf("%v; devices (-want +got):\n%s", err, diff)
		}
	}
	d.err = errors.New("swapped")
	if given, err := w.ContainerOptions(t.Context(), pod, &pod.Spec.Containers[0], nil); !errors.Is(err, d.err) {
		t.Errorf("%v, %v; want that the container waits", given.Devices, err)
	}
}

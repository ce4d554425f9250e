package volume

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
)

func TestMounts(t *testing.T) {
	m := newManager(t)
	image := v1.Volume{Name: "image", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "registry/data:v1"}}}
	pod := podWith("u1", emptyDirVolume("data", v1.EmptyDirVolumeSource{}), hostPathVolume("etc", "/etc", v1.HostPathDirectory),
		configMapVolume("cm"), image)
	got, err := m.Mounts(t.Context(), pod, &v1.Container{Name: "c", VolumeMounts: []v1.VolumeMount{
		{Name: "etc", MountPath: "host/etc", ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyIfPossible)},
		{Name: "data", MountPath: "/data", MountPropagation: ptr.To(v1.MountPropagationHostToContainer)},
		{Name: "data", MountPath: "/all", SubPath: "./"},
		{Name: "cm", MountPath: "/cm"},
		{Name: "image", MountPath: "/image", SubPathExpr: "a//$(DIR)"},
	}}, map[string]string{"DIR": "b"})
	if err != nil {
		t.Fatal(err)
	}
	volumes := filepath.Join(m.podDirs.Current, "u1/volumes")
	want := []criconfig.Mount{
		{HostPath: "/etc", ContainerPath: "/host/etc", ReadOnly: true},
		{
			HostPath: volumes + "/kubernetes.io~empty-dir/data", ContainerPath: "/data", Propagation: v1.MountPropagationHostToContainer,
			SELinuxRelabel: true,
		},
		{HostPath: volumes + "/kubernetes.io~empty-dir/data", ContainerPath: "/all", SELinuxRelabel: true},
		{HostPath: volumes + "/kubernetes.io~configmap/cm", ContainerPath: "/cm", ReadOnly: true, SELinuxRelabel: true},
		{ContainerPath: "/image", ReadOnly: true, Image: &criconfig.ImageMount{Given: "registry/data:v1", SubPath: "a/b"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

func TestMountsReject(t *testing.T) {
	m := newManager(t)
	pod := podWith("u1", emptyDirVolume("data", v1.EmptyDirVolumeSource{}),
		v1.Volume{Name: "disk", VolumeSource: v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{}}}, emptyDirVolume("../x", v1.EmptyDirVolumeSource{}))
	for want, vm := range map[string]v1.VolumeMount{
		"must not be an absolute": {Name: "data", SubPath: "/a"},
		`subPath "a/../b" must`:   {Name: "data", SubPath: "a/../b"},
		`subPathExpr ".." must`:   {Name: "data", SubPathExpr: "$(UP)"},
		"UNSET has no value":      {Name: "data", SubPathExpr: "a/$(UNSET)/$(UP)"},
		"bindMountOptions":        {Name: "data", BindMountOptions: []string{"noexec"}},
		"iscsi":                   {Name: "disk"},
		"no volume of this name":  {Name: "other"},
		"can't be a directory's":  {Name: "../x"},
	} {
		_, err := m.Mounts(t.Context(), pod, &v1.Container{Name: "c", VolumeMounts: []v1.VolumeMount{vm}}, map[string]string{"UP": ".."})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v doesn't mention %q", err, want)
		}
	}
	if _, err := m.Mounts(t.Context(), podWith("../u"), &v1.Container{Name: "c"}, nil); err == nil {
		t.Error("a UID that is a path is accepted")
	}
	if _, err := m.Mounts(t.Context(), pod, &v1.Container{Name: "../c"}, nil); err == nil {
		t.Error("a container name that is a path is accepted")
	}
}

func TestRecursiveReadOnly(t *testing.T) {
	mount := func(mode v1.RecursiveReadOnlyMode, propagation v1.MountPropagationMode) v1.VolumeMount {
		return v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: &mode, MountPropagation: &propagation}
	}
	const disabled, possible, enabled = v1.RecursiveReadOnlyDisabled, v1.RecursiveReadOnlyIfPossible, v1.RecursiveReadOnlyEnabled
	const none = v1.MountPropagationNone
	for name, c := range map[string]struct {
		vm       v1.VolumeMount
		able     bool
		want     bool
		mentions string
	}{
		"not said":                 {vm: v1.VolumeMount{ReadOnly: true}, able: true},
		"disabled":                 {vm: mount(disabled, none), able: true},
		"possible":                 {vm: mount(possible, none), able: true, want: true},
		"not possible":             {vm: mount(possible, none)},
		"enabled":                  {vm: mount(enabled, none), able: true, want: true},
		"propagation isn't said":   {vm: v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr.To(enabled)}, able: true, want: true},
		"enabled and not possible": {vm: mount(enabled, none), mentions: "the runtime"},
		"enabled and writable":     {vm: v1.VolumeMount{RecursiveReadOnly: ptr.To(enabled)}, able: true, mentions: "readOnly"},
		"possible and propagated":  {vm: mount(possible, v1.MountPropagationBidirectional), able: true, mentions: "Bidirectional"},
		"something else":           {vm: mount("Maybe", none), able: true, mentions: "Maybe"},
	} {
		m := New(Config{RecursiveReadOnly: func(pod *v1.Pod) bool { return c.able == (pod.Name == "able") }})
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "able"}}
		got, err := m.recursivelyReadOnly(pod, &c.vm)
		if got != c.want || (err != nil) != (c.mentions != "") || err != nil && !strings.Contains(err.Error(), c.mentions) {
			t.Errorf("%s: %v, %v; want %v and an error that mentions %q", name, got, err, c.want, c.mentions)
		}
	}
}

func TestExpand(t *testing.T) {
	env := map[string]string{"A": "x", "EMPTY": "", "REF": "$(A)"}
	for text, want := range map[string]string{
		"plain": "plain", "$(A)/$(A)": "x/x", "a$(EMPTY)b": "ab", "$$(A)": "$(A)", "$$$(A)": "$x",
		"$A $": "$A $", "$(A": "$(A", "$(REF)": "$(A)",
	} {
		if got, err := expand(text, env); err != nil || got != want {
			t.Errorf("%s becomes %q (%v), want %q", text, got, err, want)
		}
		if got := criconfig.Expand(text, env); got != want {
			t.Errorf("elsewhere %s becomes %q, want %q too", text, got, want)
		}
	}
	for _, text := range []string{"$(B)", "$()", "$(a)", "$(A$$)", "$(A)$(B)"} {
		if got, err := expand(text, env); err == nil {
			t.Errorf("%s becomes %q, want an error", text, got)
		}
	}
}

// TestSubPath: a subPath is a separate mount: it is created if missing, stays the same for a restarted
// container, and is removed with the pod, unlike its source.
func TestSubPath(t *testing.T) {
	m, host := realManager(t), t.TempDir()
	write(t, filepath.Join(host, "file"), "precious")
	pod := podWith("u1", emptyDirVolume("data", v1.EmptyDirVolumeSource{}), hostPathVolume("host", host, v1.HostPathDirectory))
	setUp(t, m, pod)
	c := &v1.Container{Name: "c", VolumeMounts: []v1.VolumeMount{
		{Name: "data", MountPath: "/logs", SubPathExpr: "logs/$(NAME)"},
		{Name: "host", MountPath: "/file", SubPath: "file", ReadOnly: true},
		{Name: "data", MountPath: "/again", SubPath: "logs", ReadOnly: true},
	}}
	var mounts []criconfig.Mount
	for range 2 {
		var err error
		if mounts, err = m.Mounts(t.Context(), pod, c, map[string]string{"NAME": "p"}); err != nil {
			t.Fatal(err)
		}
	}
	subPaths := filepath.Join(m.podDir("u1"), "volume-subpaths")
	want := []criconfig.Mount{
		{HostPath: subPaths + "/data/c/0", ContainerPath: "/logs", SELinuxRelabel: true},
		{HostPath: subPaths + "/host/c/1", ContainerPath: "/file", ReadOnly: true},
		{HostPath: subPaths + "/data/c/2", ContainerPath: "/again", ReadOnly: true, SELinuxRelabel: true},
	}
	if diff := cmp.Diff(want, mounts); diff != "" {
		t.Fatalf("mounts (-want +got):\n%s", diff)
	}
	write(t, filepath.Join(mounts[0].HostPath, "log"), "x")
	holds(t, filepath.Join(dirOf(t, m, pod, "data"), "logs/p/log"), "x")
	holds(t, mounts[1].HostPath, "precious")
	for i, readOnly := range []bool{false, true, false} {
		// The runtime couldn't relabel a read-only mount.
		if is := fileSystem(t, mounts[i].HostPath).Flags&unix.ST_RDONLY != 0; is != readOnly {
			t.Errorf("%s is read-only for the runtime: %v", mounts[i].HostPath, is)
		}
	}

	if err := m.TearDown(t.Context(), "u1"); err != nil {
		t.Fatal(err)
	}
	gone(t, m.podDir("u1"))
	holds(t, filepath.Join(host, "file"), "precious")
}

func TestSubPathStaysInTheVolume(t *testing.T) {
	m := realManager(t)
	pod := podWith("u1", emptyDirVolume("data", v1.EmptyDirVolumeSource{}))
	setUp(t, m, pod)
	if err := os.Symlink("/etc", filepath.Join(dirOf(t, m, pod, "data"), "link")); err != nil {
		t.Fatal(err)
	}
	c := &v1.Container{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "data", SubPath: "link"}}}
	if _, err := m.Mounts(t.Context(), pod, c, nil); err == nil {
		t.Error("a link that a container made leads out of the volume")
	}
}

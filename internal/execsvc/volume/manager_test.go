package volume

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/mount-utils"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

func emptyDirVolume(name string, e v1.EmptyDirVolumeSource) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &e}}
}

func hostPathVolume(name, path string, kind v1.HostPathType) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: &kind}}}
}

func podWith(uid types.UID, volumes ...v1.Volume) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: uid}, Spec: v1.PodSpec{Volumes: volumes}}
}

// newManager is a Manager of a fresh directory that mounts nothing.
func newManager(t *testing.T) *Manager {
	t.Helper()
	return New(Config{PodsDir: filepath.Join(t.TempDir(), "pods"), Mounter: mount.NewFakeMounter(nil)})
}

// permissions are the file's permission bits as chmod(2) has them.
func permissions(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Mode & 0o7777
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEmptyDirOnDisk(t *testing.T) {
	m := newManager(t)
	pod := podWith("u1", emptyDirVolume("data", v1.EmptyDirVolumeSource{}), emptyDirVolume("tight", v1.EmptyDirVolumeSource{Mode: ptr.To[int32](0o700)}))
	if err := m.SetUp(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(m.podsDir, "u1/volumes/kubernetes.io~empty-dir/data")
	if got := permissions(t, data); got != 0o777 {
		t.Errorf("mode %o, want 777 in spite of the umask", got)
	}
	if got := permissions(t, filepath.Join(filepath.Dir(data), "tight")); got != 0o700 {
		t.Errorf("mode %o, want 700 as the volume says", got)
	}
	if got := permissions(t, filepath.Join(m.podsDir, "u1")); got&0o007 != 0 {
		t.Errorf("the pod's directory has mode %o, open to all", got)
	}

	// What a container did to it stays when the agent comes again.
	write(t, filepath.Join(data, "kept"), "x")
	if err := os.Chmod(data, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := m.SetUp(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(data, "kept")); err != nil {
		t.Errorf("the content is gone: %v", err)
	}
	if got := permissions(t, data); got != 0o750 {
		t.Errorf("mode %o, want 750 as the container set it", got)
	}
	entries, err := os.ReadDir(filepath.Dir(data))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2 {
		t.Errorf("%v beside the two volumes", entries)
	}
}

func TestFSGroupOwnsAnEmptyDir(t *testing.T) {
	// Everybody may give a directory to a group of his own.
	group := int64(os.Getgid())
	m := newManager(t)
	pod := podWith("u1", emptyDirVolume("data", v1.EmptyDirVolumeSource{Mode: ptr.To[int32](0o700)}))
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
	if os.Geteuid() == 0 {
		pod.Spec.SecurityContext.FSGroup = ptr.To[int64](4321)
		group = 4321
	}
	if err := m.SetUp(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	data := m.emptyDir("u1", "data")
	if got := permissions(t, data); got != 0o2770 {
		t.Errorf("mode %o, want 2770", got)
	}
	info, err := os.Stat(data)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Sys().(*syscall.Stat_t).Gid; int64(got) != group {
		t.Errorf("group %d, want %d", got, group)
	}
}

func TestSetUpRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		pod  *v1.Pod
		want string
	}{
		"a uid that leads elsewhere":  {podWith("../u"), "UID"},
		"an empty uid":                {podWith(""), "UID"},
		"a name that leads elsewhere": {podWith("u", emptyDirVolume("../../x", v1.EmptyDirVolumeSource{})), "name"},
		"a dotted name":               {podWith("u", emptyDirVolume(".new-1", v1.EmptyDirVolumeSource{})), "name"},
		"huge pages":                  {podWith("u", emptyDirVolume("v", v1.EmptyDirVolumeSource{Medium: v1.StorageMediumHugePages})), "HugePages"},
		"a secret":                    {podWith("u", v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}}), "secret"},
		"a volume of no type":         {podWith("u", v1.Volume{Name: "v"}), "without a source"},
		"a relative hostPath":         {podWith("u", hostPathVolume("v", "etc", "")), "absolute"},
		"a hostPath with dots":        {podWith("u", hostPathVolume("v", "/tmp/../etc", "")), "absolute"},
		"a hostPath of what type":     {podWith("u", hostPathVolume("v", "/tmp", "Pipe")), "Pipe"},
	} {
		m := newManager(t)
		if err := m.SetUp(t.Context(), c.pod); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v doesn't mention %q", name, err, c.want)
		}
	}
}

func TestSetUpEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := newManager(t)
	if err := m.SetUp(ctx, podWith("u", emptyDirVolume("v", v1.EmptyDirVolumeSource{}))); err == nil {
		t.Error("no error after its context ended")
	}
}

func TestMounts(t *testing.T) {
	m := newManager(t)
	pod := podWith("u1", emptyDirVolume("data", v1.EmptyDirVolumeSource{}), hostPathVolume("etc", "/etc", v1.HostPathDirectory))
	got, err := m.Mounts(pod, &v1.Container{VolumeMounts: []v1.VolumeMount{
		{Name: "etc", MountPath: "host/etc", ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyIfPossible)},
		{Name: "data", MountPath: "/data", MountPropagation: ptr.To(v1.MountPropagationHostToContainer)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []criconfig.Mount{
		{HostPath: "/etc", ContainerPath: "/host/etc", ReadOnly: true},
		{HostPath: filepath.Join(m.podsDir, "u1/volumes/kubernetes.io~empty-dir/data"), ContainerPath: "/data", Propagation: v1.MountPropagationHostToContainer},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

func TestMountsRefuseWhatTheyCantDo(t *testing.T) {
	m := newManager(t)
	pod := podWith("u1", emptyDirVolume("data", v1.EmptyDirVolumeSource{}),
		v1.Volume{Name: "cm", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}})
	for want, vm := range map[string]v1.VolumeMount{
		"subPath isn't":     {Name: "data", SubPath: "a"},
		"subPathExpr":       {Name: "data", SubPathExpr: "$(A)"},
		"bindMountOptions":  {Name: "data", BindMountOptions: []string{"noexec"}},
		"recursiveReadOnly": {Name: "data", ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyEnabled)},
		"configMap":         {Name: "cm"},
		"no volume":         {Name: "other"},
	} {
		if _, err := m.Mounts(pod, &v1.Container{VolumeMounts: []v1.VolumeMount{vm}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v doesn't mention %q", err, want)
		}
	}
	if _, err := m.Mounts(podWith("../u"), &v1.Container{}); err == nil {
		t.Error("a UID that leads elsewhere is let through")
	}
}

func TestLeftovers(t *testing.T) {
	m := newManager(t)
	if got, err := m.Leftovers(); err != nil || len(got) > 0 {
		t.Errorf("before any pod: %v, %v", got, err)
	}
	for _, uid := range []types.UID{"u1", "u2"} {
		if err := m.SetUp(t.Context(), podWith(uid)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(m.podsDir, "a-file"), "x")
	got, err := m.Leftovers()
	if err != nil {
		t.Fatal(err)
	}
	if slices.Sort(got); !slices.Equal(got, []types.UID{"u1", "u2"}) {
		t.Errorf("leftovers %v, want u1 and u2", got)
	}
}

package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/roottest"
)

func emptyDirVolume(name string, e v1.EmptyDirVolumeSource) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &e}}
}

func hostPathVolume(name, path string, kind v1.HostPathType) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: &kind}}}
}

// configMapVolume returns a volume of the ConfigMap of that name, under the same name.
func configMapVolume(name string) v1.Volume {
	source := v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{ConfigMap: &source}}
}

func secretVolume(name string) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: name}}}
}

// podWith returns a pod of one container that mounts all the volumes, at /<name>.
func podWith(uid types.UID, volumes ...v1.Volume) *v1.Pod {
	c := v1.Container{Name: "c"}
	for _, v := range volumes {
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: uid},
		Spec:       v1.PodSpec{Volumes: volumes, Containers: []v1.Container{c}},
	}
}

// grouped sets the pod's fsGroup.
func grouped(pod *v1.Pod, group int64) *v1.Pod {
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
	return pod
}

// newManager returns a Manager of a new directory that mounts nothing.
func newManager(t *testing.T) *Manager {
	t.Helper()
	return New(Config{PodDirs: kubeletdir.Pods{Current: filepath.Join(t.TempDir(), "pods")}, Mounter: mount.NewFakeMounter(nil)})
}

// realManager returns a Manager of a new directory that really mounts. Its mounts are unmounted after the test.
func realManager(t testing.TB) *Manager {
	t.Helper()
	roottest.Need(t, "mounting")
	m := New(Config{PodDirs: kubeletdir.Pods{Current: filepath.Join(t.TempDir(), "pods")}})
	t.Cleanup(func() {
		uids, err := m.PodsOnDisk()
		for _, uid := range uids {
			// t's own context has ended.
			err = errors.Join(err, m.TearDown(context.Background(), uid))
		}
		if err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return m
}

// setUp sets up the pod's volumes, which need no objects.
func setUp(t *testing.T, m *Manager, pod *v1.Pod) {
	t.Helper()
	setUpWith(t, m, pod, nil)
}

func setUpWith(t *testing.T, m *Manager, pod *v1.Pod, objects Objects) {
	t.Helper()
	if err := m.SetUp(t.Context(), Request{Pod: pod, Objects: objects}); err != nil {
		t.Fatal(err)
	}
}

// dirOf returns the directory of the pod's volume.
func dirOf(t *testing.T, m *Manager, pod *v1.Pod, name string) string {
	t.Helper()
	spec, err := specOf(pod, name)
	if err != nil {
		t.Fatal(err)
	}
	_, v, err := m.volume(t.Context(), pod, spec)
	if err != nil {
		t.Fatal(err)
	}
	return v.Dir
}

// known are ConfigMaps and Secrets by name, each with one key "k".
type known map[string]string

func (k known) ConfigMap(name string) (*v1.ConfigMap, error) {
	text, ok := k[name]
	if !ok {
		return nil, objects.ErrMissing
	}
	return &v1.ConfigMap{Data: map[string]string{"k": text}}, nil
}

func (k known) Secret(name string) (*v1.Secret, error) {
	text, ok := k[name]
	if !ok {
		return nil, objects.ErrMissing
	}
	return &v1.Secret{Data: map[string][]byte{"k": []byte(text)}}, nil
}

// status returns the status of the file itself, also of a link.
func status(t *testing.T, path string) *syscall.Stat_t {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t)
}

// permissions returns the file's permission bits of chmod(2).
func permissions(t *testing.T, path string) uint32 {
	t.Helper()
	return status(t, path).Mode & 0o7777
}

// fileSystem returns the type of the file system, as in statfs(2).
func fileSystem(t *testing.T, path string) unix.Statfs_t {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		t.Fatal(err)
	}
	return fs
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// holds checks the text of a file.
func holds(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s holds %q (%v), want %q", path, got, err, want)
	}
}

func gone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there (%v)", path, err)
	}
}

func there(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("%s is gone: %v", path, err)
	}
}

// unmountAfter unmounts what a failing test left, before its directory is removed.
func unmountAfter(t *testing.T, path string) {
	t.Helper()
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			t.Errorf("unmount %s: %v", path, err)
		}
	})
}

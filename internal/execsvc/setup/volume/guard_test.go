package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/machine/nodefs"
	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/roottest"
)

// A guarded directory is read-only for a container, whichever hostPath leads there.
func TestGuard(t *testing.T) {
	node := t.TempDir()
	run := filepath.Join(node, "run", "podstream")
	for _, dir := range []string{run, filepath.Join(run, "deeper"), filepath.Join(node, "other")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	owned(t, run)
	socket := filepath.Join(run, "podconfigd.sock")
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("run", filepath.Join(node, "var-run")); err != nil {
		t.Fatal(err)
	}
	m := New(Config{ReadOnlyDirs: []string{run, filepath.Join(node, "missing")}})
	is := func(host string, readOnly bool) criconfig.Mount {
		return criconfig.Mount{HostPath: host, ContainerPath: "/host", ReadOnly: readOnly}
	}
	below := func(container string) criconfig.Mount {
		return criconfig.Mount{HostPath: run, ContainerPath: container, ReadOnly: true}
	}
	parent, linked := filepath.Join(node, "run"), filepath.Join(node, "var-run")
	for name, tc := range map[string]struct {
		mounted criconfig.Mount
		want    []criconfig.Mount
	}{
		"the directory":         {is(run, false), []criconfig.Mount{is(run, true)}},
		"by a link":             {is(filepath.Join(linked, "podstream"), false), []criconfig.Mount{is(filepath.Join(linked, "podstream"), true)}},
		"what is in it":         {is(filepath.Join(run, "deeper"), false), []criconfig.Mount{is(filepath.Join(run, "deeper"), true)}},
		"the socket itself":     {is(socket, false), []criconfig.Mount{is(socket, true)}},
		"its parent":            {is(parent, false), []criconfig.Mount{is(parent, false), below("/host/podstream")}},
		"its parent, by a link": {is(linked, false), []criconfig.Mount{is(linked, false), below("/host/podstream")}},
		// It may be another mount, which read-only doesn't cover.
		"its parent, read-only":  {is(parent, true), []criconfig.Mount{is(parent, true), below("/host/podstream")}},
		"all of the node":        {is("/", false), []criconfig.Mount{is("/", false), below("/host" + run)}},
		"missing in it":          {is(filepath.Join(run, "no", "such"), false), []criconfig.Mount{is(filepath.Join(run, "no", "such"), true)}},
		"missing elsewhere":      {is(filepath.Join(node, "no", "such"), false), []criconfig.Mount{is(filepath.Join(node, "no", "such"), false)}},
		"something else":         {is(filepath.Join(node, "other"), false), []criconfig.Mount{is(filepath.Join(node, "other"), false)}},
		"something with no link": {is("/dev/null", false), []criconfig.Mount{is("/dev/null", false)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := m.guard(t.Context(), &v1.Pod{}, &v1.Container{}, tc.mounted)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("a privileged container", func(t *testing.T) {
		privileged := true
		got, err := m.guard(t.Context(), &v1.Pod{}, &v1.Container{SecurityContext: &v1.SecurityContext{Privileged: &privileged}}, is(run, false))
		if diff := cmp.Diff([]criconfig.Mount{is(run, false)}, got); err != nil || diff != "" {
			t.Errorf("%v, mounts (-want +got):\n%s", err, diff)
		}
	})
}

// A directory is guarded if podconfigd's own user or group can write to it, and other users can't.
func TestIsOwned(t *testing.T) {
	if os.Geteuid() != 0 {
		return // chown needs root.
	}
	dir := t.TempDir()
	for _, tc := range []struct {
		uid, gid int
		mode     os.FileMode
		want     bool
	}{
		{0, 65532, 0o775 | os.ModeSticky, true},
		{65532, 65532, 0o700, true},
		{0, 65532, 0o755, false},
		{0, 0, 0o775, false},
		{65532, 65532, 0o777 | os.ModeSticky, false},
	} {
		if err := os.Chown(dir, tc.uid, tc.gid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, tc.mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := isOwned(info); got != tc.want {
			t.Errorf("%d:%d with mode %v is guarded: %v, want %v", tc.uid, tc.gid, tc.mode, got, tc.want)
		}
	}
}

// owned changes a directory to podconfigd's user. Without root, that is the test's user.
func owned(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, 65532, 65532); err != nil {
			t.Fatal(err)
		}
	}
}

// A subPath is mounted elsewhere, and so is the guarded directory in it.
func TestSubPathsAreGuarded(t *testing.T) {
	roottest.Need(t, "mounting")
	node := t.TempDir()
	run := filepath.Join(node, "run", "podstream")
	if err := os.MkdirAll(filepath.Join(run, "deeper"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(run, "store"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	owned(t, run)
	m := realManager(t)
	m.readOnlyDirs = []string{run}
	pod := podWith("u1", v1.Volume{Name: "node", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: node}}})
	for sub, want := range map[string]bool{"run/podstream": true, "run/podstream/deeper": true, "run/podstream/store": true, "other": false} {
		c := &v1.Container{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "node", MountPath: "/mnt", SubPath: sub}}}
		got, err := m.Mounts(t.Context(), pod, c, nil)
		if err != nil || len(got) != 1 || got[0].ReadOnly != want {
			t.Errorf("%s: %+v, %v; want read-only: %v", sub, got, err, want)
		}
	}
	c := &v1.Container{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "node", MountPath: "/mnt", SubPath: "run"}}}
	got, err := m.Mounts(t.Context(), pod, c, nil)
	want := criconfig.Mount{HostPath: run, ContainerPath: "/mnt/podstream", ReadOnly: true}
	if err != nil || len(got) != 2 || got[0].ReadOnly || got[1] != want {
		t.Errorf("its parent: %+v, %v; want a second mount %+v", got, err, want)
	}
}

// TestDeepMountIsGuarded: a directory that was mounted and then moved deep into the guarded one is in it, though the table of mounts has
// only the beginning of its path.
func TestDeepMountIsGuarded(t *testing.T) {
	roottest.Need(t, "mounting")
	run, at := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(run, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	owned(t, run)
	unmountAfter(t, at)
	if err := unix.Mount(filepath.Join(run, "a"), at, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	top, err := os.OpenRoot(run)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	// Each new directory gets the chain of those before it.
	long := strings.Repeat("a", 255)
	for i := range 150 {
		next := fmt.Sprint(i)
		if err := top.Mkdir(next, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := top.Rename("a", next+"/"+long); err != nil {
			t.Fatal(err)
		}
		if err := top.Rename(next, "a"); err != nil {
			t.Fatal(err)
		}
	}
	in, _, err := relation(at, run)
	if err != nil || !in {
		t.Errorf("in it: %v, %v", in, err)
	}
	in, _, err = relation(at, t.TempDir())
	if err != nil || in {
		t.Errorf("in another directory: %v, %v", in, err)
	}
}

// Mounts guards hostPath volumes only.
func TestMountsAreGuarded(t *testing.T) {
	node := t.TempDir()
	run := filepath.Join(node, "run", "podstream")
	if err := os.MkdirAll(run, 0o755); err != nil {
		t.Fatal(err)
	}
	owned(t, run)
	m := New(Config{PodDirs: kubeletdir.Pods{Current: filepath.Join(node, "pods")}, ReadOnlyDirs: []string{run}})
	pod := &v1.Pod{Spec: v1.PodSpec{Volumes: []v1.Volume{{Name: "run", VolumeSource: v1.VolumeSource{
		HostPath: &v1.HostPathVolumeSource{Path: filepath.Join(node, "run")},
	}}}}}
	pod.UID = "u1"
	got, err := m.Mounts(t.Context(), pod, &v1.Container{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "run", MountPath: "/run"}}}, nil)
	want := []criconfig.Mount{
		{HostPath: filepath.Join(node, "run"), ContainerPath: "/run"}, {HostPath: run, ContainerPath: "/run/podstream", ReadOnly: true},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, mounts (-want +got):\n%s", err, diff)
	}
}

// If the file system of a hostPath doesn't answer, SetUp with a type or a subPath waits for a bounded time, and
// so does a container that mounts the volume.
func TestHungHostPathIsNotWaitedFor(t *testing.T) {
	for name, change := range map[string]func(*v1.HostPathVolumeSource, *v1.VolumeMount){
		"plain":     func(*v1.HostPathVolumeSource, *v1.VolumeMount) {},
		"a type":    func(h *v1.HostPathVolumeSource, _ *v1.VolumeMount) { h.Type = ptr.To(v1.HostPathDirectory) },
		"a subPath": func(_ *v1.HostPathVolumeSource, m *v1.VolumeMount) { m.SubPath = "a" },
	} {
		t.Run(name, func(t *testing.T) {
			node := t.TempDir()
			run := filepath.Join(node, "run")
			if err := os.Mkdir(run, 0o755); err != nil {
				t.Fatal(err)
			}
			owned(t, run)
			synctest.Test(t, func(t *testing.T) {
				m, hung := New(Config{PodDirs: kubeletdir.Pods{Current: filepath.Join(node, "pods")}, ReadOnlyDirs: []string{run}}), make(chan struct{})
				m.nodePaths.stat = func(name string) (fs.FileInfo, error) {
					if strings.HasPrefix(name, "/hung") {
						<-hung
					}
					return os.Stat(name)
				}
				source, mount := &v1.HostPathVolumeSource{Path: "/hung"}, v1.VolumeMount{Name: "nfs", MountPath: "/nfs"}
				change(source, &mount)
				pod := &v1.Pod{Spec: v1.PodSpec{Volumes: []v1.Volume{{Name: "nfs", VolumeSource: v1.VolumeSource{HostPath: source}}}}}
				pod.UID = "u1"
				c := v1.Container{Name: "c", VolumeMounts: []v1.VolumeMount{mount}}
				pod.Spec.Containers = []v1.Container{c}
				err := m.SetUp(t.Context(), Request{Pod: pod})
				if hangs := source.Type != nil; errors.Is(err, nodefs.ErrNoAnswer) != hangs || !hangs && err != nil {
					t.Errorf("SetUp: %v", err)
				}
				if _, err := m.Mounts(t.Context(), pod, &c, nil); !errors.Is(err, nodefs.ErrNoAnswer) {
					t.Errorf("Mounts: %v; want that it doesn't answer", err)
				}
				close(hung)
			})
		})
	}
}

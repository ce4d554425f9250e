package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/kubeletdir"
)

// TestLocated: a volume lies where its plugin says. Containers get it, and a subPath of it. Its directories are removed
// after its plugin has unmounted it.
func TestLocated(t *testing.T) {
	var released []types.UID
	m := newAttached(t, attacher{released: &released})
	c := &m.pod.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "c", MountPath: "/sub", SubPath: "part"})
	mounts, err := m.Mounts(t.Context(), m.pod, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, filepath.Join(m.dir, "mount/canary"), "alive")
	if mounts[0].HostPath != filepath.Join(m.dir, "mount") {
		t.Errorf("the container mounts %s", mounts[0].HostPath)
	}
	unmountAfter(t, mounts[2].HostPath)
	write(t, filepath.Join(mounts[2].HostPath, "f"), "written")
	holds(t, filepath.Join(m.device, "part/f"), "written")
	if uids, err := m.PodsOnDisk(); err != nil || !slices.Equal(uids, []types.UID{"u1", "known"}) {
		t.Errorf("pods %v (%v)", uids, err)
	}
	for range 2 {
		if err := m.TearDown(t.Context(), "u1"); err != nil {
			t.Fatal(err)
		}
	}
	gone(t, m.podDir("u1"))
	holds(t, m.canary, "alive")
	there(t, filepath.Join(m.device, mountName))
	if !slices.Equal(released, []types.UID{"u1", "u1"}) {
		t.Errorf("released %v, want u1 also without its directory", released)
	}
	if _, err := m.Mounts(t.Context(), m.pod, c, nil); err == nil {
		t.Error("a container gets a volume that isn't mounted")
	}
}

// TestNeverUnmountsWhatItDidNotMount: a volume that is still mounted after its plugin's TearDown, or that is mounted
// again meanwhile, is neither unmounted nor changed, and the pod's directory stays.
func TestNeverUnmountsWhatItDidNotMount(t *testing.T) {
	for name, meanwhile := range map[string]func(m attached) (mountPoint string, err error){
		"still mounted": func(m attached) (string, error) { return filepath.Join(m.dir, mountName), nil },
		"mounted again": func(m attached) (string, error) {
			at := filepath.Join(m.dir, mountName)
			return at, errors.Join(unix.Unmount(at, 0), unix.Mount(m.device, at, "", unix.MS_BIND, ""))
		},
		"over the volume's directory": func(m attached) (string, error) {
			err := unix.Unmount(filepath.Join(m.dir, mountName), 0)
			return m.dir, errors.Join(err, unix.Mount(m.device, m.dir, "", unix.MS_BIND, ""))
		},
		"over the plugin's directory": func(m attached) (string, error) {
			at := filepath.Dir(m.dir)
			err := unix.Unmount(filepath.Join(m.dir, mountName), 0)
			return at, errors.Join(err, os.MkdirAll(filepath.Join(m.device, "pv-c", mountName), 0o755), unix.Mount(m.device, at, "", unix.MS_BIND, ""))
		},
		"an empty file system": func(m attached) (string, error) {
			err := unix.Unmount(filepath.Join(m.dir, mountName), 0)
			return m.dir, errors.Join(err, unix.Mount("tmpfs", m.dir, "tmpfs", 0, ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var m attached
			torn := false
			m = newAttached(t, attacher{tearDown: func(Volume) error {
				if torn {
					return nil
				}
				torn = true
				at, err := meanwhile(m)
				unmountAfter(t, at)
				return err
			}})
			for range 2 {
				if err := m.TearDown(t.Context(), "u1"); !errors.Is(err, ErrMounted) {
					t.Fatalf("error %v, want ErrMounted", err)
				}
			}
			holds(t, m.canary, "alive")
			there(t, filepath.Join(m.device, mountName))
			there(t, filepath.Join(m.podDir("u1"), "volumes/kubernetes.io~empty-dir/e"))
			if err := mountedAt(m.dir); name == "over the volume's directory" && err != nil {
				t.Errorf("the mount was removed: %v", err)
			}
		})
	}
}

// TestNoXDEVIsNeeded: without the check for mounts, the same clean-up removes a directory in a neighbour's volume.
func TestNoXDEVIsNeeded(t *testing.T) {
	for name, tc := range map[string]struct {
		open func(podsDir, name string) (*os.File, error)
		want bool
	}{
		"checked": {openHere, true},
		"across mounts": {func(podsDir, name string) (*os.File, error) {
			return os.Open(filepath.Join(podsDir, name))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newAttached(t, attacher{})
			if err := unix.Unmount(filepath.Join(m.dir, mountName), 0); err != nil {
				t.Fatal(err)
			}
			unmountAfter(t, m.dir)
			if err := unix.Mount(m.device, m.dir, "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
			podsDir, err := resolve(m.podDirs.Current)
			if err != nil {
				t.Fatal(err)
			}
			if err := (emptied{podsDir, tc.open}).remove("u1/volumes/kubernetes.io~csi"); !errors.Is(err, ErrMounted) {
				t.Errorf("error %v, want ErrMounted", err)
			}
			if _, err := os.Lstat(filepath.Join(m.device, mountName)); (err == nil) != tc.want {
				t.Errorf("the neighbour's directory: %v; want that it is there: %v", err, tc.want)
			}
			holds(t, m.canary, "alive")
		})
	}
}

// TestNeverRemovesContentOfVolumes: below the directories of persistent volumes only empty directories are removed, and
// no link is followed; also if no plugin for them is configured.
func TestNeverRemovesContentOfVolumes(t *testing.T) {
	outside := t.TempDir()
	write(t, filepath.Join(outside, "precious"), "x")
	if err := os.Mkdir(filepath.Join(outside, mountName), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func(dir string) error{
		"a file in the volume's directory": func(dir string) error {
			return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "vol_data.json"), nil, 0o600))
		},
		"data in an unmounted volume": func(dir string) error {
			data := filepath.Join(dir, mountName, "data")
			return errors.Join(os.MkdirAll(data, 0o755), os.WriteFile(filepath.Join(data, "f"), nil, 0o600))
		},
		"a link as the volume's directory": func(dir string) error {
			return errors.Join(os.MkdirAll(filepath.Dir(dir), 0o755), os.Symlink(outside, dir))
		},
		"a link as the plugin's directory": func(dir string) error {
			parent := filepath.Dir(dir)
			return errors.Join(os.MkdirAll(filepath.Dir(parent), 0o755), os.Symlink(outside, parent))
		},
		"a file as the volume's directory": func(dir string) error {
			return errors.Join(os.MkdirAll(filepath.Dir(dir), 0o755), os.WriteFile(dir, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, pod := newManager(t), podWith("u1", emptyDirVolume("e", v1.EmptyDirVolumeSource{}))
			setUp(t, m, pod)
			dir := filepath.Join(m.podDir("u1"), "volumes/kubernetes.io~csi/pv")
			if err := plant(dir); err != nil {
				t.Fatal(err)
			}
			if err := m.TearDown(t.Context(), "u1"); err == nil || !strings.Contains(err.Error(), "kubernetes.io~csi") {
				t.Errorf("error %v, want one that names the directory", err)
			}
			there(t, filepath.Dir(dir))
			there(t, filepath.Join(outside, "precious"))
			there(t, filepath.Join(outside, mountName))
			if strings.Contains(name, "volume's") {
				there(t, dir)
			}
		})
	}
}

// TestRemoveTreeKeeps: content that appears in a kept directory after it was found empty isn't removed.
func TestRemoveTreeKeeps(t *testing.T) {
	top := filepath.Join(t.TempDir(), "top")
	kept := filepath.Join(top, "volumes/kubernetes.io~csi")
	if err := os.MkdirAll(filepath.Join(kept, "pv/mount"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := removeTree(top, kept); !errors.Is(err, unix.ENOTEMPTY) {
		t.Errorf("error %v", err)
	}
	there(t, filepath.Join(kept, "pv/mount"))
	if err := errors.Join(os.RemoveAll(filepath.Join(kept, "pv")), removeTree(top, kept)); err != nil {
		t.Error(err)
	}
	gone(t, top)
}

// TestSideBySide: volumes are set up at once: one waits here until another has failed. Errors are in the pod's order, and
// those with an operation have its name.
func TestSideBySide(t *testing.T) {
	m := New(Config{PodDirs: kubeletdir.Pods{Current: filepath.Join(t.TempDir(), "pods")}, Plugins: []Plugin{attacher{waits: make(chan struct{})}}})
	err := m.SetUp(t.Context(), Request{Pod: podWith("u1", claimVolume("slow"), claimVolume("bad"), emptyDirVolume("e", v1.EmptyDirVolumeSource{}))})
	want := "MountVolume.MountDevice failed for volume \"pv-slow\" : no device\nMountVolume.SetUp failed for volume \"bad\" : bad"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	there(t, filepath.Join(m.podDir("u1"), "volumes/kubernetes.io~empty-dir/e"))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.SetUp(ctx, Request{Pod: podWith("u2", claimVolume("x"), claimVolume("y"))}); err == nil || err.Error() != context.Canceled.Error() {
		t.Errorf("error %v, want one cancellation", err)
	}
}

// TestDiskIsFreed: a pod of which a persistent volume can't be released keeps no disk: its emptyDirs are removed. A full disk may be why it
// can't be released. No link is followed, and what is mounted stays.
func TestDiskIsFreed(t *testing.T) {
	full := errors.New("no space left on device")
	m := newAttached(t, attacher{tearDown: func(Volume) error { return full }})
	empty := filepath.Join(m.podDir("u1"), "volumes/kubernetes.io~empty-dir")
	outside := t.TempDir()
	write(t, filepath.Join(outside, "precious"), "x")
	inner := filepath.Join(empty, "mounted/inner")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(empty, "e/a"), 0o755))
	write(t, filepath.Join(empty, "e/a/large"), "x")
	must(os.Symlink(outside, filepath.Join(empty, "e/a/link")))
	must(os.Symlink(outside, filepath.Join(empty, "link")))
	must(os.MkdirAll(inner, 0o755))
	unmountAfter(t, inner)
	must(unix.Mount(m.device, inner, "", unix.MS_BIND, ""))
	for range 2 {
		if err := m.TearDown(t.Context(), "u1"); !errors.Is(err, full) {
			t.Fatalf("error %v, want that of the persistent volume", err)
		}
		gone(t, filepath.Join(empty, "e"))
		there(t, filepath.Join(outside, "precious"))
		holds(t, m.canary, "alive")
	}
	// A link in place of the emptyDirs' directory, which a driver's container may have made.
	must(unix.Unmount(inner, 0))
	must(os.RemoveAll(empty))
	must(os.Symlink(outside, empty))
	if err := m.TearDown(t.Context(), "u1"); !errors.Is(err, full) {
		t.Fatalf("error %v, want that of the persistent volume", err)
	}
	there(t, filepath.Join(outside, "precious"))
}

package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/roottest"
)

func TestTearDown(t *testing.T) {
	m, outside := newManager(t), t.TempDir()
	precious := filepath.Join(outside, "precious")
	write(t, precious, "x")
	pod := podWith("u1", emptyDirVolume("data", v1.EmptyDirVolumeSource{}), hostPathVolume("host", outside, v1.HostPathDirectory))
	other := podWith("u2", pod.Spec.Volumes...)
	setUp(t, m, pod)
	setUp(t, m, other)
	data := dirOf(t, m, pod, "data")
	if err := os.MkdirAll(filepath.Join(data, "a/b/c"), 0o700); err != nil {
		t.Fatal(err)
	}
	// More files than one read of a directory returns.
	for i := range 3*removeBatch + 1 {
		write(t, filepath.Join(data, "a", fmt.Sprintf("file%d", i)), "x")
	}
	for name, target := range map[string]string{"tofile": precious, "todir": outside, "nowhere": "/nonexistent"} {
		if err := os.Symlink(target, filepath.Join(data, "a/b", name)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := m.TearDown(t.Context(), "u1"); err != nil {
			t.Fatal(err)
		}
	}
	gone(t, m.podDir("u1"))
	there(t, dirOf(t, m, other, "data"))
	there(t, precious)
}

func TestTearDownRejects(t *testing.T) {
	m := newManager(t)
	setUp(t, m, podWith("u1"))
	for _, uid := range []types.UID{"", ".", "..", "../pods/u1", "u1/..", "/"} {
		if err := m.TearDown(t.Context(), uid); err != nil {
			t.Errorf("UID %q, whose pod has no directory, can't be torn down: %v", uid, err)
		}
	}
	elsewhere := t.TempDir()
	write(t, filepath.Join(elsewhere, "precious"), "x")
	if err := os.Symlink(elsewhere, filepath.Join(m.podDirs.Current, "link")); err != nil {
		t.Fatal(err)
	}
	if err := m.TearDown(t.Context(), "link"); err == nil {
		t.Error("a link in place of the pod's directory is accepted")
	}
	there(t, m.podDir("u1"))
	there(t, filepath.Join(elsewhere, "precious"))
}

func TestTearDownOfNothing(t *testing.T) {
	m := newManager(t)
	if err := m.TearDown(t.Context(), "u1"); err != nil {
		t.Errorf("without the pods' directory: %v", err)
	}
}

func TestTearDownUnmountsNestedMounts(t *testing.T) {
	m, pod := realManager(t), podWith("u1", emptyDirVolume("a", v1.EmptyDirVolumeSource{}))
	setUp(t, m, pod)
	outer := dirOf(t, m, pod, "a")
	inner := filepath.Join(outer, "inner")
	for _, path := range []string{outer, inner, inner, outer} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", path, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		unmountAfter(t, path)
	}
	if err := m.TearDown(t.Context(), "u1"); err != nil {
		t.Fatal(err)
	}
	gone(t, m.podDir("u1"))
}

// stubborn is a mounter that can't unmount. With blind set, it lists no mounts.
type stubborn struct {
	mount.Interface
	blind bool
}

func (s stubborn) Unmount(string) error { return errors.New("target is busy") }

func (s stubborn) List() ([]mount.MountPoint, error) {
	if s.blind {
		return nil, nil
	}
	return s.Interface.List()
}

// A bind mount has the same file system as the pod's directory, so device numbers don't show it.
func TestTearDownNeverDeletesThroughAMount(t *testing.T) {
	roottest.Need(t, "mounting")
	for name, blind := range map[string]bool{"seen but busy": false, "not in the table that was read": true} {
		t.Run(name, func(t *testing.T) {
			base, pod := t.TempDir(), podWith("u1", emptyDirVolume("a", v1.EmptyDirVolumeSource{}))
			m := New(Config{PodDirs: kubeletdir.Pods{Current: filepath.Join(base, "pods")}, Mounter: stubborn{mount.New(""), blind}})
			setUp(t, m, pod)
			outside, target := filepath.Join(base, "outside"), filepath.Join(dirOf(t, m, pod, "a"), "bound")
			for _, dir := range []string{outside, target} {
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			precious := filepath.Join(outside, "precious")
			write(t, precious, "x")
			if err := unix.Mount(outside, target, "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
			unmountAfter(t, target)

			if err := m.TearDown(t.Context(), "u1"); !errors.Is(err, ErrMounted) || !strings.Contains(err.Error(), target) {
				t.Errorf("error %v, want ErrMounted that names %s", err, target)
			}
			there(t, precious)

			// Once it can be unmounted, the rest is removed.
			if err := New(Config{PodDirs: m.podDirs}).TearDown(t.Context(), "u1"); err != nil {
				t.Fatal(err)
			}
			gone(t, m.podDir("u1"))
			there(t, precious)
		})
	}
}

func TestTearDownNeverDeletesABoundFile(t *testing.T) {
	roottest.Need(t, "mounting")
	base, pod := t.TempDir(), podWith("u1", emptyDirVolume("a", v1.EmptyDirVolumeSource{}))
	m := New(Config{PodDirs: kubeletdir.Pods{Current: filepath.Join(base, "pods")}, Mounter: stubborn{mount.New(""), true}})
	setUp(t, m, pod)
	precious, target := filepath.Join(base, "precious"), filepath.Join(dirOf(t, m, pod, "a"), "bound")
	write(t, precious, "x")
	write(t, target, "")
	if err := unix.Mount(precious, target, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	unmountAfter(t, target)
	if err := m.TearDown(t.Context(), "u1"); !errors.Is(err, ErrMounted) {
		t.Errorf("error %v, want ErrMounted", err)
	}
	there(t, precious)
}

// lender is a plugin that mounts a directory of its own in the volume's directory.
type lender struct {
	lent string
	// busy is the error of TearDown.
	busy error
	// torn are the volumes for which TearDown was called.
	torn *[]Volume
}

func (lender) Name() string               { return "example.com/lender" }
func (lender) Takes(spec *v1.Volume) bool { return spec.NFS != nil }
func (lender) Source(v Volume) Source     { return Source{Path: filepath.Join(v.Dir, "mount")} }
func (l lender) SetUp(_ context.Context, v Volume) error {
	target := filepath.Join(v.Dir, "mount")
	return errors.Join(os.MkdirAll(target, 0o755), unix.Mount(l.lent, target, "", unix.MS_BIND, ""))
}

func (l lender) TearDown(_ context.Context, v Volume) error {
	*l.torn = append(*l.torn, v)
	return l.busy
}

// TestPlugin: a volume is removed only after its plugin's TearDown succeeded; its subPaths are unmounted before.
func TestPlugin(t *testing.T) {
	roottest.Need(t, "mounting")
	base := t.TempDir()
	pods, lent := filepath.Join(base, "pods"), filepath.Join(base, "lent")
	if err := os.MkdirAll(filepath.Join(lent, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	var torn []Volume
	l := lender{lent: lent, torn: &torn}
	m := New(Config{PodDirs: kubeletdir.Pods{Current: pods}, Plugins: []Plugin{l}})
	pod := podWith("u1", v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{}}})
	dir := filepath.Join(pods, "u1/volumes/example.com~lender/v")
	unmountAfter(t, filepath.Join(dir, "mount"))
	setUp(t, m, pod)
	pod.Spec.Containers[0].VolumeMounts[0].SubPath = "sub"
	mounts, err := m.Mounts(t.Context(), pod, &pod.Spec.Containers[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	unmountAfter(t, mounts[0].HostPath)

	l.busy = errors.New("it's still wanted")
	err = New(Config{PodDirs: kubeletdir.Pods{Current: pods}, Plugins: []Plugin{l}}).TearDown(t.Context(), "u1")
	if !errors.Is(err, l.busy) || !strings.Contains(err.Error(), `volume "v"`) {
		t.Errorf("error %v, want the plugin's, for the volume", err)
	}
	if want := []Volume{{UID: "u1", Name: "v", Dir: dir}}; !reflect.DeepEqual(torn, want) {
		t.Errorf("TearDown was called for %+v, want %+v", torn, want)
	}
	gone(t, mounts[0].HostPath)
	there(t, filepath.Join(dir, "mount/sub"))

	if err := m.TearDown(t.Context(), "u1"); err != nil {
		t.Fatal(err)
	}
	gone(t, filepath.Join(pods, "u1"))
	there(t, filepath.Join(lent, "sub"))
}

// TestRemoveTreeAnyDepth: a container can nest directories deeper than any path reaches. Their removal needs neither
// a descriptor nor a path for each.
func TestRemoveTreeAnyDepth(t *testing.T) {
	const depth, descriptors = 2000, 500
	top := filepath.Join(t.TempDir(), "top")
	if err := os.Mkdir(top, 0o755); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Open(top, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for range depth {
		if err != nil {
			break
		}
		// The same name twice: a moved directory must not collide.
		err = errors.Join(unix.Mkdirat(at, "d", 0o755), unix.Mkdirat(at, "e", 0o755))
		next, openErr := unix.Openat(at, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		err = errors.Join(err, openErr, unix.Close(at))
		at = next
	}
	if err = errors.Join(err, unix.Close(at)); err != nil {
		t.Fatal(err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = descriptors
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	removed := removeTree(top)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if removed != nil {
		t.Errorf("%.200s", removed)
	}
	gone(t, top)
}

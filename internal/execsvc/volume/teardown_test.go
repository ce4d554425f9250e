package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/mount-utils"
	"k8s.io/utils/ptr"
)

func gone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there (%v)", path, err)
	}
}

func there(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("%s isn't there any more: %v", path, err)
	}
}

func TestTearDown(t *testing.T) {
	m, outside := newManager(t), t.TempDir()
	precious := filepath.Join(outside, "precious")
	write(t, precious, "x")
	pod := podWith("u1", emptyDirVolume("data", v1.EmptyDirVolumeSource{}), hostPathVolume("host", outside, v1.HostPathDirectory))
	for _, p := range []*v1.Pod{pod, podWith("u2", pod.Spec.Volumes...)} {
		if err := m.SetUp(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	data := m.emptyDir("u1", "data")
	if err := os.MkdirAll(filepath.Join(data, "a/b/c"), 0o700); err != nil {
		t.Fatal(err)
	}
	// More files than are listed at once, in one directory.
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
	there(t, m.emptyDir("u2", "data"))
	there(t, precious)
}

func TestTearDownRefuses(t *testing.T) {
	m := newManager(t)
	if err := m.SetUp(t.Context(), podWith("u1")); err != nil {
		t.Fatal(err)
	}
	for _, uid := range []types.UID{"", ".", "..", "../pods/u1", "u1/..", "/"} {
		if err := m.TearDown(t.Context(), uid); err == nil {
			t.Errorf("UID %q is let through", uid)
		}
	}
	elsewhere := t.TempDir()
	write(t, filepath.Join(elsewhere, "precious"), "x")
	if err := os.Symlink(elsewhere, filepath.Join(m.podsDir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := m.TearDown(t.Context(), "link"); err == nil {
		t.Error("a link in place of the pod's directory is let through")
	}
	there(t, m.podDir("u1"))
	there(t, filepath.Join(elsewhere, "precious"))
}

func TestTearDownOfNothing(t *testing.T) {
	m := newManager(t)
	if err := m.TearDown(t.Context(), "u1"); err != nil {
		t.Errorf("without a directory of pods: %v", err)
	}
}

// needRoot skips a test that mounts.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("PODSTREAM_REQUIRE_RUNTIME") != "" {
		t.Fatal("mounts need root")
	}
	t.Skip("mounts need root: sudo make test")
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

func TestEmptyDirInMemory(t *testing.T) {
	needRoot(t)
	// A link and a space on the way there must not hide the mount.
	root := filepath.Join(t.TempDir(), "root dir")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	m := New(Config{PodsDir: filepath.Join(link, "pods")})
	pod := podWith("u1", emptyDirVolume("mem", v1.EmptyDirVolumeSource{
		Medium: v1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("1Mi"))}))
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](4321)}
	dir := m.emptyDir("u1", "mem")
	unmountAfter(t, dir)
	if err := m.SetUp(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Type != unix.TMPFS_MAGIC {
		t.Errorf("file system %x, want a tmpfs", fs.Type)
	}
	if size := int64(fs.Blocks) * fs.Bsize; size != 1<<20 {
		t.Errorf("it holds %d bytes, want 1 MiB", size)
	}
	if got := permissions(t, dir); got != 0o2777 {
		t.Errorf("mode %o, want 2777", got)
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	if st.Gid != 4321 {
		t.Errorf("group %d, want the fsGroup", st.Gid)
	}

	// The agent comes again: no second mount hides the first.
	write(t, filepath.Join(dir, "kept"), "x")
	if err := m.SetUp(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	there(t, filepath.Join(dir, "kept"))

	if err := m.TearDown(t.Context(), "u1"); err != nil {
		t.Fatal(err)
	}
	gone(t, m.podDir("u1"))
}

func TestTearDownUnmountsWhatLiesInAndOverAnother(t *testing.T) {
	needRoot(t)
	m := New(Config{PodsDir: filepath.Join(t.TempDir(), "pods")})
	if err := m.SetUp(t.Context(), podWith("u1", emptyDirVolume("a", v1.EmptyDirVolumeSource{}))); err != nil {
		t.Fatal(err)
	}
	outer := m.emptyDir("u1", "a")
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

// stubborn is a mounter that can't unmount, and, if blind, doesn't even see mounts.
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

// A bind mount is of the same file system as the pod's directory, so device numbers wouldn't tell it.
func TestTearDownNeverDeletesThroughAMount(t *testing.T) {
	needRoot(t)
	for name, blind := range map[string]bool{"seen but busy": false, "not in the table that was read": true} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			m := New(Config{PodsDir: filepath.Join(base, "pods"), Mounter: stubborn{mount.New(""), blind}})
			if err := m.SetUp(t.Context(), podWith("u1", emptyDirVolume("a", v1.EmptyDirVolumeSource{}))); err != nil {
				t.Fatal(err)
			}
			outside, target := filepath.Join(base, "outside"), filepath.Join(m.emptyDir("u1", "a"), "bound")
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

			// Once it can be unmounted, the rest goes.
			if err := New(Config{PodsDir: m.podsDir}).TearDown(t.Context(), "u1"); err != nil {
				t.Fatal(err)
			}
			gone(t, m.podDir("u1"))
			there(t, precious)
		})
	}
}

func TestTearDownNeverDeletesABoundFile(t *testing.T) {
	needRoot(t)
	base := t.TempDir()
	m := New(Config{PodsDir: filepath.Join(base, "pods"), Mounter: stubborn{mount.New(""), true}})
	if err := m.SetUp(t.Context(), podWith("u1", emptyDirVolume("a", v1.EmptyDirVolumeSource{}))); err != nil {
		t.Fatal(err)
	}
	precious, target := filepath.Join(base, "precious"), filepath.Join(m.emptyDir("u1", "a"), "bound")
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

func TestMemoryLimit(t *testing.T) {
	limited := func(memory string) v1.Container {
		c := v1.Container{}
		if memory != "" {
			c.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}
		}
		return c
	}
	for name, c := range map[string]struct {
		size       string
		init, main []v1.Container
		want       int64
	}{
		"nothing":                   {main: []v1.Container{limited("")}},
		"size":                      {size: "1Ki", main: []v1.Container{limited("")}, want: 1 << 10},
		"containers":                {main: []v1.Container{limited("1Ki"), limited("2Ki")}, want: 3 << 10},
		"one container is free":     {main: []v1.Container{limited("1Ki"), limited("")}},
		"the less of both, size":    {size: "1Ki", main: []v1.Container{limited("2Ki")}, want: 1 << 10},
		"the less of both, limits":  {size: "4Ki", main: []v1.Container{limited("2Ki")}, want: 2 << 10},
		"a large init container":    {init: []v1.Container{limited("8Ki")}, main: []v1.Container{limited("2Ki")}, want: 8 << 10},
		"an init container is free": {size: "1Mi", init: []v1.Container{limited("")}, main: []v1.Container{limited("2Ki")}, want: 1 << 20},
	} {
		e := v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}
		if c.size != "" {
			e.SizeLimit = ptr.To(resource.MustParse(c.size))
		}
		pod := &v1.Pod{Spec: v1.PodSpec{InitContainers: c.init, Containers: c.main}}
		if got := memoryLimit(pod, &e); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

package volume

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/mount-utils"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/roottest"
)

func TestEmptyDirOnDisk(t *testing.T) {
	m := newManager(t)
	pod := podWith("u1", emptyDirVolume("data", v1.EmptyDirVolumeSource{}),
		emptyDirVolume("tight", v1.EmptyDirVolumeSource{Mode: ptr.To[int32](0o700)}))
	setUp(t, m, pod)
	data := filepath.Join(m.podDirs.Current, "u1/volumes/kubernetes.io~empty-dir/data")
	if got := permissions(t, data); got != 0o777 {
		t.Errorf("mode %o, want 777 in spite of the umask", got)
	}
	if got := permissions(t, filepath.Join(filepath.Dir(data), "tight")); got != 0o700 {
		t.Errorf("mode %o, want 700 as in the volume", got)
	}
	if got := permissions(t, filepath.Join(m.podDirs.Current, "u1")); got&0o007 != 0 {
		t.Errorf("the pod's directory has mode %o, open to all", got)
	}

	// A container's changes stay after a restart of the agent.
	write(t, filepath.Join(data, "kept"), "x")
	if err := os.Chmod(data, 0o750); err != nil {
		t.Fatal(err)
	}
	setUp(t, m, pod)
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
		t.Errorf("%v besides the two volumes", entries)
	}
}

func TestFSGroupOwnsAnEmptyDir(t *testing.T) {
	// Every user may change a directory to one of the user's groups.
	group := int64(os.Getgid())
	if os.Geteuid() == 0 {
		group = 4321
	}
	m := newManager(t)
	pod := grouped(podWith("u1", emptyDirVolume("data", v1.EmptyDirVolumeSource{Mode: ptr.To[int32](0o700)})), group)
	setUp(t, m, pod)
	st := status(t, dirOf(t, m, pod, "data"))
	if mode := st.Mode & 0o7777; mode != 0o2770 || int64(st.Gid) != group {
		t.Errorf("mode %o and group %d, want 2770 and %d", mode, st.Gid, group)
	}
}

func TestEmptyDirInMemory(t *testing.T) {
	roottest.Need(t, "mounting")
	// A link and a space in the path must not hide the mount.
	root := filepath.Join(t.TempDir(), "root dir")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	m := New(Config{PodDirs: kubeletdir.Pods{Current: filepath.Join(link, "pods")}})
	pod := grouped(podWith("u1", emptyDirVolume("mem", v1.EmptyDirVolumeSource{
		Medium: v1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("1Mi"))})), 4321)
	dir := dirOf(t, m, pod, "mem")
	unmountAfter(t, dir)
	setUp(t, m, pod)
	fs := fileSystem(t, dir)
	if fs.Type != unix.TMPFS_MAGIC {
		t.Errorf("file system %x, want a tmpfs", fs.Type)
	}
	if size := int64(fs.Blocks) * fs.Bsize; size != 1<<20 {
		t.Errorf("it holds %d bytes, want 1 MiB", size)
	}
	st := status(t, dir)
	if mode := st.Mode & 0o7777; mode != 0o3777 || st.Gid != 4321 {
		t.Errorf("mode %o and group %d, want 3777 and the fsGroup", mode, st.Gid)
	}

	// After a restart no second mount hides the first.
	write(t, filepath.Join(dir, "kept"), "x")
	setUp(t, m, pod)
	there(t, filepath.Join(dir, "kept"))

	if err := m.TearDown(t.Context(), "u1"); err != nil {
		t.Fatal(err)
	}
	gone(t, m.podDir("u1"))
}

// oldKernel is the mounter of a kernel without noswap.
type oldKernel struct{ mount.Interface }

func (o oldKernel) MountSensitiveWithoutSystemd(source, target, fstype string, options, sensitive []string) error {
	if slices.Contains(options, "noswap") {
		return errors.New("unknown parameter")
	}
	return o.Interface.MountSensitiveWithoutSystemd(source, target, fstype, options, sensitive)
}

func TestMemoryIsNotSwappedWhereTheKernelCan(t *testing.T) {
	for swaps, mounter := range map[bool]mount.Interface{
		false: mount.NewFakeMounter(nil), true: oldKernel{mount.NewFakeMounter(nil)},
	} {
		m := New(Config{PodDirs: kubeletdir.Pods{Current: filepath.Join(t.TempDir(), "pods")}, Mounter: mounter})
		setUp(t, m, podWith("u1", emptyDirVolume("mem", v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory})))
		mounts, err := mounter.List()
		if err != nil {
			t.Fatal(err)
		}
		if len(mounts) != 1 || slices.Contains(mounts[0].Opts, "noswap") == swaps || !slices.Contains(mounts[0].Opts, "mode=1777") {
			t.Errorf("on a kernel that has to swap (%v): mounts %+v", swaps, mounts)
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	limited := func(memory string) v1.Container {
		c := v1.Container{}
		if memory != "" {
			c.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}
		}
		return c
	}
	sidecar := limited("8Ki")
	sidecar.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
	for name, c := range map[string]struct {
		size, pod, node string
		init, main      []v1.Container
		want            int64
	}{
		"nothing":                   {main: []v1.Container{limited("")}},
		"size":                      {size: "1Ki", main: []v1.Container{limited("")}, want: 1 << 10},
		"containers":                {main: []v1.Container{limited("1Ki"), limited("2Ki")}, want: 3 << 10},
		"one container is free":     {main: []v1.Container{limited("1Ki"), limited("")}},
		"the less of both, size":    {size: "1Ki", main: []v1.Container{limited("2Ki")}, want: 1 << 10},
		"the less of both, limits":  {size: "4Ki", main: []v1.Container{limited("2Ki")}, want: 2 << 10},
		"a large init container":    {init: []v1.Container{limited("8Ki")}, main: []v1.Container{limited("2Ki")}, want: 8 << 10},
		"a sidecar":                 {init: []v1.Container{sidecar}, main: []v1.Container{limited("2Ki")}, want: 10 << 10},
		"an init container is free": {size: "1Mi", init: []v1.Container{limited("")}, main: []v1.Container{limited("2Ki")}, want: 1 << 20},
		"the pod as a whole":        {pod: "1Ki", main: []v1.Container{limited("")}, want: 1 << 10},
		"a small node":              {size: "4Ki", node: "2Ki", main: []v1.Container{limited("")}, want: 2 << 10},
		"a large node":              {size: "4Ki", node: "8Ki", main: []v1.Container{limited("")}, want: 4 << 10},
	} {
		e := v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}
		if c.size != "" {
			e.SizeLimit = ptr.To(resource.MustParse(c.size))
		}
		spec := emptyDirVolume("v", e)
		v := Volume{Pod: &v1.Pod{Spec: v1.PodSpec{InitContainers: c.init, Containers: c.main}}, Spec: &spec}
		if c.pod != "" {
			whole := limited(c.pod).Resources
			v.Pod.Spec.Resources = &whole
		}
		if c.node != "" {
			v.Facts.Allocatable = limited(c.node).Resources.Limits
		}
		if got := memoryLimit(v); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

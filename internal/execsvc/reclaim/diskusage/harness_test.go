package diskusage

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/kubeletdir"
)

const mi = 1 << 20

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// disk has the directories of pods.
type disk struct {
	t    *testing.T
	root string
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	root, err := os.MkdirTemp("", "diskusage")
	if err != nil {
		t.Fatal(err)
	}
	// os.RemoveAll holds a descriptor for each level.
	t.Cleanup(func() {
		if out, err := exec.Command("rm", "-rf", root).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return &disk{t: t, root: root}
}

func (d *disk) config() Config {
	return Config{PodDirs: kubeletdir.Pods{Current: filepath.Join(d.root, "pods")}, LogsDir: filepath.Join(d.root, "logs")}
}

// pod returns a pod with a container "main" and emptyDirs of those names.
func pod(uid types.UID, volumes ...string) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "default", Name: "web"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}},
	}
	for _, name := range volumes {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}})
	}
	return p
}

// dir creates a directory below the root, and returns its path.
func (d *disk) dir(path ...string) string {
	d.t.Helper()
	at := filepath.Join(append([]string{d.root}, path...)...)
	if err := os.MkdirAll(at, 0o750); err != nil {
		d.t.Fatal(err)
	}
	return at
}

// volume creates an emptyDir, and returns its path.
func (d *disk) volume(p *v1.Pod, name string) string {
	d.t.Helper()
	return d.dir("pods", string(p.UID), "volumes", "kubernetes.io~empty-dir", name)
}

// write writes a file of that size, with its directories.
func (d *disk) write(size int, path ...string) {
	d.t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// chain creates a chain of nested directories, as a container could, and calls each with the descriptor of
// every directory.
func (d *disk) chain(dir, name string, depth int, each func(level, fd int)) {
	d.t.Helper()
	at, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_RDONLY, 0)
	check(d.t, err)
	for level := range depth {
		check(d.t, unix.Mkdirat(at, name, 0o755))
		next, err := unix.Openat(at, name, unix.O_DIRECTORY|unix.O_RDONLY, 0)
		check(d.t, err)
		check(d.t, unix.Close(at))
		at = next
		each(level, at)
	}
	check(d.t, unix.Close(at))
}

// create creates an empty file in an open directory.
func create(t *testing.T, dir int, name string) {
	t.Helper()
	fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_WRONLY, 0o644)
	check(t, err)
	check(t, unix.Close(fd))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// count counts a pod without a pause. tick may be nil.
func (d *disk) count(p *v1.Pod, tick func(files int, sofar Figure) error) *Usage {
	if tick == nil {
		tick = func(int, Figure) error { return nil }
	}
	cfg := d.config()
	return (&count{podsDir: cfg.PodDirs.Current, logsDir: cfg.LogsDir, pod: p, tick: tick, linked: linked{most: maxLinked}}).run()
}

// sizeOf returns the size of the files at and below a path. A file counts once for each of its names.
func sizeOf(t *testing.T, path string) (f Figure) {
	t.Helper()
	check(t, filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		f.add(Figure{info.Sys().(*syscall.Stat_t).Blocks * 512, 1})
		return nil
	}))
	return f
}

var long = strings.Repeat("x", 250)

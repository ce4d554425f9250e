package kubeletproc

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tree is a procfs of a test. Its root directory is dir.
type tree struct {
	t    *testing.T
	proc string
	dir  string
}

// newTree makes procfs with the process of the test, whose mount namespace is mnt:[1].
func newTree(t *testing.T) *tree {
	f := &tree{t, t.TempDir(), t.TempDir()}
	for _, process := range []string{"self", "1"} {
		f.link(process+"/ns/pid", "pid:[1]")
		f.link(process+"/ns/mnt", "mnt:[1]")
	}
	return f
}

func (f *tree) link(name, target string) {
	f.t.Helper()
	path := filepath.Join(f.proc, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.Symlink(target, path)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *tree) file(path, text string) {
	f.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		f.t.Fatal(err)
	}
}

// kubelet adds a process of root that is named kubelet and has a configuration file.
func (f *tree) kubelet(pid int, mount, config string) *kubelet {
	f.t.Helper()
	dir := filepath.Join(f.proc, strconv.Itoa(pid))
	f.file(filepath.Join(dir, "cmdline"), "kubelet\x00--config=/"+config+"\x00")
	f.file(filepath.Join(dir, "status"), "Uid:\t0\t0\t0\t0\n")
	f.link(strconv.Itoa(pid)+"/ns/pid", "pid:[2]")
	f.link(strconv.Itoa(pid)+"/ns/mnt", mount)
	f.link(strconv.Itoa(pid)+"/root", f.dir)
	return &kubelet{dir: dir, arguments: []string{"kubelet", "--config=/" + config}}
}

// runtime makes a socket in the root directory, and a configuration file that names it, of at least size bytes.
func (f *tree) runtime(config string, size int) *unix.Stat_t {
	f.t.Helper()
	socket := filepath.Join(f.dir, "r.sock")
	if _, err := os.Stat(socket); err != nil {
		listener, err := net.Listen("unix", socket)
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(func() { _ = listener.Close() })
	}
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncontainerRuntimeEndpoint: unix:///r.sock\n"
	for len(text) < size {
		text += "#" + strings.Repeat(" ", 100) + "\n"
	}
	f.file(filepath.Join(f.dir, config), text)
	stat := new(unix.Stat_t)
	if err := unix.Stat(socket, stat); err != nil {
		f.t.Fatal(err)
	}
	return stat
}

// TestContainersAreBounded: of the processes of containers, a bounded number is read, and bounded bytes of their files. The node's
// own kubelet is found after any number of them, and doesn't count towards the bounds.
func TestContainersAreBounded(t *testing.T) {
	const pod, node = "mnt:[2]", "mnt:[1]"
	f := newTree(t)
	runtime := f.runtime("large", 900<<10)
	f.runtime("small", 0)
	large, small, own := f.kubelet(10, pod, "large"), f.kubelet(11, pod, "small"), f.kubelet(12, node, "large")
	uses := func(r *reader, k *kubelet) bool {
		t.Helper()
		socket, err := r.uses(t.Context(), k, owned{runtime: runtime})
		if err != nil {
			t.Fatal(err)
		}
		return socket == "it uses the container runtime /r.sock"
	}

	r := newReader(f.proc)
	r.limit = time.Minute // the bounds of bytes, not of time, are tested
	found := 0
	for range 20 {
		if uses(r, large) {
			found++
		}
	}
	if found != 4 || r.bytes > maxContainedBytes {
		t.Errorf("of 20 large files of containers %d are read, with %d bytes; want 4, and at most %d", found, r.bytes, maxContainedBytes)
	}
	for range 20 {
		if !uses(r, own) {
			t.Fatal("after them, the node's kubelet isn't found")
		}
	}

	r, found = newReader(f.proc), 0
	r.limit = time.Minute
	for range 2 * maxContained {
		if uses(r, small) {
			found++
		}
	}
	if found != maxContained {
		t.Errorf("of %d small files of containers %d are read; want %d", 2*maxContained, found, maxContained)
	}
	if !uses(r, own) {
		t.Error("after them, the node's kubelet isn't found")
	}
	if kubelet, err := (Search{Proc: f.proc, Socket: filepath.Join(f.dir, "r.sock")}).Find(t.Context()); err != nil || kubelet == nil {
		t.Errorf("found %v, %v; want one of the processes", kubelet, err)
	}
}

// TestTimeIsBounded: a file whose server doesn't answer is given up. Of a node's own process, that is an error, as it may use the
// runtime; of containers, some are given up, and then no more are looked at.
func TestTimeIsBounded(t *testing.T) {
	f := newTree(t)
	runtime := f.runtime("small", 0)
	r := newReader(f.proc)
	r.limit = 0
	if _, err := r.uses(t.Context(), f.kubelet(10, "mnt:[1]", "small"), owned{runtime: runtime}); err == nil || !strings.Contains(err.Error(), "can't be read within") {
		t.Errorf("the node's own process: error %v", err)
	}
	contained := f.kubelet(11, "mnt:[2]", "small")
	for range maxStuck {
		if socket, err := r.uses(t.Context(), contained, owned{runtime: runtime}); err != nil || socket != "" {
			t.Errorf("a container's process: %q, %v", socket, err)
		}
	}
	r.limit = time.Minute
	if socket, err := r.uses(t.Context(), contained, owned{runtime: runtime}); err != nil || socket != "" {
		t.Errorf("after %d that were given up: %q, %v; want none", maxStuck, socket, err)
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newReader(f.proc).uses(ended, contained, owned{runtime: runtime}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the search: error %v", err)
	}
	if endpoint, _ := contained.configured(ended, "/small", 1<<20); endpoint != "" {
		t.Errorf("after the end of the search the configuration is read: %q", endpoint)
	}
}

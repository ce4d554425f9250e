package kubeletdir

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/roottest"
)

// node has the directories of one podexecd.
type node struct {
	t   *testing.T
	cfg Config
	log strings.Builder
}

func newNode(t *testing.T) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{t: t}
	n.cfg = Config{Path: filepath.Join(dir, "kubelet"), RootDir: filepath.Join(dir, "root"), Agent: "me", Logger: slog.New(slog.NewTextHandler(&n.log, nil))}
	n.mkdir(n.cfg.RootDir)
	return n
}

func (n *node) mkdir(path string) string {
	n.t.Helper()
	if err := os.MkdirAll(path, 0o750); err != nil {
		n.t.Fatal(err)
	}
	return path
}

// open opens the directory until the end of the test.
func (n *node) open() *Dir {
	n.t.Helper()
	d, err := Open(n.cfg)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(d.Close)
	return d
}

// refused checks that Open fails with these texts, and leaves the directory unlocked.
func (n *node) refused(want ...string) {
	n.t.Helper()
	d, err := Open(n.cfg)
	if err == nil {
		d.Close()
		n.t.Fatalf("Open: no error; want one with %q", want)
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			n.t.Errorf("the error is %v; want it to name %q", err, text)
		}
	}
}

// TestLayout: the directories have the kubelet's names and modes, and those that exist keep theirs.
func TestLayout(t *testing.T) {
	n := newNode(t)
	own := n.mkdir(Plugins(n.cfg.Path))
	if err := os.Chmod(own, 0o755); err != nil {
		t.Fatal(err)
	}
	d := n.open()
	for path, mode := range map[string]os.FileMode{
		n.cfg.Path: 0o750, n.cfg.Path + "/pods": 0o750, n.cfg.Path + "/plugins": 0o755, n.cfg.Path + "/plugins_registry": 0o750,
		n.cfg.Path + "/device-plugins": 0o750, n.cfg.Path + "/pod-resources": 0o750,
	} {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if !info.IsDir() || info.Mode().Perm() != mode {
			t.Errorf("%s is %v; want a directory with the mode %v", path, info.Mode(), mode)
		}
	}
	if want := (Pods{Current: n.cfg.Path + "/pods"}); d.Pods != want {
		t.Errorf("the pods' directories are in %+v; want %+v", d.Pods, want)
	}
	if n.log.Len() > 0 {
		t.Errorf("a good directory is reported: %s", &n.log)
	}
}

// TestSecondPodexecd: a second podexecd is refused with the first one's process, until that one ends.
func TestSecondPodexecd(t *testing.T) {
	n := newNode(t)
	first := n.open()
	n.cfg.Agent, n.cfg.RootDir = "other", n.cfg.RootDir+"2"
	n.refused("another podexecd uses --kubelet-dir "+n.cfg.Path, "process ", "/root\"", "stop it")
	first.Close()
	n.open()
}

// TestForeignPods: directories of pods that another agent made are never taken without --adopt-kubelet-pods, as podexecd would
// remove them; after a start with it, they are this podexecd's.
func TestForeignPods(t *testing.T) {
	n := newNode(t)
	n.mkdir(n.cfg.Path + "/pods/b7a0")
	n.refused("1 pods of a kubelet", "b7a0", "--adopt-kubelet-pods", "another --kubelet-dir")
	n.cfg.Adopt = true
	d, err := Open(n.cfg)
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	n.cfg.Adopt = false
	n.open().Close()
	n.cfg.Agent = "another"
	for _, adopt := range []bool{false, true} {
		n.cfg.Adopt = adopt
		n.refused(`of another podexecd, with the agent ID "me"`, "drain the node", "another --kubelet-dir", "write that ID to "+n.cfg.RootDir+"/agent-id")
	}
	// Without pods nothing can be lost.
	if err := os.Remove(n.cfg.Path + "/pods/b7a0"); err != nil {
		t.Fatal(err)
	}
	n.open()
}

// TestOneDirectory: a --root-dir that is the --kubelet-dir, as of the launcher and of an adopted node, has one place of pods,
// which are podexecd's own already.
func TestOneDirectory(t *testing.T) {
	n := newNode(t)
	n.cfg.RootDir = n.cfg.Path
	n.mkdir(n.cfg.Path + "/pods/a")
	d := n.open()
	if d.Pods.Previous != "" || d.Pods.Of("a") != n.cfg.Path+"/pods/a" {
		t.Errorf("the pods' directories are in %+v", d.Pods)
	}
}

// TestPrevious: a pod keeps its directory beneath --root-dir until that is gone, and others are in --kubelet-dir. Both are listed.
func TestPrevious(t *testing.T) {
	n := newNode(t)
	old := n.mkdir(n.cfg.RootDir + "/pods/old")
	d := n.open()
	n.mkdir(n.cfg.Path + "/pods/new")
	n.mkdir(n.cfg.Path + "/pods/old")
	list := func() []types.UID {
		t.Helper()
		uids, err := d.Pods.List()
		if err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(slices.Values(uids))
	}
	if got := list(); !slices.Equal(got, []types.UID{"new", "old"}) {
		t.Errorf("the pods on disk are %q", got)
	}
	for uid, want := range map[types.UID]string{"old": old, "new": n.cfg.Path + "/pods/new", "none": n.cfg.Path + "/pods/none"} {
		if got := d.Pods.Of(uid); got != want {
			t.Errorf("%s has the directory %s; want %s", uid, got, want)
		}
	}
	if err := os.Remove(old); err != nil {
		t.Fatal(err)
	}
	if got, want := d.Pods.Of("old"), n.cfg.Path+"/pods/old"; got != want {
		t.Errorf("at its next start the pod has %s; want %s", got, want)
	}
	d.Close()
	d = n.open()
	if _, err := os.Lstat(n.cfg.RootDir + "/pods"); d.Pods.Previous != "" || !os.IsNotExist(err) {
		t.Errorf("the empty directory is still looked at (%+v), or there (%v)", d.Pods, err)
	}
}

// TestWritableByOthers: a directory in which other users can make files is refused, with the command that mends it.
func TestWritableByOthers(t *testing.T) {
	for _, name := range []string{"", "/pods", "/plugins", "/plugins_registry", "/device-plugins", "/pod-resources"} {
		n := newNode(t)
		path := n.mkdir(n.cfg.Path + name)
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
		n.refused(path+" has the mode 0777", "chmod go-w "+path)
	}
	roottest.Need(t, "it gives a directory to another user")
	n := newNode(t)
	if err := os.Chown(n.mkdir(n.cfg.Path), 1234, 0); err != nil {
		t.Fatal(err)
	}
	n.refused("belongs to the user 1234", "chown root "+n.cfg.Path)
}

// TestNoDirectory: a file in the place of a directory is refused, and a link in the place of the lock isn't followed.
func TestNoDirectory(t *testing.T) {
	n := newNode(t)
	n.mkdir(n.cfg.Path)
	if err := os.WriteFile(n.cfg.Path+"/plugins", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n.refused(n.cfg.Path + "/plugins isn't a directory")
	n = newNode(t)
	n.mkdir(n.cfg.Path)
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("as it was"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(n.cfg.Path, lockName)); err != nil {
		t.Fatal(err)
	}
	n.refused("lock --kubelet-dir")
	if data, err := os.ReadFile(victim); err != nil || string(data) != "as it was" {
		t.Errorf("the link's target is %q now, %v", data, err)
	}
}

// TestLink: a link to the directory works, and is reported; so is an ancestor that others can write to.
func TestLink(t *testing.T) {
	n := newNode(t)
	open := n.mkdir(filepath.Join(filepath.Dir(n.cfg.Path), "open"))
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(n.mkdir(open+"/target"), n.cfg.Path); err != nil {
		t.Fatal(err)
	}
	d := n.open()
	if d.Pods.Current != n.cfg.Path+"/pods" {
		t.Errorf("the pods' directories are in %s; want the given path, as drivers have it", d.Pods.Current)
	}
	for _, want := range []string{"symbolic link", open + "/target", "other users can replace --kubelet-dir", "chmod go-w " + open} {
		if !strings.Contains(n.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, &n.log)
		}
	}
}

// TestReadOnly: on a file system that became read-only, podexecd starts, and says that no pod can. A new directory is refused.
func TestReadOnly(t *testing.T) {
	roottest.Need(t, "it mounts")
	n := newNode(t)
	n.mkdir(n.cfg.Path)
	roottest.Able(t, unix.Mount("tmpfs", n.cfg.Path, "tmpfs", 0, "mode=750"))
	t.Cleanup(func() { _ = unix.Unmount(n.cfg.Path, unix.MNT_DETACH) })
	remount := func(how string) {
		t.Helper()
		if out, err := exec.Command("mount", "-o", "remount,"+how, n.cfg.Path).CombinedOutput(); err != nil {
			t.Fatalf("remount: %v\n%s", err, out)
		}
	}
	remount("ro")
	n.refused("read-only file system", "make the directories")
	remount("rw")
	n.open().Close()
	n.mkdir(n.cfg.Path + "/pods/a")
	remount("ro")
	d := n.open()
	if !strings.Contains(n.log.String(), "read-only") || d.Pods.Of("a") != n.cfg.Path+"/pods/a" {
		t.Errorf("the log is %s; want it to say that the file system is read-only", &n.log)
	}
	n.refused("another podexecd uses")
}

func TestCheckPath(t *testing.T) {
	long := "/" + strings.Repeat("a", maxSocketPath-len("/device-plugins/kubelet.sock")-1)
	for path, want := range map[string]string{
		Default: "", long: "", long + "a": "1 bytes too long", "": "must not be empty", "kubelet": "want an absolute path", "/a/../b": "such as /b",
		"/": "is the root directory",
	} {
		err := CheckPath(path)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", path, err, want)
		}
	}
	// What CheckPath accepts, the kernel can bind.
	address := &unix.SockaddrUnix{Name: filepath.Join(DevicePlugins(long), "kubelet.sock")}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Bind(fd, address); err != unix.ENOENT {
		t.Errorf("bind a socket in the longest directory: %v; want that it doesn't exist", err)
	}
}

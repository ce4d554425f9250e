package sidebyside

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// podmanPlace is where podman runs: namespaces of mounts, IPC and processes, with storage in the test's directory. Its
// containers end with the first process of the namespace, which ends with this one, and their mounts with the
// namespace. podman's other directories, in /run and /var/lib, are hidden by empty file systems.
type podmanPlace struct {
	// nsenter are the words before the directory in which podman runs, podman those after it. The directory must be entered in
	// the namespace.
	nsenter, podman []string
	// env are variables of the commands.
	env []string

	first *exec.Cmd
	stdin io.Closer
}

// podmanCgroups is podman's cgroup in each hierarchy. podman 4 has no option for the pods of kube play.
const podmanCgroups = "/libpod_parent"

// startPodman makes the place, and loads the images of the node into its storage.
func startPodman(t *testing.T, hub string) *podmanPlace {
	t.Helper()
	dir := filepath.Join(here.dir, "podman")
	rig.Must(t, os.Mkdir(dir, 0o711))
	p := &podmanPlace{}
	for file, text := range map[string]string{
		"containers.conf": `[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
infra_command = "/sample pause"
infra_image = "` + devnode.PauseImage + `"
lock_type = "file"
runtime = "runc"
[network]
network_backend = "cni"
network_config_dir = "` + dir + `/networks"
`,
		"registries.conf": "[[registry]]\nlocation = \"" + hub + "\"\ninsecure = true\n",
		"storage.conf":    "[storage]\ndriver = \"vfs\"\nrunroot = \"" + dir + "/run\"\ngraphroot = \"" + dir + "/storage\"\n",
	} {
		rig.Must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	}
	p.env = []string{
		"CONTAINERS_CONF=" + filepath.Join(dir, "containers.conf"), "CONTAINERS_STORAGE_CONF=" + filepath.Join(dir, "storage.conf"),
		"CONTAINERS_REGISTRIES_CONF=" + filepath.Join(dir, "registries.conf"),
	}
	existed := podmanCgroupDirs(t)
	p.first = exec.CommandContext(t.Context(), "unshare", "--mount", "--ipc", "--pid", "--fork", "--kill-child=KILL", "--mount-proc",
		"--propagation=private", "bash", "-c", "mount -t tmpfs none /run && mount -t tmpfs none /var/lib && echo ready && read -r")
	stdin, err := p.first.StdinPipe()
	rig.Must(t, err)
	p.stdin = stdin
	out, errs := &printed{}, &printed{}
	p.first.Stdout, p.first.Stderr = out, errs
	rig.Must(t, p.first.Start())
	t.Cleanup(func() { p.stop(t, existed) })
	rig.Must(t, rig.Poll(control.Bound, func() error {
		if !strings.Contains(out.String(), "ready") {
			return errors.New("podman's namespaces aren't ready: " + errs.String())
		}
		return nil
	}))
	// unshare's only child is the first process of the namespace.
	children := rig.Get(os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.first.Process.Pid)))(t)
	p.nsenter = []string{"nsenter", "--target=" + strings.TrimSpace(string(children)), "--mount", "--ipc", "--pid"}
	// nsenter has podman as its child, which must end with it.
	p.podman = []string{"setpriv", "--pdeathsig=KILL", "podman", "--root=" + dir + "/storage", "--runroot=" + dir + "/run", "--tmpdir=" + dir + "/tmp"}
	p.load(t, filepath.Join(dir, "images.tar"))
	return p
}

// load loads the node's images.
func (p *podmanPlace) load(t *testing.T, archive string) {
	t.Helper()
	images := map[name.Tag]v1.Image{}
	for ref, image := range here.images {
		images[rig.Get(name.NewTag(ref))(t)] = image
	}
	rig.Must(t, tarball.MultiWriteToFile(archive, images))
	u := &user{t: t, dir: filepath.Dir(archive), env: p.env, programs: map[string][]string{"podman": p.program(filepath.Dir(archive))}}
	u.must("podman", "load", "--input", archive)
}

// program returns the words that run podman in a directory.
func (p *podmanPlace) program(dir string) []string {
	return slices.Concat(p.nsenter, []string{"env", "--chdir=" + dir}, p.podman)
}

// stop ends everything in the namespace. It removes the cgroups that podman has made, unless one of the machine's was there.
func (p *podmanPlace) stop(t *testing.T, existed []string) {
	t.Helper()
	rig.Must(t, p.stdin.Close())
	_ = p.first.Wait() // read's exit code
	if len(existed) > 0 {
		return
	}
	for _, dir := range slices.Backward(podmanCgroupDirs(t)) { // the innermost first
		rig.Must(t, rig.Poll(control.Bound, func() error {
			if err := os.Remove(dir); !errors.Is(err, fs.ErrNotExist) {
				return err // EBUSY until the kernel has removed the processes
			}
			return nil
		}))
	}
}

// podmanCgroupDirs returns podman's cgroups, each before those in it.
func podmanCgroupDirs(t *testing.T) (dirs []string) {
	t.Helper()
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		for _, root := range rig.Get(filepath.Glob(pattern + podmanCgroups))(t) {
			rig.Must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
					return nil // it was removed in the meantime
				}
				if err == nil && d.IsDir() {
					dirs = append(dirs, path)
				}
				return err
			}))
		}
	}
	return dirs
}

// makePodmanPods creates podman's pods, which have the names and containers of the node's.
func (s *sides) makePodmanPods() {
	s.t.Helper()
	s.makePodmanWeb()
	for pod, container := range map[string]string{"db": "main", "bad": "main", "cart": "cart"} {
		s.there.must("podman", "pod", "create", "--name="+pod, "--network=none")
		s.there.must("podman", "run", "--detach", "--pod="+pod, "--name="+pod+"-"+container, "--pull=never", toolsImage, "sleep")
	}
	s.there.await("hello", "podman", "logs", "web-app")
}

// makePodmanWeb creates the pod web of webPod. podman kube play isn't used, because that of podman 4 ignores stdin.
func (s *sides) makePodmanWeb() {
	s.t.Helper()
	s.there.must("podman", "pod", "create", "--name=web", "--network=none")
	s.there.must("podman", "run", "--detach", "--interactive", "--pod=web", "--name=web-app", "--pull=never", "--restart=always", toolsImage,
		"seq", "append", "/dev/stdout", "hello", ";", "stdin")
	s.there.must("podman", "run", "--detach", "--pod=web", "--name=web-side", "--pull=never", devnode.SampleImage, "serve", ":80")
}

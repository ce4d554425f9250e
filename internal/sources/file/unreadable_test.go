package file

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// unreadableEnv makes TestUnreadable run its body, as a user to whom permissions apply. Its value is the
// directory to use.
const unreadableEnv = "PODSTREAM_TEST_UNREADABLE"

// TestUnreadable: unreadable files are held. It isn't parallel: for a moment, the new process has the files open that
// other tests are writing.
func TestUnreadable(t *testing.T) {
	if dir := os.Getenv(unreadableEnv); dir != "" {
		testUnreadable(t, dir)
		return
	}
	if os.Geteuid() != 0 {
		testUnreadable(t, t.TempDir())
		return
	}
	// Root can read everything, so another user is needed. The directory must be accessible to it.
	const unprivileged = 65534
	dir, err := os.MkdirTemp("", "podstream-unreadable")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chown(dir, unprivileged, unprivileged))
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestUnreadable$", "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), unreadableEnv+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestUnreadable") {
		t.Errorf("as another user: %v\n%s", err, out)
	}
}

func testUnreadable(t *testing.T, parent string) {
	dir := filepath.Join(parent, "manifests")
	must(t, os.Mkdir(dir, 0o755))
	a := filepath.Join(dir, "a.yaml")
	write(t, a, pod("a", "v1"))
	write(t, filepath.Join(dir, "b.yaml"), pod("b", "v1"))
	must(t, os.Chmod(a, 0))
	t.Run("directory", func(t *testing.T) {
		r := run(t, Config{Path: dir})
		set := r.expect("a.yaml held", "b.yaml b=v1")
		if got := origin(t, set, "a.yaml").Findings[0].Message; got != "can't be opened: permission denied" {
			t.Errorf("a.yaml is held as it %q", got)
		}
		must(t, os.Chmod(a, 0o644))
		r.expect("a.yaml a=v1", "b.yaml b=v1")
		must(t, os.Chmod(dir, 0))
		if set := r.expect("error"); !errors.Is(set.Err, fs.ErrPermission) {
			t.Errorf("Err %v", set.Err)
		}
		must(t, os.Chmod(dir, 0o755))
		r.expect("a.yaml a=v1", "b.yaml b=v1")
	})
	t.Run("single file", func(t *testing.T) {
		must(t, os.Chmod(a, 0))
		r := run(t, Config{Path: a})
		if set := r.expect("error"); !errors.Is(set.Err, fs.ErrPermission) {
			t.Errorf("Err %v", set.Err)
		}
		must(t, os.Chmod(a, 0o644))
		r.expect("a.yaml a=v1")
	})
}

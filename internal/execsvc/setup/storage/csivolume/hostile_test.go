package csivolume

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/roottest"
)

// isUncertain checks that the error counts the volume as mounted, and has the text.
func isUncertain(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || storage.OutcomeOf(err) != storage.Uncertain || !strings.Contains(err.Error(), text) {
		t.Errorf("%v (outcome %d); want that it is uncertain, and %q", err, storage.OutcomeOf(err), text)
	}
}

// outside is a directory with a canary that no call may lead to.
func outside(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "mount"), 0o700), os.WriteFile(filepath.Join(dir, "vol_data.json"), []byte("canary"), 0o600))
	t.Cleanup(func() {
		text, err := os.ReadFile(filepath.Join(dir, "vol_data.json"))
		entries, _ := os.ReadDir(dir)
		if err != nil || string(text) != "canary" || len(entries) != 2 {
			t.Errorf("a directory outside of the volume changed: %v, %q, %v", entries, text, err)
		}
	})
	return dir
}

// TestLinkAtMount: a driver isn't called with a path at which it would follow a link.
func TestLinkAtMount(t *testing.T) {
	kernels(t, func(t *testing.T) {
		n := newBench(t, canStage, canExpand)
		_, s, p := n.resolved(pod())
		for link, calls := range map[string][]func() error{
			n.mount(): {
				func() error { return n.Publish(t.Context(), p) }, func() error { return n.Unpublish(t.Context(), p) },
				func() error { return n.Expand(t.Context(), p, ExpandArgs(1)) },
			},
			n.staging(): {func() error { return n.Stage(t.Context(), s) }, func() error { return n.Unstage(t.Context(), s) }},
		} {
			must(t, os.MkdirAll(filepath.Dir(link), 0o750), os.Symlink(filepath.Join(outside(t), "mount"), link))
			for _, call := range calls {
				err := call()
				n.isNotSent(err)
				if !errors.Is(err, errLink) {
					t.Error(err)
				}
			}
			if _, err := os.Readlink(link); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestLinkedDirectory: no directory on the way to a volume may be replaced by a link.
func TestLinkedDirectory(t *testing.T) {
	kernels(t, func(t *testing.T) {
		n := newBench(t, canStage)
		_, s, p := n.resolved(pod())
		for dir := n.dir(); dir != filepath.Join(n.kubelet, "pods"); dir = filepath.Dir(dir) {
			must(t, os.RemoveAll(dir), os.MkdirAll(filepath.Dir(dir), 0o750), os.Symlink(outside(t), dir))
			n.isNotSent(n.Publish(t.Context(), p))
			n.isNotSent(n.Unpublish(t.Context(), p))
			must(t, os.Remove(dir))
		}
		for dir := filepath.Dir(n.staging()); dir != filepath.Join(n.kubelet, "plugins"); dir = filepath.Dir(dir) {
			must(t, os.RemoveAll(dir), os.MkdirAll(filepath.Dir(dir), 0o750), os.Symlink(outside(t), dir))
			n.isNotSent(n.Stage(t.Context(), s))
			n.isNotSent(n.Unstage(t.Context(), s))
			must(t, os.Remove(dir))
		}
	})
}

// TestReplacedMeanwhile: a driver that replaces the volume's directory by a link doesn't have anything removed elsewhere.
func TestReplacedMeanwhile(t *testing.T) {
	kernels(t, func(t *testing.T) {
		n := newBench(t, canStage)
		_, s, p := n.resolved(pod())
		elsewhere := outside(t)
		for dir, call := range map[string]func() error{
			n.dir():                   func() error { return n.Unpublish(t.Context(), p) },
			filepath.Dir(n.staging()): func() error { return n.Unstage(t.Context(), s) },
		} {
			must(t, os.MkdirAll(filepath.Join(dir, "mount"), 0o750))
			n.driver.does(func(proto.Message) error {
				return errors.Join(os.Rename(dir, dir+"-moved"), os.Symlink(elsewhere, dir))
			})
			isUncertain(t, call(), "symbolic link")
		}
	})
}

// TestMountedElsewhere: a driver that confirms a volume, and has mounted something else, doesn't have a container started
// on it. The volume can still be undone.
func TestMountedElsewhere(t *testing.T) {
	roottest.Need(t, "mount")
	kernels(t, func(t *testing.T) {
		n := newBench(t)
		_, _, p := n.resolved(pod())
		n.driver.fails(nil)
		isUncertain(t, n.Publish(t.Context(), p), "there is no directory "+n.mount())
		elsewhere := outside(t)
		n.driver.does(func(proto.Message) error { return os.Symlink(filepath.Join(elsewhere, "mount"), n.mount()) })
		isUncertain(t, n.Publish(t.Context(), p), "symbolic link")
		must(t, os.Remove(n.mount()))
		n.driver.does(func(proto.Message) error { return os.WriteFile(n.mount(), nil, 0o600) })
		isUncertain(t, n.Publish(t.Context(), p), "it is a file")
		must(t, os.Remove(n.mount()))

		// On the volume's directory itself.
		n.driver.does(func(r proto.Message) error {
			if _, ok := r.(*csipb.NodeUnpublishVolumeRequest); ok {
				return unix.Unmount(n.dir(), unix.UMOUNT_NOFOLLOW)
			}
			return unix.Mount(n.driver.base, n.dir(), "", unix.MS_BIND, "")
		})
		isUncertain(t, n.Publish(t.Context(), p), "another file system is mounted there")
		must(t, n.Unpublish(t.Context(), p))

		// Nowhere: as with the kubelet that isn't an error, and it is logged.
		n.driver.does(func(proto.Message) error { return os.MkdirAll(n.mount(), 0o750) })
		must(t, n.Publish(t.Context(), p))
		if !strings.Contains(n.log.String(), "nothing is mounted there") {
			t.Errorf("the log has %s", n.log)
		}
	})
}

// TestStillMounted: after a driver's confirmation nothing is removed while something is mounted, also if it is of the same
// file system.
func TestStillMounted(t *testing.T) {
	roottest.Need(t, "mount")
	kernels(t, func(t *testing.T) {
		n := newBench(t, canStage)
		_, s, p := n.resolved(pod())
		must(t, n.Stage(t.Context(), s), n.Publish(t.Context(), p))
		n.driver.fails(nil)
		isUncertain(t, n.Unpublish(t.Context(), p), "still a mount point")
		isUncertain(t, n.Unstage(t.Context(), s), "still a mount point")
		data(t, n.dir())
		data(t, filepath.Dir(n.staging()))
		n.driver.does(nil)
		must(t, n.Unpublish(t.Context(), p), n.Unstage(t.Context(), s))
	})
}

// TestLeftFiles: files that a driver leaves are kept and reported, and the call succeeds once they are moved away.
func TestLeftFiles(t *testing.T) {
	kernels(t, func(t *testing.T) {
		n := newBench(t, canStage)
		_, s, p := n.resolved(pod())
		n.driver.fails(nil)
		for target, call := range map[string]func() error{
			n.mount():   func() error { return n.Unpublish(t.Context(), p) },
			n.staging(): func() error { return n.Unstage(t.Context(), s) },
		} {
			left := filepath.Join(target, "left")
			must(t, os.MkdirAll(target, 0o750), os.WriteFile(left, []byte("data"), 0o600))
			for range 2 {
				isUncertain(t, call(), target+" has files")
			}
			text, err := os.ReadFile(left)
			if !bytes.Equal(text, []byte("data")) {
				t.Errorf("%q, %v", text, err)
			}
			must(t, os.Remove(left), call())
			isGone(t, target)
		}
	})
}

// TestUndoneWithoutDirectory: the driver is asked to undo a volume although its directory is gone: the mount may be there
// in another form.
func TestUndoneWithoutDirectory(t *testing.T) {
	n := newBench(t, canStage)
	_, s, p := n.resolved(pod())
	n.driver.fails(nil)
	must(t, n.Unpublish(t.Context(), p))
	n.sent(&csipb.NodeUnpublishVolumeRequest{VolumeId: handle, TargetPath: n.mount()})
	must(t, n.Unstage(t.Context(), s))
	n.sent(&csipb.NodeUnstageVolumeRequest{VolumeId: handle, StagingTargetPath: n.staging()})
}

// TestPaths: records with names that aren't those of directories make no call.
func TestPaths(t *testing.T) {
	n := newBench(t, canStage)
	_, s, p := n.resolved(pod())
	for name, change := range map[string]func(*storage.Publishing){
		"another directory": func(p *storage.Publishing) { p.Dir = strings.Replace(p.Dir, "kubelet", "podexecd", 1) },
		"uid":               func(p *storage.Publishing) { p.UID = "../x" },
		"name":              func(p *storage.Publishing) { p.Name = ".." },
		"no name":           func(p *storage.Publishing) { p.Name = "" },
		"arguments":         func(p *storage.Publishing) { p.Args = "{" },
	} {
		changed := p
		change(&changed)
		for _, call := range []error{n.Publish(t.Context(), changed), n.Unpublish(t.Context(), changed)} {
			if call == nil {
				t.Errorf("%s: it succeeded", name)
			}
			n.isNotSent(call)
		}
	}
	s.Driver = "../x"
	n.isNotSent(n.Stage(t.Context(), s))
	n.isNotSent(n.Unstage(t.Context(), s))
}

// TestFileAtMount: a file in the place of a mount doesn't keep the driver from undoing the volume. It is the driver's to
// remove.
func TestFileAtMount(t *testing.T) {
	kernels(t, func(t *testing.T) {
		n := newBench(t)
		_, _, p := n.resolved(pod())
		must(t, os.MkdirAll(n.dir(), 0o750), os.WriteFile(n.mount(), []byte("data"), 0o600))
		n.isNotSent(n.Publish(t.Context(), p))
		n.driver.fails(nil)
		isUncertain(t, n.Unpublish(t.Context(), p), "it is a file")
		n.driver.does(func(proto.Message) error { return os.Remove(n.mount()) })
		must(t, n.Unpublish(t.Context(), p))
	})
}

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/blockdevice"
	"github.com/podstream/podstream/internal/roottest"
)

// device returns the calls' arguments for a pod that has the volume as a block device.
func (b *bench) device(uid types.UID) (storage.Staging, storage.Publishing) {
	b.t.Helper()
	b.pv.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
	s, p := b.resolved(uid, ptr.To[int64](4711), false)
	p.Device = true
	p.Dir = filepath.Join(b.kubelet, "pods", string(uid), "volumeDevices", "kubernetes.io~local-volume", "pv")
	b.t.Cleanup(func() {
		if err := b.Unpublish(context.Background(), p); err != nil { // The test's context has ended.
			b.t.Error(err)
		}
	})
	return s, p
}

// heldAs returns the number of the device that is held for the publication.
func heldAs(t *testing.T, p *storage.Publishing) (blockdevice.Number, bool) {
	t.Helper()
	n, is, err := blockdevice.Held(blockdevice.TagOf(p.Dir))
	must(t, err)
	return n, is
}

func numberOf(t *testing.T, path string) blockdevice.Number {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(path, &st))
	return blockdevice.Number{Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)}
}

// TestDevice: a block device is held and linked for each pod, where the kubelet links it, by whatever links the path has, also
// by another Backend, as after a restart and a reboot. It is neither formatted nor mounted.
func TestDevice(t *testing.T) {
	b := newBench(t)
	device := roottest.LoopDevice(t)
	dir := t.TempDir()
	must(t, os.Symlink(device, filepath.Join(dir, "one")))
	b.pv.Spec.Local.Path = filepath.Join(dir, "two")
	must(t, os.Symlink("one", b.pv.Spec.Local.Path))
	s, first := b.device("u1")
	_, second := b.device("u2")
	global := filepath.Join(b.kubelet, "plugins/kubernetes.io~local-volume/volumeDevices/pv")
	must(t, b.Stage(t.Context(), s))
	for range 2 {
		for _, p := range []storage.Publishing{first, second} {
			must(t, b.Publish(t.Context(), p))
			must(t, b.CheckDevice(p))
			for _, link := range []string{p.Dir, filepath.Join(global, string(p.UID))} {
				if to, err := os.Readlink(link); err != nil || to != device {
					t.Errorf("%s: %q, %v; want %s", link, to, err, device)
				}
			}
			if n, is := heldAs(t, &p); !is || n != numberOf(t, device) {
				t.Errorf("held: %v, %v", n, is)
			}
		}
		if stats, err := b.Stats(t.Context(), first); err != nil || stats != (storage.Stats{Capacity: 1 << 20}) {
			t.Errorf("%+v, %v", stats, err)
		}
		b.Backend.Close()
		b.Backend = New(b.helpers)
		t.Cleanup(b.Backend.Close)
		must(t, b.CheckDevice(first))
		must(t, blockdevice.Release(blockdevice.TagOf(first.Dir))) // As by a reboot.
		if err := b.CheckDevice(first); err == nil || !strings.Contains(err.Error(), "no loop device holds") {
			t.Errorf("a device that isn't held: %v", err)
		}
	}
	must(t, b.Publish(t.Context(), first))
	if err := b.Unstage(t.Context(), s); storage.OutcomeOf(err) != storage.Uncertain {
		t.Errorf("unstaged while pods have it: %v", err)
	}
	for range 2 {
		must(t, b.Unpublish(t.Context(), first))
	}
	if _, is := heldAs(t, &first); is || exists(first.Dir) || exists(filepath.Join(global, "u1")) {
		t.Error("something is left of the first pod")
	}
	must(t, b.CheckDevice(second))
	must(t, b.Unpublish(t.Context(), second))
	must(t, b.Unstage(t.Context(), s))
	if exists(global) {
		t.Error("the directory of links is left")
	}
	content, err := os.ReadFile(device)
	must(t, err)
	if strings.Trim(string(content), "\x00") != "" {
		t.Error("the device was written")
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestNoDevice: what isn't a block device is neither staged nor published, and a wait for it isn't begun. Nothing is left.
func TestNoDevice(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.WriteFile(at("file"), make([]byte, 1<<20), 0o600))
	must(t, unix.Mkfifo(at("fifo"), 0o600))
	for name, to := range map[string]string{"link": "file", "waits": "fifo", "null": "/dev/null", "gone": "/dev/no-such-device"} {
		must(t, os.Symlink(to, at(name)))
	}
	last := "file"
	for n := range 50 {
		name := fmt.Sprintf("chain%d", n)
		must(t, os.Symlink(last, at(name)))
		last = name
	}
	const gone = storage.Unrepeatable
	for path, want := range map[string]storage.Outcome{
		dir: gone, at("file"): gone, at("fifo"): gone, at("link"): gone, at("waits"): gone, at("null"): gone, at("gone"): gone,
		at("file/below"): gone, at(last): storage.NotSent,
	} {
		b.pv.Spec.Local.Path = path
		s, p := b.device("u1")
		for _, err := range []error{b.Stage(t.Context(), s), b.Publish(t.Context(), p)} {
			if err == nil || storage.OutcomeOf(err) != want {
				t.Errorf("%s: %v (outcome %d)", path, err, storage.OutcomeOf(err))
			}
		}
		if _, err := b.helpers.Do(t.Context(), "v", foreign.Job{MapDevice: &foreign.MapDevice{Path: path, Tag: "podstream-none"}}); err == nil {
			t.Errorf("%s: it is mapped", path)
		}
		if _, is := heldAs(t, &p); is || exists(p.Dir) {
			t.Errorf("%s: something is left", path)
		}
	}
}

// TestDeviceReplaced: what is in the place of the link to the device isn't what was published, and isn't removed unless it is a link.
func TestDeviceReplaced(t *testing.T) {
	b := newBench(t)
	b.pv.Spec.Local.Path = roottest.LoopDevice(t)
	s, p := b.device("u1")
	must(t, b.Stage(t.Context(), s))
	must(t, b.Publish(t.Context(), p))
	other := roottest.LoopDevice(t)
	must(t, os.Remove(p.Dir))
	must(t, os.Symlink(other, p.Dir))
	if err := b.CheckDevice(p); err == nil || !strings.Contains(err.Error(), "isn't the link") {
		t.Errorf("another link: %v", err)
	}
	must(t, os.Remove(p.Dir))
	must(t, os.WriteFile(p.Dir, []byte("data"), 0o600))
	if err := b.CheckDevice(p); err == nil {
		t.Error("a file is taken for the device")
	}
	must(t, b.Unpublish(t.Context(), p))
	if data, err := os.ReadFile(p.Dir); string(data) != "data" {
		t.Errorf("the file: %q, %v", data, err)
	}
	// A link in the place of the directory isn't followed.
	elsewhere := t.TempDir()
	must(t, os.RemoveAll(filepath.Dir(p.Dir)))
	must(t, os.Symlink(elsewhere, filepath.Dir(p.Dir)))
	if err := b.Publish(t.Context(), p); err == nil || exists(filepath.Join(elsewhere, "pv")) {
		t.Errorf("a link is followed: %v", err)
	}
	must(t, os.Remove(filepath.Dir(p.Dir)))
}

// TestOtherMode: a device isn't given to a pod while the PersistentVolume that its own has replaced has it mounted, nor the other way
// round, nor is that of another path.
func TestOtherMode(t *testing.T) {
	b := newBench(t)
	first, second := roottest.LoopDevice(t), roottest.LoopDevice(t)
	b.pv.Spec.Local.Path = first
	mounted, file := b.resolved("u1", nil, false)
	b.pv.Spec.Local.Path = second
	_, otherFile := b.resolved("u4", nil, false)
	b.pv.Spec.Local.Path = first
	block, device := b.device("u2")
	b.pv.Spec.Local.Path = second
	_, other := b.device("u3")
	for name, tc := range map[string]struct {
		staged storage.Staging
		p      storage.Publishing
	}{
		"a mounted one as a device": {mounted, device}, "a device as a file system": {block, file}, "another path": {block, other},
		"a file system of another path": {mounted, otherFile},
	} {
		tc.p.Staging = tc.staged
		err := b.Publish(t.Context(), tc.p)
		if storage.OutcomeOf(err) != storage.Unrepeatable || !strings.Contains(err.Error(), "was replaced") {
			t.Errorf("%s: %v", name, err)
		}
		if _, is := heldAs(t, &tc.p); is || exists(tc.p.Dir) {
			t.Errorf("%s: something is left", name)
		}
	}
}

// TestPublishedDeviceGone: a device whose file is gone keeps a pod from starting, and isn't in the way of its end.
func TestPublishedDeviceGone(t *testing.T) {
	b := newBench(t)
	node := filepath.Join(t.TempDir(), "node")
	device := roottest.LoopDevice(t)
	n := numberOf(t, device)
	must(t, unix.Mknod(node, unix.S_IFBLK|0o600, int(unix.Mkdev(n.Major, n.Minor))))
	b.pv.Spec.Local.Path = node
	s, p := b.device("u1")
	must(t, b.Stage(t.Context(), s))
	must(t, b.Publish(t.Context(), p))
	if to, err := os.Readlink(p.Dir); err != nil || to != device {
		t.Errorf("%q, %v; want the kernel's file %s", to, err, device)
	}
	must(t, os.Remove(node))
	must(t, b.CheckDevice(p)) // It is still held.
	if err := b.Publish(t.Context(), p); storage.OutcomeOf(err) != storage.Unrepeatable || !errors.Is(err, unix.ENOENT) {
		t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	must(t, b.Unpublish(t.Context(), p))
	must(t, b.Unstage(t.Context(), s))
}

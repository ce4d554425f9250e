package storage

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/roottest"
)

// binds is a Backend with real mounts: a volume is a directory of base, bound to a staging directory and from there.
type binds struct{ base string }

func (binds) MountPoint(dir string) string { return filepath.Join(dir, MountDir) }

func (binds) VolumeName(k record.Key) string { return k.Handle }

func (b binds) staging(handle string) string { return filepath.Join(b.base, "staging", handle) }

func bind(from, to string) error {
	if err := os.MkdirAll(to, 0o750); err != nil {
		return &Error{Final, err}
	}
	if mounted(to) {
		return nil
	}
	return unix.Mount(from, to, "", unix.MS_BIND, "")
}

// mounted reports whether the path is in the mount table.
func mounted(path string) bool {
	table, err := os.ReadFile("/proc/self/mounts")
	return err == nil && strings.Contains(string(table), " "+path+" ")
}

func unbind(path string) error {
	if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
		return &Error{Uncertain, err}
	}
	return nil
}

// Stage is part of Backend.
func (b binds) Stage(_ context.Context, s Staging) error {
	return bind(filepath.Join(b.base, s.Handle), b.staging(s.Handle))
}

// Publish is part of Backend.
func (b binds) Publish(_ context.Context, p Publishing) error {
	return bind(b.staging(p.Handle), filepath.Join(p.Dir, MountDir))
}

// Unpublish is part of Backend.
func (b binds) Unpublish(_ context.Context, p Publishing) error {
	return unbind(filepath.Join(p.Dir, MountDir))
}

// Unstage is part of Backend.
func (b binds) Unstage(_ context.Context, s Staging) error {
	if err := unbind(b.staging(s.Handle)); err != nil {
		return err
	}
	if err := os.Remove(b.staging(s.Handle)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Expand is part of Backend.
func (binds) Expand(context.Context, Publishing, string) error { return nil }

// Stats is part of Backend.
func (binds) Stats(context.Context, Publishing) (Stats, error) { return Stats{}, nil }

// TestRealMounts: with real mounts, a volume that is in use can't be torn down; nothing in it, in a neighbour's, or in
// what is mounted below it is removed.
func TestRealMounts(t *testing.T) {
	roottest.Need(t, "mounting")
	base := t.TempDir()
	t.Cleanup(func() {
		table, err := mount.New("").List()
		for i := len(table) - 1; i >= 0 && err == nil; i-- {
			if strings.HasPrefix(table[i].Path, base+"/") {
				_ = unix.Unmount(table[i].Path, unix.MNT_DETACH)
			}
		}
	})
	var canaries []string
	for _, name := range []string{"h", "other"} {
		canary := filepath.Join(base, name, "canary")
		if err := errors.Join(os.MkdirAll(filepath.Join(base, name, MountDir), 0o755), os.WriteFile(canary, []byte("alive"), 0o600)); err != nil {
			t.Fatal(err)
		}
		canaries = append(canaries, canary, filepath.Join(base, name, MountDir))
	}
	intact := func() {
		t.Helper()
		for _, path := range canaries {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("data is lost: %v", err)
			}
		}
	}
	realNode := func() *node {
		n := start(t, base, newTruth(), func(c *Config) {
			c.Backends = map[string]Backend{"b": binds{base}}
		})
		n.manager = volume.New(volume.Config{PodDirs: kubeletdir.Pods{Current: filepath.Join(base, "pods")}, Plugins: []volume.Plugin{n.Storage}})
		return n
	}
	n := realNode()
	p := pod("u1", "h", "other")
	p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "h", MountPath: "/s", SubPath: "sub"})
	n.mustSetUp(p)
	mounts, err := n.manager.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(mounts[2].HostPath, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	canaries = append(canaries, filepath.Join(base, "h/sub/f"))
	n.stop()

	// A file is open in the volume after a restart.
	n = realNode()
	open, err := os.Open(filepath.Join(mounts[0].HostPath, "canary"))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.manager.TearDown(t.Context(), "u1"); !errors.Is(err, unix.EBUSY) {
		t.Errorf("error %v, want EBUSY", err)
	}
	intact()
	if !mounted(mounts[0].HostPath) || !mounted(binds{base}.staging("h")) {
		t.Error("a busy volume is unmounted")
	}
	if err := open.Close(); err != nil {
		t.Fatal(err)
	}
	// The neighbour's volume is mounted in this one's place meanwhile, below it.
	below := filepath.Join(mounts[0].HostPath, MountDir)
	if err := unix.Mount(filepath.Join(base, "other"), below, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := n.manager.TearDown(t.Context(), "u1"); !errors.Is(err, unix.EBUSY) {
		t.Errorf("error %v, want EBUSY", err)
	}
	intact()
	if !mounted(below) {
		t.Error("a mount below the volume is unmounted")
	}
	if err := unix.Unmount(below, 0); err != nil {
		t.Fatal(err)
	}
	n.mustTearDown("u1")
	for len(n.entriesLeft()) > 0 {
		n.awaitChange()
	}
	intact()
	if entries, err := os.ReadDir(filepath.Join(base, "staging")); err != nil || len(entries) > 0 {
		t.Errorf("staged at the end: %v (%v)", entries, err)
	}
	if _, err := os.Stat(filepath.Join(base, "pods/u1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the pod's directory: %v", err)
	}
}

// entriesLeft returns the volumes of the node.
func (n *node) entriesLeft() []*entry {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []*entry
	for _, e := range n.entries {
		all = append(all, e)
	}
	return all
}

// awaitChange returns when a volume has changed, or rests.
func (n *node) awaitChange() {
	for _, e := range n.entriesLeft() {
		n.mu.Lock()
		changed, active := e.changed, e.active
		n.mu.Unlock()
		if active {
			<-changed
		}
	}
}

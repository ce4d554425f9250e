package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/fusetest"
)

// TestForeignSubPath: a subPath of a persistent volume is bound by a helper. If its file system doesn't answer, the
// container's start waits no longer than its context.
func TestForeignSubPath(t *testing.T) {
	m := newAttached(t, attacher{foreign: "the disk"})
	c := &m.pod.Spec.Containers[0]
	c.VolumeMounts = []v1.VolumeMount{{Name: "c", MountPath: "/sub", SubPath: "part/x"}}
	mounts, err := m.Mounts(t.Context(), m.pod, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	unmountAfter(t, mounts[0].HostPath)
	write(t, filepath.Join(mounts[0].HostPath, "f"), "written")
	holds(t, filepath.Join(m.device, "part/x/f"), "written")

	hung := filepath.Join(m.dir, "mount", "hung")
	if err := os.Mkdir(hung, 0o755); err != nil {
		t.Fatal(err)
	}
	server := fusetest.Hang(t, hung)
	c.VolumeMounts[0].SubPath = "hung/x"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := m.Mounts(ctx, m.pod, c, nil)
		done <- err
	}()
	select {
	case <-server.Asked():
	case err := <-done:
		t.Fatalf("the server wasn't asked: %v", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, foreign.ErrNoAnswer) || !strings.Contains(err.Error(), "the disk") {
		t.Errorf("error %v", err)
	}
	server.Die()
	_, err = m.Mounts(t.Context(), m.pod, c, nil)
	for errors.Is(err, foreign.ErrNoAnswer) { // The first helper ends now.
		_, err = m.Mounts(t.Context(), m.pod, c, nil)
	}
	if !errors.Is(err, unix.ENOTCONN) {
		t.Errorf("after its end: %v, want ENOTCONN", err)
	}
	if err := unix.Unmount(hung, unix.MNT_DETACH); err != nil {
		t.Error(err)
	}
	if err := m.TearDown(t.Context(), "u1"); err != nil {
		t.Error(err)
	}
	gone(t, m.podDir("u1"))
}

// TestTearDownDeadSubPath: a subPath whose server has died is unmounted.
func TestTearDownDeadSubPath(t *testing.T) {
	m := newAttached(t, attacher{foreign: "the disk"})
	dir := t.TempDir()
	server := fusetest.Hang(t, dir)
	target := filepath.Join(m.podDir("u1"), subPathsDir, "c", "main", "0")
	if err := errors.Join(os.MkdirAll(target, 0o750), unix.Mount(dir, target, "", unix.MS_BIND, "")); err != nil {
		t.Fatal(err)
	}
	server.Die()
	if err := m.TearDown(t.Context(), "u1"); err != nil {
		t.Error(err)
	}
	gone(t, m.podDir("u1"))
}

// TestForeignBelow: of a pod's subPaths those go to a helper whose file system isn't the node's own.
func TestForeignBelow(t *testing.T) {
	const pods, dir = "/var/lib/kubelet/pods", "/var/lib/kubelet/pods/u/volume-subpaths"
	at := func(device, path, kind string) mount.MountPoint {
		return mount.MountPoint{Device: device, Path: path, Type: kind}
	}
	mounts := []mount.MountPoint{
		at("/dev/root", "/", "ext4"), at("/dev/sda1", "/var", "ext4"), at("/dev/sdz", "/var/lib/kub", "ext4"),
		at("/dev/sda1", dir+"/scratch/main/0", "ext4"), at("tmpfs", dir+"/memory/main/0", "tmpfs"),
		at("server:/share", dir+"/share/main/0", "nfs4"), at("server:/share", dir+"/share/main/1", "nfs4"),
		at("/dev/sdb", dir+"/a b/main/0", "ext4"), at("/dev/root", dir+"/host/main/0", "ext4"),
		at("other", "/var/lib/kubelet/pods/v/volume-subpaths/x/main/0", "nfs4"),
	}
	if got, want := foreignBelow(mounts, pods, dir), []string{"share", "a b", "host"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

package world

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMountPropagation: mounts in a volume, made by the node or by a privileged container, are visible where they
// propagate to, and nowhere else.
func TestMountPropagation(t *testing.T) {
	t.Parallel()
	on(t, containerds, func(t *testing.T, b *bench) {
		p := newPod(t, b, "mountPropagation")
		mountAt(t, p.dir)
		// The container mounter starts last. The others therefore exist before its mount. runc 1.3.6, unlike 1.1.5, marks all
		// mounts of a container as shared, within the container, if one of them is Bidirectional: main has none.
		p.write("", `
terminationGracePeriodSeconds: 30
volumes: [{name: v, hostPath: {path: "{{dir}}"}}, {name: guest, hostPath: {path: "{{guest}}", type: File}}]
containers:
- name: main
  volumeMounts:
  - {name: v, mountPath: /plain}
  - {name: v, mountPath: /none, mountPropagation: None}
  - {name: v, mountPath: /down, mountPropagation: HostToContainer}
- name: both
  securityContext: {privileged: true}
  volumeMounts: [{name: v, mountPath: /v, mountPropagation: Bidirectional}]
- {name: none, volumeMounts: [{name: v, mountPath: /v, mountPropagation: None}]}
- {name: down, volumeMounts: [{name: v, mountPath: /v, mountPropagation: HostToContainer}]}
- name: mounter
  command: [/guest, mount, /v/made]
  securityContext: {privileged: true}
  volumeMounts: [{name: guest, mountPath: /guest}, {name: v, mountPath: /v, mountPropagation: Bidirectional}]`, nil, nil)
		found := p.reports()
		r := found["main"]
		check(t, errors.Join(propagates("/plain", "private")(r), propagates("/none", "private")(r), propagates("/down", "master")(r),
			propagates("/v", "shared")(found["both"])))

		late := filepath.Join(p.dir, "late")
		check(t, errors.Join(os.Mkdir(late, 0o755), unix.Mount("tmpfs", late, "tmpfs", 0, "")))
		check(t, p.seen("late", "main /down", "both /v", "mounter /v", "down /v"))
		check(t, unix.Unmount(late, 0))

		p.awaitLine("mounter", "mounted")
		check(t, p.seen("made", "main /down", "both /v", "mounter /v", "down /v"))
		// The container created the mount, and removes it when it ends.
		p.remove()
		p.awaitGone()
		if isMount(t, filepath.Join(p.dir, "made")) {
			t.Error("what the container mounted is left on the node")
		}
	})
}

// mountAt mounts a file system on the directory, with shared propagation, until the test ends.
func mountAt(t *testing.T, dir string) {
	t.Helper()
	check(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	t.Cleanup(func() { check(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	check(t, unix.Mount("", dir, "", unix.MS_SHARED, ""))
}

// isMount reports whether the directory, which is in another mount, is a mount point.
func isMount(t *testing.T, dir string) bool {
	t.Helper()
	var own, parent unix.Stat_t
	check(t, errors.Join(unix.Stat(dir, &own), unix.Stat(filepath.Dir(dir), &parent)))
	return own.Dev != parent.Dev
}

// seen expects a mount at that name in the pod's directory. It must be visible where that directory is mounted in
// these containers, "CONTAINER PATH", and nowhere else.
func (p *pod) seen(name string, where ...string) error {
	dir := filepath.Join(p.dir, name)
	if !isMount(p.t, dir) {
		return fmt.Errorf("on the node nothing is mounted at %s", dir)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		return err
	}
	var found []string
	for _, place := range []string{"main /plain", "main /none", "main /down", "both /v", "mounter /v", "none /v", "down /v"} {
		container, path, _ := strings.Cut(place, " ")
		_, code, err := p.exec(container, "/sample", "exists", filepath.Join(path, name, "file"))
		if err != nil {
			return err
		}
		if code == 0 {
			found = append(found, place)
		}
	}
	return same("where "+name+" is seen", found, where)
}

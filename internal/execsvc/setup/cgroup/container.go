package cgroup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// RemoveContainer kills the processes in the cgroup of a container or sandbox that the runtime reports as ended, waits
// for them to exit, and removes it. A runtime removes the cgroup itself, but containerd 2 may leave it, also with the
// process `runc init`, if a start was cut short.
//
// Only a cgroup below the pod's is removed, under a name that containerd or CRI-O gives to the ID. A missing cgroup is no
// error. The error is ErrBusy if a process is left when ctx ends. It may be called at any time, also during another call
// for the pod.
func (m *Manager) RemoveContainer(ctx context.Context, uid types.UID, id string) error {
	if m.off {
		return nil
	}
	if err := m.check(uid); err != nil {
		return err
	}
	if id == "" || id == "." || id == ".." || strings.Contains(id, "/") {
		return fmt.Errorf("ID %q can't be part of a cgroup's name", id)
	}
	var errs []error
	for _, n := range m.layout.everywhere(uid) {
		pod, err := m.driver.open(n)
		if err != nil || len(pod.dirs()) == 0 {
			errs = append(errs, err)
			continue
		}
		for _, leaf := range m.driver.containerNames(id) {
			// A scope of systemd is a directory like any other; systemd removes an empty one itself.
			g, err := driver{v2: m.driver.v2}.open(parseName(m.driver.path(n)).child(leaf))
			if err == nil {
				err = g.remove(ctx)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("remove the cgroup %s: %w", leaf, err))
			}
		}
	}
	return errors.Join(errs...)
}

// containerNames returns the names of the cgroup of a container or sandbox below the pod's, of containerd and of CRI-O.
func (d driver) containerNames(id string) []string {
	if d.systemd {
		return []string{"cri-containerd-" + id + ".scope", "crio-" + id + ".scope"}
	}
	return []string{id, "crio-" + id}
}

package volume

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Located is implemented by a Plugin that decides where a volume lies: the directory of a claim has the name of its
// PersistentVolume, and that of the plugin which the PersistentVolume needs. The Manager neither unmounts anything in
// these directories nor removes their content: the plugin does that, and the Manager removes what is empty.
type Located interface {
	Plugin
	// Plugins are the names of the plugins in whose directories volumes may lie.
	Plugins() []string
	// Locate returns where the volume lies. v.Name is the name in the pod's spec. It may wait for the API server.
	Locate(ctx context.Context, v Volume) (Location, error)
	// Usable returns an error if the volume isn't set up, or if a device isn't the one that was set up: then no container
	// may be started with it. It waits for no driver.
	Usable(v Volume) error
	// Release reverts SetUp for all volumes of the pod, also those without a directory. It is called after TearDown of
	// those that have one, and before any directory is removed.
	Release(ctx context.Context, uid types.UID) error
	// Pods returns the pods for which Release has something to do.
	Pods() []types.UID
}

// Location is where a volume lies.
type Location struct {
	// Plugin is one of the Plugins, and Name the volume's name in its directory.
	Plugin, Name string
	// Device is set if the volume is a block device.
	Device bool
}

// OperationError is the error of a SetUp that is shown with the name of its operation, as the kubelet names it:
// "MountVolume.MountDevice". Other errors are shown as those of "MountVolume.SetUp".
type OperationError struct {
	Operation, Volume string
	Err               error
	// Phrase replaces the operation and the word "failed", unless it is empty.
	Phrase string
}

func (o *OperationError) Error() string {
	return fmt.Sprintf("%s for volume %q : %v", cmp.Or(o.Phrase, o.Operation+" failed"), o.Volume, o.Err)
}

// Unwrap returns the cause.
func (o *OperationError) Unwrap() error { return o.Err }

// FailedError is the error of one volume that can't be set up. It has the text of its cause.
type FailedError struct {
	// Volume is the volume's name in the pod's spec.
	Volume string
	Err    error
}

func (f *FailedError) Error() string { return f.Err.Error() }

// Unwrap returns the cause.
func (f *FailedError) Unwrap() error { return f.Err }

// locate returns the volume with its directory. Its plugin may wait for the API server.
func (m *Manager) locate(ctx context.Context, p Plugin, pod *v1.Pod, spec *v1.Volume) (Volume, error) {
	v := Volume{UID: pod.UID, Name: spec.Name, Pod: pod, Spec: spec}
	at := Location{Plugin: p.Name(), Name: spec.Name}
	if l, ok := p.(Located); ok {
		var err error
		if at, err = l.Locate(ctx, v); err != nil {
			return Volume{}, err
		}
		if !slices.Contains(l.Plugins(), at.Plugin) {
			return Volume{}, fmt.Errorf("its plugin is %q, which has no directory here", at.Plugin)
		}
		if err := checkName(at.Name); err != nil {
			return Volume{}, err
		}
	}
	dir := volumesDir
	if at.Device {
		dir = devicesDir
	}
	v.Name, v.Device = at.Name, at.Device
	v.Dir = filepath.Join(m.podDir(pod.UID), dir, escaped(at.Plugin), at.Name)
	return v, nil
}

// persistent are upstream's plugins whose volumes outlive a pod.
var persistent = []string{"kubernetes.io/csi", "kubernetes.io/nfs", "kubernetes.io/local-volume", "kubernetes.io/iscsi"}

// guardedDirs returns the names of the plugins' directories below which nothing is unmounted, and nothing is removed but
// empty directories. Those of persistent volumes are among them, unless a plugin that isn't Located has them.
func (m *Manager) guardedDirs() []string {
	dirs := make([]string, 0, len(persistent))
	for _, name := range persistent {
		if !slices.ContainsFunc(m.plugins, func(p Plugin) bool { _, located := p.(Located); return !located && p.Name() == name }) {
			dirs = append(dirs, escaped(name))
		}
	}
	for _, l := range m.located() {
		for _, name := range l.Plugins() {
			dirs = append(dirs, escaped(name))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// located returns the plugins that decide where a volume lies.
func (m *Manager) located() []Located {
	var all []Located
	for _, p := range m.plugins {
		if l, ok := p.(Located); ok {
			all = append(all, l)
		}
	}
	return all
}

// escaped returns a plugin's name as a directory name.
func escaped(plugin string) string { return strings.ReplaceAll(plugin, "/", "~") }

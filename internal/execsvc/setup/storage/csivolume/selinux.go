package csivolume

import (
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/selinuxmount"
)

var (
	_ storage.Relabels = (*Backend)(nil)
	_ storage.Labelled = (*Backend)(nil)
)

// contextOf sets the volume's SELinux context, and returns it for its arguments. A block volume has none.
func (r *Resolver) contextOf(s *source, spec *storagev1.CSIDriverSpec, v *storage.Volume) (string, error) {
	if r.cfg.SELinux == nil || s.block {
		return "", nil
	}
	of := selinuxmount.Volume{
		Pod: s.pod, Name: s.volume, Mountable: ptr.Deref(spec.SELinuxMount, false),
		Persistent: s.mode == storagev1.VolumeLifecyclePersistent, Modes: s.accessModes,
	}
	var err error
	v.SELinuxContext, v.OneContext, err = r.cfg.SELinux.Context(of)
	v.AccessMode = of.AccessMode()
	return v.SELinuxContext, err
}

// ContextOf is part of storage.Labelled.
func (*Backend) ContextOf(text string) string {
	var args struct{ use }
	if err := decode(text, &args); err != nil {
		return "" // No call can be made with them either.
	}
	return args.SELinuxContext
}

// Relabels is part of storage.Relabels. A volume that is mounted with a context has it already.
func (b *Backend) Relabels(p storage.Publishing) bool {
	args, at, err := publication(&p)
	if err != nil || args.Device != "" || args.SELinuxContext != "" {
		return false
	}
	labelled, err := selinuxmount.Labelled(b.mountTable, at.target())
	if err != nil {
		// The runtime ignores that a file system has no labels. A container without access to its files is worse.
		b.cfg.Log.Warn("it isn't known whether a volume has SELinux labels; the runtime is asked to label it", "path", at.target(), "error", err)
		return true
	}
	return labelled
}

package csivolume

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/csi"
)

// migratedAnnotation is upstream's annotation of a PersistentVolume of an in-tree plugin that moved to CSI.
const migratedAnnotation = "pv.kubernetes.io/migrated-to"

// isMigrated reports whether the PersistentVolume was translated from one of an in-tree plugin.
func isMigrated(pv *v1.PersistentVolume) bool { return pv.Annotations[migratedAnnotation] != "" }

// context returns the context of a call: the metric of calls has a label for migrated volumes.
func (u *use) context(ctx context.Context) context.Context {
	if u.Migrated {
		return csi.Migrated(ctx)
	}
	return ctx
}

// isReadOnly reports whether the pod may only read the volume. The readOnly of a claim's PersistentVolume is for its attachment, as
// with the kubelet. That of a pod's own source is for the pod: the kubelet ignores it when it publishes the volume, since the
// plugins moved to CSI.
func isReadOnly(spec *v1.Volume, from *v1.CSIPersistentVolumeSource) bool {
	if spec.PersistentVolumeClaim != nil || spec.Ephemeral != nil {
		return spec.PersistentVolumeClaim != nil && spec.PersistentVolumeClaim.ReadOnly
	}
	return from.ReadOnly
}

package apiexpansion

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// notRequired is the annotation of a claim whose volume needs no expansion on nodes.
const notRequired = "volume.kubernetes.io/node-expansion-not-required"

// size is what a node must do about the size of a volume.
type size struct {
	// expand has the driver expand the volume to this many bytes. Otherwise the volume counts as this large if has is
	// set: the driver isn't called.
	expand, has bool
	to          resource.Quantity
	// recorded is set if the claim has the size already, from an expansion on another node: its status isn't written.
	recorded bool
	// recovers is set if the expansion can be given up: its progress and its failures are written to the claim.
	recovers bool
	// infeasible is set if a final failure ends the expansion: the claim asks for another size by now.
	infeasible bool
}

// decide returns what to do for a claim whose PersistentVolume has grown. failed is set if the last expansion on this
// node failed for good.
func decide(claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume, failed bool) size {
	has := claim.Status.Capacity[v1.ResourceStorage]
	progress := claim.Status.AllocatedResourceStatuses[v1.ResourceStorage]
	if progress == "" && claim.Status.AllocatedResources == nil {
		// The resizer is one that can't give up expansions.
		to := volume.Spec.Capacity[v1.ResourceStorage]
		return size{expand: true, to: to, recorded: has.Cmp(to) >= 0}
	}
	to := claim.Status.AllocatedResources[v1.ResourceStorage]
	wants := claim.Spec.Resources.Requests[v1.ResourceStorage]
	s := size{to: to, recovers: true, recorded: has.Cmp(to) >= 0 && progress == "", infeasible: failed && wants.Cmp(to) != 0}
	_, needless := claim.Annotations[notRequired]
	switch {
	case s.recorded && !needless && slices.Contains(claim.Spec.AccessModes, v1.ReadWriteMany):
		// Another node has expanded it. Each node that has it mounted must do so.
		s.expand = true
	case s.recorded:
		s.has = true
	case progress == v1.PersistentVolumeClaimNodeResizePending, progress == v1.PersistentVolumeClaimNodeResizeInProgress:
		s.expand = true
	}
	return s
}

package podexecd

import (
	"context"
	"errors"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// errUnattached is the error of a volume that must be attached, on a node whose volumes no controller attaches. A kubelet would make the
// VolumeAttachment itself, which the node authorizer forbids.
var errUnattached = errors.New("the CSI driver's volumes must be attached, and enableControllerAttachDetach is false: " +
	"no controller attaches volumes to this node, and podexecd doesn't either; set it to true, or set attachRequired of the CSIDriver to false")

// unattached are the attachments of a node with enableControllerAttachDetach: false. Volumes of before leave volumesInUse as always.
type unattached struct{ storage.Attachments }

// MarkInUse is part of storage.Attachments.
func (unattached) MarkInUse(context.Context, string) error {
	return &storage.Error{Outcome: storage.NotSent, Err: errUnattached}
}

// WaitAttached is part of storage.Attachments.
func (unattached) WaitAttached(context.Context, storage.Volume) (map[string]string, error) {
	return nil, &storage.Error{Outcome: storage.NotSent, Err: errUnattached}
}

package apivolumes

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Attachment names an attachment of a volume of a CSI driver to this node.
type Attachment struct {
	// Driver and Handle are the driver's name and its name of the volume. Two PersistentVolumes with these have one attachment; the
	// object has the name of the one that was attached first.
	Driver, Handle string
}

// UniqueName is the volume's name in the Node's volumesInUse and volumesAttached.
func (a Attachment) UniqueName() v1.UniqueVolumeName {
	return v1.UniqueVolumeName("kubernetes.io/csi/" + a.Driver + "^" + a.Handle)
}

// ObjectName returns the name of the VolumeAttachment of the volume to a node. The attach-detach controller makes it the
// same way.
func (a Attachment) ObjectName(node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(a.Handle+a.Driver+node)))
}

// WaitAttached returns when the volume is attached to this node, with what the driver's controller says of the attachment,
// the publish context. The API server must list the volume in the Node's volumesInUse before the call: then the controller
// doesn't detach it any more. When ctx ends first, the error says what is missing.
func (v *Volumes) WaitAttached(ctx context.Context, a Attachment) (map[string]string, error) {
	if err := v.waitListed(ctx, a.UniqueName()); err != nil {
		return nil, err
	}
	name := a.ObjectName(v.cfg.Node)
	var published map[string]string
	err := v.attachments.await(ctx, types.NamespacedName{Name: name}, func(at *storagev1.VolumeAttachment, err error) (bool, error) {
		if err == nil {
			err = v.check(a, at)
		}
		if err != nil {
			return false, fmt.Errorf("VolumeAttachment %s: %w", name, err)
		}
		published = maps.Clone(at.Status.AttachmentMetadata)
		return true, nil
	})
	return published, err
}

// waitListed waits until the Node's volumesAttached has the volume.
func (v *Volumes) waitListed(ctx context.Context, name v1.UniqueVolumeName) error {
	for {
		v.mu.Lock()
		changed := v.attachedChanged
		v.mu.Unlock()
		for _, a := range v.cfg.Attached() {
			if a.Name == name {
				return nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("volume %s is not yet in the Node's volumesAttached: %w", name, ctx.Err())
		}
	}
}

// AttachedChanged is called when the Node's volumesAttached may have changed.
func (v *Volumes) AttachedChanged() {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.attachedChanged)
	v.attachedChanged = make(chan struct{})
}

// check returns nil if the object says that the volume is attached to this node.
func (v *Volumes) check(a Attachment, at *storagev1.VolumeAttachment) error {
	switch {
	case at.Spec.Attacher != a.Driver || at.Spec.NodeName != v.cfg.Node:
		return fmt.Errorf("it is of driver %s and node %s; want %s and %s", at.Spec.Attacher, at.Spec.NodeName, a.Driver, v.cfg.Node)
	case at.DeletionTimestamp != nil:
		return errors.New("volume attachment is being deleted")
	case at.Status.Attached:
		return nil
	case at.Status.AttachError != nil:
		return fmt.Errorf("attachment isn't complete: %.1024s", at.Status.AttachError.Message)
	default:
		return errors.New("volume attachment isn't attached yet")
	}
}

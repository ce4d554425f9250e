package apivolumes

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/attachlimit"
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
	err := v.waitListed(ctx, a.UniqueName(), func(ctx context.Context) error { return v.attachError(ctx, a) })
	var published map[string]string
	if err == nil {
		published, err = v.waitObject(ctx, a)
	}
	if _, exceeded := errors.AsType[*attachlimit.ExceededError](err); exceeded && (v.cfg.Exceeded == nil || !v.cfg.Exceeded(a.Driver)) {
		err = errors.New(err.Error())
	}
	return published, err
}

// waitObject waits until the VolumeAttachment says that the volume is attached.
func (v *Volumes) waitObject(ctx context.Context, a Attachment) (published map[string]string, err error) {
	name := a.ObjectName(v.cfg.Node)
	err = v.attachments.await(ctx, types.NamespacedName{Name: name}, func(at *storagev1.VolumeAttachment, err error) (bool, error) {
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

// WaitListed is WaitAttached of a volume without a VolumeAttachment: that of an in-tree plugin.
func (v *Volumes) WaitListed(ctx context.Context, name v1.UniqueVolumeName) error {
	return v.waitListed(ctx, name, func(context.Context) error { return nil })
}

// waitListed waits until the Node's volumesAttached has the volume. why is called only once, shortly before ctx ends: it may say why the
// volume can't be attached.
func (v *Volumes) waitListed(ctx context.Context, name v1.UniqueVolumeName, why func(context.Context) error) error {
	var late <-chan time.Time
	if end, ok := ctx.Deadline(); ok {
		timer := v.cfg.Clock.NewTimer(time.Until(end) - timeout)
		defer timer.Stop()
		late = timer.C()
	}
	var failed error
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
		case <-late:
			failed = why(ctx)
		case <-ctx.Done():
			if failed != nil {
				return failed
			}
			return fmt.Errorf("volume %s is not yet in the Node's volumesAttached: %w", name, ctx.Err())
		}
	}
}

// attachError returns the error that the VolumeAttachment has, or nil.
func (v *Volumes) attachError(ctx context.Context, a Attachment) error {
	name := a.ObjectName(v.cfg.Node)
	got := v.attachments.read(ctx, types.NamespacedName{Name: name}, v.cfg.Clock.Now(), func(*storagev1.VolumeAttachment, error) bool { return true })
	if got.err != nil || got.object.Status.AttachError == nil {
		return nil //nolint:nilerr // Without the object, all that is known is that the Node doesn't list the volume.
	}
	if err := v.check(a, got.object); err != nil {
		return fmt.Errorf("VolumeAttachment %s: %w", name, err)
	}
	return nil
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
		err := fmt.Errorf("attachment isn't complete: %.1024s", at.Status.AttachError.Message)
		if attachlimit.Exhausted(at.Status.AttachError) {
			return &attachlimit.ExceededError{Err: err}
		}
		return err
	default:
		return errors.New("volume attachment isn't attached yet")
	}
}

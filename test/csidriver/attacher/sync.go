package attacher

import (
	"context"
	"errors"
	"fmt"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sync does what a VolumeAttachment asks for. It reads the object, because the informer may not know yet what the last sync has changed.
func (a *Attacher) sync(ctx context.Context, name string) error {
	va, err := a.client.StorageV1().VolumeAttachments().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case va.DeletionTimestamp == nil && !va.Status.Attached:
		return a.attach(ctx, va)
	case va.DeletionTimestamp != nil && slices.Contains(va.Finalizers, finalizer):
		return a.detach(ctx, va)
	}
	return nil
}

// attach attaches the volume. The finalizer and the annotations are on the API server before the driver is called.
func (a *Attacher) attach(ctx context.Context, va *storagev1.VolumeAttachment) error {
	wanted, err := a.arguments(ctx, va)
	if err != nil {
		return errors.Join(err, a.report(ctx, va, &va.Status.AttachError, err))
	}
	if !slices.Contains(va.Finalizers, finalizer) {
		va.Finalizers = append(va.Finalizers, finalizer)
		metav1.SetMetaDataAnnotation(&va.ObjectMeta, volumeKey, wanted.GetVolumeId())
		metav1.SetMetaDataAnnotation(&va.ObjectMeta, nodeKey, wanted.GetNodeId())
		if va, err = a.client.StorageV1().VolumeAttachments().Update(ctx, va, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	calling, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := a.calls.ControllerPublishVolume(calling, wanted)
	if err != nil {
		return errors.Join(err, a.report(ctx, va, &va.Status.AttachError, err))
	}
	va.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: answer.GetPublishContext()}
	_, err = a.client.StorageV1().VolumeAttachments().UpdateStatus(ctx, va, metav1.UpdateOptions{})
	return err
}

// arguments returns the call that attaches the volume to the node with the ID of the CSINode.
func (a *Attacher) arguments(ctx context.Context, va *storagev1.VolumeAttachment) (*csipb.ControllerPublishVolumeRequest, error) {
	if va.Spec.Source.PersistentVolumeName == nil {
		return nil, errors.New("only a PersistentVolume can be attached")
	}
	pv, err := a.client.CoreV1().PersistentVolumes().Get(ctx, *va.Spec.Source.PersistentVolumeName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != a.driver {
		return nil, fmt.Errorf("PersistentVolume %s isn't one of driver %s", pv.Name, a.driver)
	}
	capability, err := capabilityOf(pv)
	if err != nil {
		return nil, err
	}
	node, err := a.client.StorageV1().CSINodes().Get(ctx, va.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(node.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == a.driver })
	if at < 0 {
		return nil, fmt.Errorf("CSINode %s doesn't have the driver %s", node.Name, a.driver)
	}
	return &csipb.ControllerPublishVolumeRequest{
		VolumeId: pv.Spec.CSI.VolumeHandle, NodeId: node.Spec.Drivers[at].NodeID, VolumeCapability: capability,
		Readonly: pv.Spec.CSI.ReadOnly, VolumeContext: pv.Spec.CSI.VolumeAttributes,
	}, nil
}

// capabilityOf returns the capability of a volume that one node may use at a time.
func capabilityOf(pv *corev1.PersistentVolume) (*csipb.VolumeCapability, error) {
	c := &csipb.VolumeCapability{AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER}}
	if !slices.Equal(pv.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}) {
		return nil, fmt.Errorf("PersistentVolume %s has the access modes %v; only ReadWriteOnce can be attached", pv.Name, pv.Spec.AccessModes)
	}
	if pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock {
		c.AccessType = &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}}
		return c, nil
	}
	c.AccessType = &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{
		FsType: pv.Spec.CSI.FSType, MountFlags: pv.Spec.MountOptions,
	}}
	return c, nil
}

// detach detaches the volume, and lets the object go.
func (a *Attacher) detach(ctx context.Context, va *storagev1.VolumeAttachment) error {
	calling, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := a.calls.ControllerUnpublishVolume(calling, &csipb.ControllerUnpublishVolumeRequest{
		VolumeId: va.Annotations[volumeKey], NodeId: va.Annotations[nodeKey],
	})
	if err != nil {
		return errors.Join(err, a.report(ctx, va, &va.Status.DetachError, err))
	}
	va.Finalizers = slices.DeleteFunc(va.Finalizers, func(f string) bool { return f == finalizer })
	_, err = a.client.StorageV1().VolumeAttachments().Update(ctx, va, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// report writes an error to a field of the object's status, unless it has the same one: each change wakes the attacher.
func (a *Attacher) report(ctx context.Context, va *storagev1.VolumeAttachment, field **storagev1.VolumeError, why error) error {
	if *field != nil && (*field).Message == why.Error() {
		return nil
	}
	*field = &storagev1.VolumeError{Time: metav1.Now(), Message: why.Error()}
	_, err := a.client.StorageV1().VolumeAttachments().UpdateStatus(ctx, va, metav1.UpdateOptions{})
	return err
}

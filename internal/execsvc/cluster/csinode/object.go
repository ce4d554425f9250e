package csinode

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// migrated are the in-tree plugins whose volumes are a CSI driver's: upstream's list.
var migrated = strings.Join([]string{
	"kubernetes.io/aws-ebs", "kubernetes.io/azure-disk", "kubernetes.io/azure-file", "kubernetes.io/cinder", "kubernetes.io/gce-pd",
	"kubernetes.io/portworx-volume", "kubernetes.io/vsphere-volume",
}, ",")

// enter has the CSINode have the accepted drivers, and those that stay.
func (k *Keeper) enter(ctx context.Context, uid types.UID, accepted []Driver) error {
	object, err := k.object(ctx, uid)
	if err != nil {
		return err
	}
	next := object.DeepCopy()
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, v1.MigratedPluginsAnnotationKey, migrated)
	next.Spec.Drivers = slices.DeleteFunc(next.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return !k.stays(d.Name) })
	if len(next.Spec.Drivers) < len(object.Spec.Drivers) || object.Annotations[v1.MigratedPluginsAnnotationKey] != migrated {
		if object, err = k.put(ctx, next); err != nil {
			return err
		}
	}
	for _, d := range accepted {
		next, err := k.enterOne(ctx, object, entry(d))
		ok, err := k.judge(d.Name, err)
		if err != nil {
			return err
		}
		if ok {
			k.accept(d.Name)
		}
		object = next
	}
	return nil
}

// object returns the Node's CSINode. It is created if there is none, and replaced if it is another Node's.
func (k *Keeper) object(ctx context.Context, uid types.UID) (*storagev1.CSINode, error) {
	object, err := k.cfg.Client.CSINodes().Get(ctx, k.cfg.Node, metav1.GetOptions{})
	switch {
	case err == nil && ownedBy(object, k.cfg.Node, uid):
		return object, nil
	case err == nil:
		k.log.Info("the CSINode belongs to an earlier Node of this name, and is replaced", "uid", object.UID)
		err = k.cfg.Client.CSINodes().Delete(ctx, k.cfg.Node, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &object.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("delete the CSINode of an earlier Node: %w", err)
		}
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("get the CSINode: %w", err)
	}
	object, err = k.cfg.Client.CSINodes().Create(ctx, &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{
			Name: k.cfg.Node, Annotations: map[string]string{v1.MigratedPluginsAnnotationKey: migrated},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: k.cfg.Node, UID: uid}},
		},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create the CSINode: %w", err)
	}
	return object, nil
}

// ownedBy reports whether the object belongs to the Node.
func ownedBy(object *storagev1.CSINode, node string, uid types.UID) bool {
	return slices.ContainsFunc(object.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "Node" && o.Name == node && o.UID == uid
	})
}

// entry returns the driver's entry.
func entry(d Driver) storagev1.CSINodeDriver {
	e := storagev1.CSINodeDriver{Name: d.Name, NodeID: d.NodeID, TopologyKeys: names(d.Topology)}
	if d.MaxVolumes > 0 {
		e.Allocatable = &storagev1.VolumeNodeResources{Count: ptr.To(d.MaxVolumes)}
	}
	return e
}

// enterOne has the object have one entry. It returns the object as the API server has it then, also with an error.
func (k *Keeper) enterOne(ctx context.Context, object *storagev1.CSINode, e storagev1.CSINodeDriver) (*storagev1.CSINode, error) {
	at := slices.IndexFunc(object.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == e.Name })
	next := object.DeepCopy()
	switch {
	case at < 0:
		next.Spec.Drivers = append(next.Spec.Drivers, e)
	case sameNode(object.Spec.Drivers[at], e) && allocatable(object.Spec.Drivers[at]) == allocatable(e):
		return object, nil
	case sameNode(object.Spec.Drivers[at], e):
		next.Spec.Drivers[at] = e
	default:
		// The ID and the keys of an entry can't be changed, only those of a new one.
		next.Spec.Drivers = slices.Delete(next.Spec.Drivers, at, at+1)
		without, err := k.put(ctx, next)
		if err != nil {
			return object, err
		}
		return k.enterOne(ctx, without, e)
	}
	put, err := k.put(ctx, next)
	if err != nil {
		return object, err
	}
	return put, nil
}

// sameNode reports whether two entries have the same ID and topology keys.
func sameNode(a, b storagev1.CSINodeDriver) bool {
	had := slices.Compact(slices.Sorted(slices.Values(a.TopologyKeys)))
	return a.NodeID == b.NodeID && slices.Equal(had, b.TopologyKeys)
}

// allocatable returns the number of volumes of an entry; 0: no limit.
func allocatable(d storagev1.CSINodeDriver) int32 {
	if d.Allocatable == nil {
		return 0
	}
	return ptr.Deref(d.Allocatable.Count, 0)
}

func (k *Keeper) put(ctx context.Context, object *storagev1.CSINode) (*storagev1.CSINode, error) {
	put, err := k.cfg.Client.CSINodes().Update(ctx, object, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("update the CSINode: %w", err)
	}
	return put, nil
}

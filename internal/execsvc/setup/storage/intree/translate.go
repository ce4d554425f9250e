package intree

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"
)

// policyAttribute is the attribute of a vSphere volume's storage policy.
const policyAttribute = "storagepolicyname"

// migratedAnnotation is upstream's annotation of a PersistentVolume of such a plugin: the driver. A controller adds it to those in
// the API server, later than a node may see them.
const migratedAnnotation = "pv.kubernetes.io/migrated-to"

// Persistent returns the PersistentVolume with the source and the nodeAffinity of the CSI driver. One of no such plugin is
// returned as it is. An error has the kubelet's words.
func Persistent(pv *v1.PersistentVolume) (*v1.PersistentVolume, error) {
	t := csitranslation.New()
	if !t.IsPVMigratable(pv) {
		return pv, nil
	}
	translated, err := t.TranslateInTreePVToCSI(klog.Background(), pv)
	if err != nil {
		return nil, wrapped(err)
	}
	return marked(translated), nil
}

// Inline returns a PersistentVolume for a pod's own volume that criconfig.IsMigrated. Its name is that of the volume's directory
// in the pod's: as with the kubelet, each "/" is a "~". Its source is read-only if the pod's volume is: the library leaves that
// out for Portworx.
func Inline(spec *v1.Volume, namespace string) (*v1.PersistentVolume, error) {
	of, policy := spec, ""
	if s := spec.VsphereVolume; s != nil && s.StoragePolicyName != "" {
		// The library (v0.37.2) reads the policy of a pod's volume from a nil source, and panics.
		policy, of = s.StoragePolicyName, spec.DeepCopy()
		of.VsphereVolume.StoragePolicyName = ""
	}
	pv, err := csitranslation.New().TranslateInTreeInlineVolumeToCSI(klog.Background(), of, namespace)
	if err != nil {
		return nil, wrapped(err)
	}
	if policy != "" {
		pv.Spec.CSI.VolumeAttributes[policyAttribute] = policy
	}
	if s := spec.PortworxVolume; s != nil {
		pv.Spec.CSI.ReadOnly = s.ReadOnly
	}
	pv.Name = strings.ReplaceAll(pv.Name, "/", "~")
	return marked(pv), nil
}

// marked returns the translated PersistentVolume with the annotation of its driver.
func marked(pv *v1.PersistentVolume) *v1.PersistentVolume {
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, migratedAnnotation, pv.Spec.CSI.Driver)
	return pv
}

func wrapped(err error) error { return fmt.Errorf("failed to translate in-tree pv to CSI: %w", err) }

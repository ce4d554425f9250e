package relay

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/client/stream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	claimKind  = podconfigv1.ObjectKind_OBJECT_KIND_PERSISTENT_VOLUME_CLAIM
	volumeKind = podconfigv1.ObjectKind_OBJECT_KIND_PERSISTENT_VOLUME
	driverKind = podconfigv1.ObjectKind_OBJECT_KIND_CSI_DRIVER
)

// storageObjects returns a claim, its volume and their driver that are valid, with a placeholder as each size.
func storageObjects() (*v1.PersistentVolumeClaim, *v1.PersistentVolume, *storagev1.CSIDriver) {
	modes, size := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, v1.ResourceList{v1.ResourceStorage: resource.MustParse(placeholder)}
	filesystem := v1.PersistentVolumeFilesystem
	return &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "default"},
			Spec: v1.PersistentVolumeClaimSpec{
				AccessModes: modes, Resources: v1.VolumeResourceRequirements{Requests: size}, VolumeName: "pv", VolumeMode: &filesystem,
			},
		}, &v1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv"},
			Spec: v1.PersistentVolumeSpec{
				AccessModes: modes, Capacity: size, PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain, VolumeMode: &filesystem,
				PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "d.example.com", VolumeHandle: "h"}},
			},
		}, &storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: "d.example.com"}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)},
		}
}

// TestStorageObjects: a claim and what it needs is taken if a manifest here could have it.
func TestStorageObjects(t *testing.T) {
	claim, volume, driver := storageObjects()
	encoded := func(o interface{ Marshal() ([]byte, error) }) []byte {
		data, err := o.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for kind, data := range map[podconfigv1.ObjectKind][]byte{claimKind: encoded(claim), volumeKind: encoded(volume), driverKind: encoded(driver)} {
		if o, err := unmarshalObject(kind, data); err != nil || podconfigv1.ObjectKind(o.Kind()) != kind {
			t.Errorf("%v: %v, %v", kind, o, err)
		}
		if kind == driverKind {
			continue // It has no quantities.
		}
		huge := bytes.ReplaceAll(data, []byte(placeholder), []byte("1e-000009999"))
		if _, err := unmarshalObject(kind, huge); !errors.Is(err, errQuantity) {
			t.Errorf("%v: a size that takes minutes to parse: %v", kind, err)
		}
	}
	other := claim.DeepCopy()
	other.Spec.StorageClassName = new("fast")
	other.Spec.VolumeName = ""
	secret := volume.DeepCopy()
	secret.Spec.CSI.NodeStageSecretRef = &v1.SecretReference{Name: "s", Namespace: "kube-system"}
	attached := driver.DeepCopy()
	attached.Spec.AttachRequired = new(true)
	many := volume.DeepCopy()
	for range 20_000 {
		many.Spec.AccessModes = append(many.Spec.AccessModes, "x")
	}
	lifecycles := driver.DeepCopy()
	for range 20_000 {
		lifecycles.Spec.VolumeLifecycleModes = append(lifecycles.Spec.VolumeLifecycleModes, "x")
	}
	labelled := claim.DeepCopy()
	labelled.Labels = map[string]string{}
	for i := range 1000 {
		labelled.Labels[fmt.Sprint("-", i)] = "-"
	}
	outside := claim.DeepCopy()
	outside.Namespace = "../.."
	for name, tc := range map[string]struct {
		kind podconfigv1.ObjectKind
		data []byte
		want string
	}{
		"a class":                 {claimKind, encoded(other), "storageClassName"},
		"a Secret":                {volumeKind, encoded(secret), "nodeStageSecretRef"},
		"attached":                {driverKind, encoded(attached), "attachRequired"},
		"a path as its namespace": {claimKind, encoded(outside), "metadata.namespace"},
		"many modes":              {volumeKind, encoded(many), "Too many"},
		"many lifecycles":         {driverKind, encoded(lifecycles), "Too many"},
		"many labels":             {claimKind, encoded(labelled), "metadata.labels"},
		"another encoding":        {claimKind, []byte("{}"), ""},
	} {
		if _, err := unmarshalObject(tc.kind, tc.data); err == nil || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 1100 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestObjectRefs: kinds without namespaces have none, and the others have one.
func TestObjectRefs(t *testing.T) {
	for name, tc := range map[string]struct {
		ref  *podconfigv1.ObjectRef
		good bool
	}{
		"a claim":                     {&podconfigv1.ObjectRef{Kind: claimKind, Namespace: "default", Name: "data", Source: "file"}, true},
		"a claim without a namespace": {&podconfigv1.ObjectRef{Kind: claimKind, Name: "data", Source: "file"}, false},
		"a volume":                    {&podconfigv1.ObjectRef{Kind: volumeKind, Name: "pv", Source: "file"}, true},
		"a volume with a namespace":   {&podconfigv1.ObjectRef{Kind: volumeKind, Namespace: "default", Name: "pv", Source: "file"}, false},
		"a driver":                    {&podconfigv1.ObjectRef{Kind: driverKind, Name: "d", Source: "file"}, true},
		"an unknown kind":             {&podconfigv1.ObjectRef{Kind: 99, Namespace: "default", Name: "d", Source: "file"}, false},
		"no name":                     {&podconfigv1.ObjectRef{Kind: volumeKind, Source: "file"}, false},
	} {
		r := &stream.ObjectRevision{Updates: []*podconfigv1.ObjectUpdate{{Op: put, Objects: []*podconfigv1.Object{{Ref: tc.ref}}}}}
		if err := checkObjects(r); (err == nil) != tc.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

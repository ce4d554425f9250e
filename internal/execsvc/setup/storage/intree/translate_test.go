package intree

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
)

// affinity is a nodeAffinity with one requirement for each key and value.
func affinity(pairs ...string) *v1.VolumeNodeAffinity {
	var term v1.NodeSelectorTerm
	for i := 0; i < len(pairs); i += 2 {
		term.MatchExpressions = append(term.MatchExpressions, v1.NodeSelectorRequirement{
			Key: pairs[i], Operator: v1.NodeSelectorOpIn, Values: pairs[i+1 : i+2],
		})
	}
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}}
}

// TestPersistent: the driver, the handle, fsType, readOnly, attributes, secrets and topology of the PersistentVolumes of all seven
// plugins are those that the attach-detach controller and the kubelet compute. The PersistentVolume itself stays as it was.
func TestPersistent(t *testing.T) {
	const zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
	const uri = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d"
	px := &v1.SecretReference{Namespace: "ns", Name: "token"}
	for name, tc := range map[string]struct {
		source              v1.PersistentVolumeSource
		labels, annotations map[string]string
		affinity            *v1.VolumeNodeAffinity
		modes, wantModes    []v1.PersistentVolumeAccessMode
		want                v1.CSIPersistentVolumeSource
		wantAffinity        *v1.VolumeNodeAffinity
		claimRef            *v1.ObjectReference
	}{
		"aws-ebs": {
			source: v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{
				VolumeID: "aws://us-east-1a/vol-1234", FSType: "xfs", Partition: 2, ReadOnly: true,
			}},
			affinity:     affinity(zone, "us-east-1a", region, "us-east-1"),
			want:         v1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-1234", FSType: "xfs", ReadOnly: true, VolumeAttributes: map[string]string{"partition": "2"}},
			wantAffinity: affinity("topology.ebs.csi.aws.com/zone", "us-east-1a", region, "us-east-1"),
		},
		"aws-ebs, old labels": {
			source:       v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}},
			labels:       map[string]string{"failure-domain.beta.kubernetes.io/zone": "z"},
			want:         v1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-1", VolumeAttributes: map[string]string{"partition": "0"}},
			wantAffinity: affinity("topology.ebs.csi.aws.com/zone", "z"),
		},
		"gce-pd, a zone": {
			source:   v1.PersistentVolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "d", FSType: "ext4", Partition: 1}},
			labels:   map[string]string{zone: "us-central1-a"},
			modes:    []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			affinity: affinity(zone, "us-central1-a"),
			want: v1.CSIPersistentVolumeSource{
				Driver: "pd.csi.storage.gke.io", VolumeHandle: "projects/UNSPECIFIED/zones/us-central1-a/disks/d", FSType: "ext4",
				VolumeAttributes: map[string]string{"partition": "1"},
			},
			wantModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, wantAffinity: affinity("topology.gke.io/zone", "us-central1-a"),
		},
		"gce-pd, a region": {
			source: v1.PersistentVolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "d", ReadOnly: true}},
			labels: map[string]string{zone: "us-central1-a__us-central1-b"},
			modes:  []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany, v1.ReadWriteOnce},
			want: v1.CSIPersistentVolumeSource{
				Driver: "pd.csi.storage.gke.io", VolumeHandle: "projects/UNSPECIFIED/regions/us-central1/disks/d", ReadOnly: true,
				VolumeAttributes: map[string]string{"partition": ""},
			},
			// The driver supports no volume with both: one that writes is one that also reads.
			wantModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			wantAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: "topology.gke.io/zone", Operator: v1.NodeSelectorOpIn, Values: []string{"us-central1-a", "us-central1-b"}}},
			}}}},
		},
		"azure-disk": {
			source: v1.PersistentVolumeSource{AzureDisk: &v1.AzureDiskVolumeSource{
				DiskName: "d", DataDiskURI: uri, FSType: ptr.To("ext4"), ReadOnly: ptr.To(true),
				CachingMode: ptr.To(v1.AzureDataDiskCachingReadOnly), Kind: ptr.To(v1.AzureManagedDisk),
			}},
			affinity: affinity("topology.disk.csi.azure.com/zone", "1"),
			want: v1.CSIPersistentVolumeSource{
				Driver: "disk.csi.azure.com", VolumeHandle: uri, FSType: "ext4", ReadOnly: true,
				VolumeAttributes: map[string]string{"kind": "Managed", "cachingmode": "ReadOnly", "fstype": "ext4"},
			},
			wantAffinity: affinity("topology.disk.csi.azure.com/zone", "1"),
		},
		"azure-file": {
			source:      v1.PersistentVolumeSource{AzureFile: &v1.AzureFilePersistentVolumeSource{SecretName: "azure-storage-account-acc-secret", ShareName: "share", ReadOnly: true}},
			annotations: map[string]string{"kubernetes.io/azure-file-resource-group": "g"},
			claimRef:    &v1.ObjectReference{Namespace: "shop", Name: "data"},
			want: v1.CSIPersistentVolumeSource{
				Driver: "file.csi.azure.com", VolumeHandle: "g#acc#share#pv#shop", ReadOnly: true,
				VolumeAttributes:   map[string]string{"sharename": "share"},
				NodeStageSecretRef: &v1.SecretReference{Namespace: "shop", Name: "azure-storage-account-acc-secret"},
			},
		},
		"cinder": {
			source:       v1.PersistentVolumeSource{Cinder: &v1.CinderPersistentVolumeSource{VolumeID: "v", FSType: "ext4", ReadOnly: true}},
			labels:       map[string]string{zone: "nova"},
			want:         v1.CSIPersistentVolumeSource{Driver: "cinder.csi.openstack.org", VolumeHandle: "v", FSType: "ext4", ReadOnly: true, VolumeAttributes: map[string]string{}},
			wantAffinity: affinity("topology.cinder.csi.openstack.org/zone", "nova"),
		},
		"vsphere": {
			source:   v1.PersistentVolumeSource{VsphereVolume: &v1.VsphereVirtualDiskVolumeSource{VolumePath: "[store] a/b.vmdk", FSType: "ext4"}},
			affinity: affinity(zone, "z", region, "r"),
			want: v1.CSIPersistentVolumeSource{
				Driver: "csi.vsphere.vmware.com", VolumeHandle: "[store] a/b.vmdk", FSType: "ext4", VolumeAttributes: map[string]string{},
			},
			wantAffinity: affinity("topology.csi.vmware.com/zone", "z", "topology.csi.vmware.com/region", "r"),
		},
		"vsphere with a policy": {
			source: v1.PersistentVolumeSource{VsphereVolume: &v1.VsphereVirtualDiskVolumeSource{VolumePath: "p", StoragePolicyName: "gold"}},
			want:   v1.CSIPersistentVolumeSource{Driver: "csi.vsphere.vmware.com", VolumeHandle: "p", VolumeAttributes: map[string]string{"storagepolicyname": "gold"}},
		},
		"portworx": {
			source:      v1.PersistentVolumeSource{PortworxVolume: &v1.PortworxVolumeSource{VolumeID: "v", FSType: "ext4", ReadOnly: true}},
			annotations: map[string]string{"openstorage.io/auth-secret-name": "token", "openstorage.io/auth-secret-namespace": "ns"},
			want: v1.CSIPersistentVolumeSource{
				Driver: "pxd.portworx.com", VolumeHandle: "v", FSType: "ext4", VolumeAttributes: map[string]string{},
				ControllerPublishSecretRef: px, NodeStageSecretRef: px, NodePublishSecretRef: px, ControllerExpandSecretRef: px, NodeExpandSecretRef: px,
			},
		},
		"a CSI driver": {
			source:       v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}},
			affinity:     affinity(zone, "z"),
			want:         v1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"},
			wantAffinity: affinity(zone, "z"),
		},
	} {
		pv := &v1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv", Labels: tc.labels, Annotations: tc.annotations},
			Spec: v1.PersistentVolumeSpec{
				PersistentVolumeSource: tc.source, NodeAffinity: tc.affinity, AccessModes: tc.modes, ClaimRef: tc.claimRef, MountOptions: []string{"noatime"},
			},
		}
		before := pv.DeepCopy()
		got, err := Persistent(pv)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := before.DeepCopy()
		want.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &tc.want}
		want.Spec.NodeAffinity, want.Spec.AccessModes = tc.wantAffinity, tc.wantModes
		if tc.source.CSI == nil {
			metav1.SetMetaDataAnnotation(&want.ObjectMeta, "pv.kubernetes.io/migrated-to", tc.want.Driver)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(before, pv); diff != "" {
			t.Errorf("%s: the PersistentVolume was changed (-before +after):\n%s", name, diff)
		}
	}
}

// TestInline: the driver, the handle, fsType, readOnly, attributes, secret and directory of pods' own volumes of all seven plugins.
func TestInline(t *testing.T) {
	const uri = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d"
	for name, tc := range map[string]struct {
		source v1.VolumeSource
		dir    string
		mode   v1.PersistentVolumeAccessMode
		want   v1.CSIPersistentVolumeSource
	}{
		"aws-ebs": {
			v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws:///vol-1", FSType: "ext4", ReadOnly: true}},
			"ebs.csi.aws.com-vol-1", v1.ReadWriteOnce,
			v1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-1", FSType: "ext4", ReadOnly: true, VolumeAttributes: map[string]string{"partition": "0"}},
		},
		"aws-ebs that leads elsewhere": {
			v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "/../../x"}},
			"ebs.csi.aws.com-~..~..~x", v1.ReadWriteOnce,
			v1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "/../../x", VolumeAttributes: map[string]string{"partition": "0"}},
		},
		"gce-pd": {
			v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "d", FSType: "ext4", ReadOnly: true}},
			"pd.csi.storage.gke.io-d", v1.ReadOnlyMany,
			v1.CSIPersistentVolumeSource{
				Driver: "pd.csi.storage.gke.io", VolumeHandle: "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d", FSType: "ext4", ReadOnly: true,
				VolumeAttributes: map[string]string{"partition": ""},
			},
		},
		"azure-disk": {
			v1.VolumeSource{AzureDisk: &v1.AzureDiskVolumeSource{DataDiskURI: uri, FSType: ptr.To("xfs"), ReadOnly: ptr.To(true)}},
			strings.ReplaceAll(uri, "/", "~"), v1.ReadWriteOnce,
			v1.CSIPersistentVolumeSource{
				Driver: "disk.csi.azure.com", VolumeHandle: uri, FSType: "xfs", ReadOnly: true,
				VolumeAttributes: map[string]string{"kind": "Managed", "fstype": "xfs"},
			},
		},
		"azure-file": {
			v1.VolumeSource{AzureFile: &v1.AzureFileVolumeSource{SecretName: "key", ShareName: "share", ReadOnly: true}},
			"#key#share#v#shop", v1.ReadWriteMany,
			v1.CSIPersistentVolumeSource{
				Driver: "file.csi.azure.com", VolumeHandle: "#key#share#v#shop", ReadOnly: true, VolumeAttributes: map[string]string{"sharename": "share"},
				// The secret is one of the pod's own namespace.
				NodeStageSecretRef: &v1.SecretReference{Namespace: "shop", Name: "key"},
			},
		},
		"cinder": {
			v1.VolumeSource{Cinder: &v1.CinderVolumeSource{VolumeID: "v", FSType: "ext4", ReadOnly: true}},
			"cinder.csi.openstack.org-v", v1.ReadWriteOnce,
			v1.CSIPersistentVolumeSource{Driver: "cinder.csi.openstack.org", VolumeHandle: "v", FSType: "ext4", ReadOnly: true, VolumeAttributes: map[string]string{}},
		},
		"vsphere": {
			v1.VolumeSource{VsphereVolume: &v1.VsphereVirtualDiskVolumeSource{VolumePath: "[store] a/b.vmdk", FSType: "ext4"}},
			"csi.vsphere.vmware.com-[store] a~b.vmdk", v1.ReadWriteOnce,
			v1.CSIPersistentVolumeSource{Driver: "csi.vsphere.vmware.com", VolumeHandle: "[store] a/b.vmdk", FSType: "ext4", VolumeAttributes: map[string]string{}},
		},
		"vsphere with a policy": {
			v1.VolumeSource{VsphereVolume: &v1.VsphereVirtualDiskVolumeSource{VolumePath: "p", StoragePolicyName: "gold"}},
			"csi.vsphere.vmware.com-p", v1.ReadWriteOnce,
			v1.CSIPersistentVolumeSource{Driver: "csi.vsphere.vmware.com", VolumeHandle: "p", VolumeAttributes: map[string]string{"storagepolicyname": "gold"}},
		},
		"portworx": {
			v1.VolumeSource{PortworxVolume: &v1.PortworxVolumeSource{VolumeID: "v", FSType: "ext4", ReadOnly: true}},
			"pxd.portworx.com-v", v1.ReadOnlyMany,
			v1.CSIPersistentVolumeSource{Driver: "pxd.portworx.com", VolumeHandle: "v", FSType: "ext4", ReadOnly: true, VolumeAttributes: map[string]string{}},
		},
	} {
		spec := &v1.Volume{Name: "v", VolumeSource: tc.source}
		before := spec.DeepCopy()
		got, err := Inline(spec, "shop")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
			Name: tc.dir, Annotations: map[string]string{"pv.kubernetes.io/migrated-to": tc.want.Driver},
		}, Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &tc.want}, AccessModes: []v1.PersistentVolumeAccessMode{tc.mode},
			VolumeMode: ptr.To(v1.PersistentVolumeFilesystem),
		}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(before, spec); diff != "" {
			t.Errorf("%s: the pod's volume was changed (-before +after):\n%s", name, diff)
		}
	}
}

// TestErrors: what can't be translated is an error with the kubelet's words.
func TestErrors(t *testing.T) {
	disk := &v1.AzureDiskVolumeSource{DataDiskURI: "d", Kind: ptr.To(v1.AzureDedicatedBlobDisk)}
	_, inline := Inline(&v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{AzureDisk: disk}}, "shop")
	_, persistent := Persistent(&v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{
		AzureFile: &v1.AzureFilePersistentVolumeSource{SecretName: "key", ShareName: "share"}, // It has no claimRef.
	}}})
	for want, err := range map[string]error{
		"failed to translate in-tree pv to CSI: kind(Dedicated) is not supported in csi migration": inline,
		"failed to translate in-tree pv to CSI: could not find a secret namespace":                 persistent,
	} {
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// TestSources: admission takes exactly those sources that the library translates, and each of them is translated, empty too.
func TestSources(t *testing.T) {
	of, migrated := reflect.TypeFor[v1.VolumeSource](), 0
	for i := range of.NumField() {
		spec := &v1.Volume{Name: "v"}
		reflect.ValueOf(&spec.VolumeSource).Elem().Field(i).Set(reflect.New(of.Field(i).Type.Elem()))
		want := csitranslation.New().IsInlineMigratable(spec)
		if got := criconfig.IsMigrated(&spec.VolumeSource); got != want {
			t.Errorf("%s: IsMigrated is %t; want %t", of.Field(i).Name, got, want)
		}
		if !want {
			continue
		}
		migrated++
		if _, err := Inline(spec, "shop"); err != nil {
			t.Errorf("%s: %v", of.Field(i).Name, err)
		}
	}
	if migrated != 7 {
		t.Errorf("%d sources are migrated; want 7", migrated)
	}
}

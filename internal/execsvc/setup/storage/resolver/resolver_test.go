package resolver

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// fake is a CSI and has the claims.
type fake struct {
	pv *v1.PersistentVolume
	// of is the PersistentVolume of the last call of Persistent.
	of *v1.PersistentVolume
}

func (f *fake) Resolve(context.Context, *v1.Pod, *v1.Volume) (storage.Volume, error) {
	return storage.Volume{Name: "csi inline"}, nil
}

func (f *fake) Persistent(_ context.Context, _ *v1.Pod, _ *v1.Volume, pv *v1.PersistentVolume) (storage.Volume, error) {
	f.of = pv
	return storage.Volume{Name: "csi persistent"}, nil
}

func (f *fake) Claim(context.Context, *v1.Pod, *v1.Volume) (*v1.PersistentVolumeClaim, *v1.PersistentVolume, error) {
	if f.pv == nil {
		return nil, nil, errors.New("it isn't bound")
	}
	return nil, f.pv, nil
}

// TestSources: each source goes to its backend, after the nodeAffinity is checked with the kubelet's words.
func TestSources(t *testing.T) {
	shared := v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "s", Path: "/"}}
	local := v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/disk"}}
	claim := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}
	disk := v1.ISCSIVolumeSource{TargetPortal: "192.0.2.1", IQN: "iqn.2026-01.com.example:store"}
	persistentDisk := v1.ISCSIPersistentVolumeSource{TargetPortal: disk.TargetPortal, IQN: disk.IQN}
	zone := func(value string) *v1.VolumeNodeAffinity {
		return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{value}}},
		}}}}
	}
	for name, tc := range map[string]struct {
		source   v1.VolumeSource
		of       *v1.PersistentVolumeSource
		affinity *v1.VolumeNodeAffinity
		block    bool
		unknown  bool
		want     string
		err      string
	}{
		"a pod's share":       {source: v1.VolumeSource{NFS: shared.NFS}, want: "kubernetes.io/nfs v"},
		"a pod's disk":        {source: v1.VolumeSource{ISCSI: &disk}, want: "kubernetes.io/iscsi v"},
		"a disk":              {source: claim, of: &v1.PersistentVolumeSource{ISCSI: &persistentDisk}, want: "kubernetes.io/iscsi pv"},
		"a block disk":        {source: claim, of: &v1.PersistentVolumeSource{ISCSI: &persistentDisk}, block: true, want: "kubernetes.io/iscsi pv"},
		"a disk of another":   {source: claim, of: &v1.PersistentVolumeSource{ISCSI: &persistentDisk}, affinity: zone("b"), err: errAffinity.Error()},
		"an inline volume":    {source: v1.VolumeSource{CSI: &v1.CSIVolumeSource{}}, want: " csi inline"},
		"not bound":           {source: claim, err: "it isn't bound"},
		"a share":             {source: claim, of: &shared, want: "kubernetes.io/nfs pv"},
		"local":               {source: claim, of: &local, affinity: zone("a"), want: "kubernetes.io/local-volume pv"},
		"CSI":                 {source: claim, of: &v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{}}, want: " csi persistent"},
		"a block volume":      {source: claim, of: &local, block: true, want: "kubernetes.io/local-volume pv"},
		"a block share":       {source: claim, of: &shared, block: true, err: "volumeMode Block of PersistentVolume pv isn't supported yet"},
		"another zone":        {source: claim, of: &local, affinity: zone("b"), err: `MountVolume.NodeAffinity check failed for volume "pv" : no matching NodeSelectorTerms`},
		"CSI of another zone": {source: claim, of: &v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{}}, affinity: zone("b"), err: "NodeAffinity check failed"},
		"no Node yet":         {source: claim, of: &local, affinity: zone("a"), unknown: true, err: "aren't known yet"},
		"no Node, no need":    {source: claim, of: &local, unknown: true, want: "kubernetes.io/local-volume pv"},
	} {
		f := &fake{}
		if tc.of != nil {
			f.pv = &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: *tc.of, NodeAffinity: tc.affinity}}
			if tc.block {
				f.pv.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
			}
		}
		r := New(Config{KubeletDir: "/k", CSI: f, Claims: f, Labels: func() (map[string]string, bool) {
			return map[string]string{"zone": "a"}, !tc.unknown
		}})
		v, err := r.Resolve(t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}, &v1.Volume{Name: "v", VolumeSource: tc.source})
		switch {
		case tc.err != "":
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: error %v, want %q", name, err, tc.err)
			}
		case err != nil || v.Plugin+" "+v.Name != tc.want:
			t.Errorf("%s: %s %s, %v", name, v.Plugin, v.Name, err)
		case v.Device != tc.block:
			t.Errorf("%s: a device: %v", name, v.Device)
		}
	}
}

// TestInTree: volumes of in-tree plugins are those of the CSI driver, which a claim's PersistentVolume and a pod's own source name.
// The nodeAffinity is compared with the driver's label of the node, not with the one that the PersistentVolume has.
func TestInTree(t *testing.T) {
	disk := &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://a/vol-1"}
	claim := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}
	for name, tc := range map[string]struct {
		source v1.VolumeSource
		labels map[string]string
		alone  bool
		err    string
	}{
		"a claim":            {source: claim, labels: map[string]string{"topology.ebs.csi.aws.com/zone": "a"}},
		"another zone":       {source: claim, labels: map[string]string{"topology.ebs.csi.aws.com/zone": "b", v1.LabelTopologyZone: "a"}, err: errAffinity.Error()},
		"without the driver": {source: claim, labels: map[string]string{v1.LabelTopologyZone: "a"}, err: errAffinity.Error()},
		"a pod's own":        {source: v1.VolumeSource{AWSElasticBlockStore: disk}},
		"without claims":     {source: v1.VolumeSource{AWSElasticBlockStore: disk}, alone: true},
		"no such disk": {
			source: v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://a/x"}},
			err:    "failed to translate in-tree pv to CSI: ",
		},
	} {
		f := &fake{pv: &v1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv", Labels: map[string]string{v1.LabelTopologyZone: "a"}},
			Spec:       v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{AWSElasticBlockStore: disk}},
		}}
		cfg := Config{KubeletDir: "/k", CSI: f, Labels: func() (map[string]string, bool) { return tc.labels, true }}
		if !tc.alone {
			cfg.Claims = f
		}
		_, err := New(cfg).Resolve(t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}, &v1.Volume{Name: "v", VolumeSource: tc.source})
		switch {
		case tc.err != "":
			if err == nil || !strings.Contains(err.Error(), tc.err) || f.of != nil {
				t.Errorf("%s: error %v, want %q", name, err, tc.err)
			}
		case err != nil || f.of == nil || f.of.Spec.CSI == nil || f.of.Spec.CSI.Driver != "ebs.csi.aws.com" || f.of.Spec.CSI.VolumeHandle != "vol-1":
			t.Errorf("%s: %+v, %v", name, f.of, err)
		}
	}
}

// TestAttached: in a cluster, iSCSI volumes are attached by the controller, by its name for them, but not those of static pods.
func TestAttached(t *testing.T) {
	source := v1.ISCSIPersistentVolumeSource{TargetPortal: "192.0.2.1", IQN: "iqn.2026-01.com.example:store", Lun: 3}
	f := &fake{pv: &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{ISCSI: &source}},
	}}
	static := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: map[string]string{podmeta.SourceAnnotation: "file"}}}
	claim := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}
	inline := v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{TargetPortal: source.TargetPortal, IQN: source.IQN, Lun: source.Lun}}
	for name, tc := range map[string]struct {
		source   v1.VolumeSource
		attaches bool
		pod      *v1.Pod
		want     string
	}{
		"a claim":              {claim, true, &v1.Pod{}, "kubernetes.io/iscsi/192.0.2.1:iqn.2026-01.com.example:store:3"},
		"a pod's own":          {inline, true, &v1.Pod{}, "kubernetes.io/iscsi/192.0.2.1:iqn.2026-01.com.example:store:3"},
		"a static pod's":       {inline, true, static, ""},
		"without a controller": {claim, false, &v1.Pod{}, ""},
	} {
		v, err := New(Config{KubeletDir: "/k", CSI: f, Claims: f, Attaches: tc.attaches}).Resolve(t.Context(), tc.pod, &v1.Volume{Name: "v", VolumeSource: tc.source})
		if err != nil || v.UniqueName != tc.want || v.Attaches != (tc.want != "") {
			t.Errorf("%s: %q, %v, %v", name, v.UniqueName, v.Attaches, err)
		}
	}
}

// TestStandalone: without an API server the shares of pods can be mounted, and a claim is CSI's error.
func TestStandalone(t *testing.T) {
	r := New(Config{CSI: &fake{}})
	v, err := r.Resolve(t.Context(), &v1.Pod{}, &v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "s", Path: "/"}}})
	if err != nil || v.Name != "v" {
		t.Errorf("%+v, %v", v, err)
	}
	if v, err := r.Resolve(t.Context(), &v1.Pod{}, &v1.Volume{VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}); v.Name != "csi inline" {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestOncePod: a PersistentVolume whose only access mode is ReadWriteOncePod is for one pod at a time, with each backend. As with the kubelet,
// one with another mode too isn't.
func TestOncePod(t *testing.T) {
	once := []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	block := ptr.To(v1.PersistentVolumeBlock)
	type spec = v1.PersistentVolumeSpec
	for name, pv := range map[string]spec{
		"CSI":     {PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{}}},
		"in-tree": {PersistentVolumeSource: v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}},
		"local":   {PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/disk"}}},
		"a device": {
			VolumeMode: block, PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/disk"}},
		},
		"iSCSI": {PersistentVolumeSource: v1.PersistentVolumeSource{ISCSI: &v1.ISCSIPersistentVolumeSource{
			TargetPortal: "192.0.2.1", IQN: "iqn.2026-01.com.example:store",
		}}},
		"NFS": {PersistentVolumeSource: v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "s", Path: "/"}}},
	} {
		for _, modes := range [][]v1.PersistentVolumeAccessMode{
			once, nil, {v1.ReadWriteOnce}, {v1.ReadWriteOncePod, v1.ReadWriteOnce}, {v1.ReadWriteMany},
		} {
			pv.AccessModes = modes
			f := &fake{pv: &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: pv}}
			r := New(Config{KubeletDir: "/k", CSI: f, Claims: f})
			for _, source := range []v1.VolumeSource{
				{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}, {Ephemeral: &v1.EphemeralVolumeSource{}},
			} {
				v, err := r.Resolve(t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}, &v1.Volume{Name: "v", VolumeSource: source})
				if want := slices.Equal(modes, once); err != nil || v.Exclusive != want || v.OncePod != want {
					t.Errorf("%s with %v: exclusive %v, %v; error %v", name, modes, v.Exclusive, v.OncePod, err)
				}
			}
		}
	}
}

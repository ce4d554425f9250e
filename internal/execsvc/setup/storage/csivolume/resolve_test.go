package csivolume

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// both are the lifecycle modes of a driver that supports inline volumes too.
var both = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral}

// TestTraits: a volume is attached unless its CSIDriver says otherwise, staged if its driver can, and listed in volumesInUse
// only if it is attached. An inline volume is neither attached nor staged.
func TestTraits(t *testing.T) {
	const unique = "kubernetes.io/csi/" + driverName + "^" + handle
	for name, tc := range map[string]struct {
		spec   *storagev1.CSIDriverSpec
		stages bool
		inline bool
		want   record.Traits
	}{
		"no CSIDriver":     {want: record.Traits{Backend: "csi", Attaches: true, UniqueName: unique}},
		"not said":         {spec: &storagev1.CSIDriverSpec{}, want: record.Traits{Backend: "csi", Attaches: true, UniqueName: unique}},
		"attached, staged": {spec: &storagev1.CSIDriverSpec{AttachRequired: ptr.To(true)}, stages: true, want: record.Traits{Backend: "csi", Attaches: true, UniqueName: unique, Stages: true}},
		"staged":           {spec: &storagev1.CSIDriverSpec{AttachRequired: ptr.To(false)}, stages: true, want: record.Traits{Backend: "csi", Stages: true}},
		"neither":          {spec: &storagev1.CSIDriverSpec{AttachRequired: ptr.To(false)}, want: record.Traits{Backend: "csi"}},
		"inline":           {spec: &storagev1.CSIDriverSpec{AttachRequired: ptr.To(true)}, stages: true, inline: true, want: record.Traits{Backend: "csi"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBench(t)
			if tc.stages {
				n = newBench(t, canStage)
			}
			if n.spec = tc.spec; n.spec != nil {
				n.spec.VolumeLifecycleModes = both
			}
			p, spec := pod()
			if tc.inline {
				p, spec = inlinePod()
			}
			v, err := n.Resolve(t.Context(), p, spec)
			must(t, err)
			if v.Traits != tc.want || (v.StageArgs != "") != tc.want.Stages || v.Plugin != "kubernetes.io/csi" {
				t.Errorf("resolved as %+v; want %+v", v, tc.want)
			}
		})
	}
}

// TestResolveErrors: a volume that can't be used is an error in the kubelet's words.
func TestResolveErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*bench)
		inline bool
		want   string
	}{
		"claim":  {change: func(n *bench) { n.pv = nil }, want: "PVC is not bound"},
		"claims": {change: func(n *bench) { n.cfg.Claims = nil }, want: "this node has no API server, and so no claims"},
		"nfs": {
			change: func(n *bench) {
				n.pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{}}
			},
			want: "the source nfs of PersistentVolume pv-1 isn't supported yet",
		},
		"fc": {
			change: func(n *bench) {
				n.pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{FC: &v1.FCVolumeSource{}}
			},
			want: "the source fc of PersistentVolume pv-1 isn't supported: a CSI driver can attach disks of Fibre Channel",
		},
		"local": {
			change: func(n *bench) {
				n.pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{}}
			},
			want: "the source local of PersistentVolume pv-1",
		},
		"mode": {
			change: func(n *bench) { n.pv.Spec.VolumeMode = ptr.To(v1.PersistentVolumeMode("Tape")) },
			want:   "volumeMode Tape of PersistentVolume pv-1 isn't supported yet",
		},
		"driver": {
			change: func(n *bench) { n.pv.Spec.CSI.Driver = "other.example.com" },
			want:   `MountVolume.MountDevice failed for volume "pv-1" : kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: driver name other.example.com not found in the list of registered CSI drivers`,
		},
		"driver's name": {change: func(n *bench) { n.pv.Spec.CSI.Driver = "../../x" }, want: `"../../x" isn't a CSI driver's name`},
		"no handle":     {change: func(n *bench) { n.pv.Spec.CSI.VolumeHandle = "" }, want: "no volumeHandle"},
		"only inline": {
			change: func(n *bench) {
				n.spec = &storagev1.CSIDriverSpec{VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}}
			},
			want: `kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode: volume mode "Persistent" not supported by driver csi.example.com (only supports ["Ephemeral"])`,
		},
		"only persistent": {
			inline: true, change: func(n *bench) { n.spec = &storagev1.CSIDriverSpec{VolumeLifecycleModes: both[:1]} },
			want: `volume mode "Ephemeral" not supported by driver csi.example.com (only supports ["Persistent"])`,
		},
		"inline without CSIDriver": {
			inline: true, change: func(*bench) {},
			want: `volume mode "Ephemeral" not supported by driver csi.example.com (no CSIDriver object)`,
		},
		"tokens": {
			change: func(n *bench) {
				n.spec = &storagev1.CSIDriverSpec{VolumeLifecycleModes: both, TokenRequests: []storagev1.TokenRequest{{}}}
			},
			want: "CSIDriver csi.example.com has tokenRequests, and this node can't request tokens",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBench(t)
			tc.change(n)
			n.restart()
			p, spec := pod()
			if tc.inline {
				p, spec = inlinePod()
			}
			if v, err := n.Resolve(t.Context(), p, spec); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("resolved as %+v, %v; want %q", v, err, tc.want)
			}
		})
	}
}

// TestInlineHandle: two pods never share an inline volume, and neither do two volumes of a pod. The handle is the kubelet's:
// sha256sum of the pod's UID and the volume's name.
func TestInlineHandle(t *testing.T) {
	n := newBench(t)
	n.spec = &storagev1.CSIDriverSpec{VolumeLifecycleModes: both}
	p, spec := inlinePod()
	spec.CSI.ReadOnly = ptr.To(true)
	v, err := n.Resolve(t.Context(), p, spec)
	must(t, err)
	if v.Handle != inlineHandle || v.Name != "scratch" || !v.ReadOnly {
		t.Errorf("resolved as %+v; want the handle %s", v, inlineHandle)
	}
	p.UID = "other"
	if other, err := n.Resolve(t.Context(), p, spec); err != nil || other.Handle == v.Handle {
		t.Errorf("another pod has the handle %s, %v", other.Handle, err)
	}
}

// TestReadOnly: a volume is read-only if the pod's claim is. The PersistentVolume's readOnly is for the attachment, unless it is that
// of a pod's own source.
func TestReadOnly(t *testing.T) {
	n := newBench(t)
	n.pv.Spec.CSI.ReadOnly = true
	p, spec := pod()
	if v, err := n.Resolve(t.Context(), p, spec); err != nil || v.ReadOnly {
		t.Errorf("%+v, %v", v, err)
	}
	spec.PersistentVolumeClaim.ReadOnly = true
	if v, err := n.Resolve(t.Context(), p, spec); err != nil || !v.ReadOnly {
		t.Errorf("%+v, %v", v, err)
	}
	spec.PersistentVolumeClaim, spec.Ephemeral = nil, &v1.EphemeralVolumeSource{}
	if v, err := n.Resolve(t.Context(), p, spec); err != nil || v.ReadOnly {
		t.Errorf("an ephemeral volume: %+v, %v", v, err)
	}
	spec.Ephemeral = nil
	for _, readOnly := range []bool{false, true} {
		n.pv.Spec.CSI.ReadOnly = readOnly
		if v, err := n.Persistent(t.Context(), p, spec, n.pv); err != nil || v.ReadOnly != readOnly {
			t.Errorf("a pod's own source with readOnly %t: %+v, %v", readOnly, v, err)
		}
	}
}

// TestNoSecrets: what is recorded has references to secrets and tokens only.
func TestNoSecrets(t *testing.T) {
	n := newBench(t, canStage)
	n.cfg.Tokens = token
	n.restart()
	n.spec = &storagev1.CSIDriverSpec{VolumeLifecycleModes: both, TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}}}
	ref := &v1.SecretReference{Namespace: "vault", Name: "all"}
	n.pv.Spec.CSI.NodeStageSecretRef, n.pv.Spec.CSI.NodePublishSecretRef, n.pv.Spec.CSI.NodeExpandSecretRef = ref, ref, ref
	n.secrets["vault/all"] = map[string]string{"key": "hidden"}
	v, err := n.Resolve(t.Context(), first(pod()), &first(pod()).Spec.Volumes[0])
	must(t, err)
	for _, text := range []string{v.StageArgs, v.PublishArgs} {
		if strings.Contains(text, "hidden") || strings.Contains(text, "token of") || !strings.Contains(text, `"name":"all"`) {
			t.Errorf("recorded: %s", text)
		}
	}
	// The arguments can be read back as they are.
	var args publishArgs
	must(t, json.Unmarshal([]byte(v.PublishArgs), &args))
	if want := (&secretRef{"vault", "all"}); !reflect.DeepEqual(args.Secret, want) || !reflect.DeepEqual(args.ExpandSecret, want) || encode(args) != v.PublishArgs {
		t.Errorf("read back as %+v", args)
	}
}

func first[A, B any](a A, _ B) A { return a }

// TestGroupAnnotation: the group of a PersistentVolume's annotation is that of the pod's processes. Another text is ignored, as
// by the kubelet, and so is a number that is no group.
func TestGroupAnnotation(t *testing.T) {
	for text, want := range map[string]int64{"1234": 1234, "": -1, "many": -1, "-3": -1, "99999999999": -1, "0": 0} {
		n := newBench(t, canStage)
		n.pv.Annotations = map[string]string{"pv.beta.kubernetes.io/gid": text}
		p, spec := pod()
		v, err := n.Resolve(t.Context(), p, spec)
		if err != nil || ptr.Deref(v.Group, -1) != want {
			t.Errorf("%q: the group is %v, %v; want %d", text, ptr.Deref(v.Group, -1), err, want)
		}
	}
}

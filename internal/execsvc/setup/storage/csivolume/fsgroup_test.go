package csivolume

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/fusetest"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/ownership"
	"github.com/podstream/podstream/internal/roottest"
)

// TestFSGroup: the group of a volume is changed by the driver if it can, and otherwise here, by the policy of its CSIDriver.
func TestFSGroup(t *testing.T) {
	roottest.Need(t, "mount and chown")
	policy := func(p storagev1.FSGroupPolicy) *storagev1.CSIDriverSpec {
		return &storagev1.CSIDriverSpec{FSGroupPolicy: &p, VolumeLifecycleModes: both}
	}
	many := []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	for name, tc := range map[string]struct {
		spec      *storagev1.CSIDriverSpec
		change    func(*v1.PersistentVolume)
		readOnly  bool
		delegated bool
		inline    string
		want      bool
	}{
		"default":                  {want: true},
		"default, no fsType":       {change: func(pv *v1.PersistentVolume) { pv.Spec.CSI.FSType = "" }},
		"default, no access modes": {change: func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = nil }},
		"default, many writers":    {change: func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = many }},
		"ReadWriteOncePod": {change: func(pv *v1.PersistentVolume) {
			pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
		}, want: true},
		"ReadWriteOnceWithFSType":     {spec: policy(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy), want: true},
		"None":                        {spec: policy(storagev1.NoneFSGroupPolicy)},
		"File, many, no fsType":       {spec: policy(storagev1.FileFSGroupPolicy), change: func(pv *v1.PersistentVolume) { pv.Spec.CSI.FSType, pv.Spec.AccessModes = "", many }, want: true},
		"File, read-only":             {spec: policy(storagev1.FileFSGroupPolicy), readOnly: true},
		"inline":                      {spec: policy(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy), inline: "xfs", want: true},
		"inline, no fsType":           {spec: policy(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy), inline: "-"},
		"the driver's":                {delegated: true},
		"the driver's, whose is None": {spec: policy(storagev1.NoneFSGroupPolicy), delegated: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBench(t, canStage)
			if tc.delegated {
				n = newBench(t, canStage, canGroup)
			}
			n.spec = tc.spec
			if tc.change != nil {
				tc.change(n.pv)
			}
			p, spec := pod()
			if tc.inline != "" {
				p, spec = inlinePod()
				if tc.inline != "-" {
					spec.CSI.FSType = &tc.inline
				}
			} else {
				spec.PersistentVolumeClaim.ReadOnly = tc.readOnly
			}
			p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](4321)}
			v, s, publishing := n.resolved(p, spec)
			if v.Stages {
				must(t, n.Stage(t.Context(), s))
			}
			must(t, n.Publish(t.Context(), publishing))
			info, err := os.Stat(filepath.Join(n.driver.base, "canary"))
			must(t, err)
			if gid := info.Sys().(*syscall.Stat_t).Gid; (gid == 4321) != tc.want {
				t.Errorf("the volume's group is %d; changed here: %t", gid, tc.want)
			}
			for _, r := range n.driver.taken() {
				group := r.(interface {
					GetVolumeCapability() *csipb.VolumeCapability
				}).GetVolumeCapability().GetMount().GetVolumeMountGroup()
				if (group == "4321") != tc.delegated || group != "" && group != "4321" {
					t.Errorf("%T has the group %q; want it: %t", r, group, tc.delegated)
				}
			}
			must(t, n.Unpublish(t.Context(), publishing))
			if v.Stages {
				must(t, n.Unstage(t.Context(), s))
			}
		})
	}
}

// TestGroupThatHangs: a volume whose files can't be changed counts as published. It is undone meanwhile.
func TestGroupThatHangs(t *testing.T) {
	roottest.Need(t, "mount")
	n := newBench(t)
	started, ended := make(chan struct{}), make(chan error, 1)
	n.groups = foreign.NewGroups(func(ctx context.Context, _ string, _ ownership.Request) error {
		close(started)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return context.Cause(ctx)
	})
	p, spec := pod()
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](4321), FSGroupChangePolicy: ptr.To(v1.FSGroupChangeOnRootMismatch)}
	_, _, publishing := n.resolved(p, spec)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	isUncertain(t, n.Publish(ctx, publishing), "applyFSGroup failed for vol "+handle+": the group of its files is still being changed")
	must(t, n.Unpublish(t.Context(), publishing))
	select {
	case err := <-ended:
		if err == nil || err.Error() != "the volume is unpublished" {
			t.Errorf("the change ended with %v", err)
		}
	default:
		t.Error("the change still runs after Unpublish")
	}
}

// TestChangePolicy: the change has the pod's group and policy.
func TestChangePolicy(t *testing.T) {
	roottest.Need(t, "mount")
	n := newBench(t)
	var got ownership.Request
	n.groups = foreign.NewGroups(func(_ context.Context, _ string, r ownership.Request) error {
		got = r
		return nil
	})
	p, spec := pod()
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](4321), FSGroupChangePolicy: ptr.To(v1.FSGroupChangeOnRootMismatch)}
	_, _, publishing := n.resolved(p, spec)
	must(t, n.Publish(t.Context(), publishing))
	if want := (ownership.Request{Dir: n.mount(), Group: 4321, Policy: v1.FSGroupChangeOnRootMismatch}); got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
	must(t, n.Unpublish(t.Context(), publishing))
}

// TestGroupOnDeadServer: a volume whose server has died is an error that says so, and can be undone.
func TestGroupOnDeadServer(t *testing.T) {
	n := newBench(t)
	server := fusetest.Hang(t, n.driver.base)
	server.Die()
	p, spec := pod()
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](4321)}
	_, _, publishing := n.resolved(p, spec)
	err := n.Publish(t.Context(), publishing)
	isUncertain(t, err, "applyFSGroup failed for vol "+handle+": ")
	if !foreign.IsCorrupted(err) {
		t.Errorf("error %v, want one of a mount whose server is gone", err)
	}
	must(t, n.Unpublish(t.Context(), publishing))
}

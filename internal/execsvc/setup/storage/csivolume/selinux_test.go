package csivolume

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/selinuxmount"
	"github.com/podstream/podstream/internal/roottest"
)

// policy are the labels of a node with SELinux.
type policy struct{}

// Enabled is part of selinuxmount.Labels.
func (policy) Enabled() bool { return true }

// FileLabel is part of selinuxmount.Labels.
func (policy) FileLabel(o *v1.SELinuxOptions) (string, error) {
	return "system_u:object_r:container_file_t:" + o.Level, nil
}

const (
	fileLabel = "system_u:object_r:container_file_t:s0:c1,c2"
	option    = `context="` + fileLabel + `"`
)

// labelled makes the bench a node with SELinux, and its driver one that mounts with contexts.
func (n *bench) labelled() {
	n.cfg.SELinux = &selinuxmount.Chooser{Labels: policy{}}
	n.spec = &storagev1.CSIDriverSpec{SELinuxMount: ptr.To(true), VolumeLifecycleModes: both, AttachRequired: ptr.To(false)}
	n.restart()
}

// labelledPod returns a pod whose container mounts the volume, with a level.
func labelledPod(of func() (*v1.Pod, *v1.Volume)) (*v1.Pod, *v1.Volume) {
	p, spec := of()
	p.Spec.SecurityContext = &v1.PodSecurityContext{SELinuxOptions: &v1.SELinuxOptions{Level: "s0:c1,c2"}}
	p.Spec.Containers = []v1.Container{{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: spec.Name, MountPath: "/data"}}}}
	return p, spec
}

// labelledCapability is the capability with the context.
func labelledCapability() *csipb.VolumeCapability {
	c := capability("")
	c.GetMount().MountFlags = append(c.GetMount().MountFlags, option)
	return c
}

// TestSELinuxContext: the driver gets the context with both calls, and vol_data.json has it. A call that is repeated after a
// restart has it too, also if the CSIDriver doesn't want it any more. An expansion hasn't.
func TestSELinuxContext(t *testing.T) {
	roottest.Need(t, "mount")
	n := newBench(t, canStage, canExpand)
	n.labelled()
	v, s, p := n.resolved(labelledPod(pod))
	if v.SELinuxContext != fileLabel || !v.OneContext || v.AccessMode != "ROX" {
		t.Errorf("resolved as %+v", v)
	}
	for _, args := range []string{v.StageArgs, v.PublishArgs} {
		if got := n.ContextOf(args); got != fileLabel {
			t.Errorf("the context of %s is %q", args, got)
		}
	}
	must(t, n.Stage(t.Context(), s), n.Publish(t.Context(), p))
	first := n.driver.taken()
	for _, r := range first {
		if c := r.(interface {
			GetVolumeCapability() *csipb.VolumeCapability
		}).GetVolumeCapability(); !reflect.DeepEqual(c.GetMount().GetMountFlags(), labelledCapability().GetMount().GetMountFlags()) {
			t.Errorf("%T has the mount flags %q", r, c.GetMount().GetMountFlags())
		}
	}
	for _, dir := range []string{n.dir(), filepath.Dir(n.staging())} {
		if got := data(t, dir)["seLinuxMountContext"]; got != fileLabel {
			t.Errorf("%s/vol_data.json has the context %q", dir, got)
		}
	}
	must(t, n.Expand(t.Context(), p, ExpandArgs(1)))
	if c := n.one().(*csipb.NodeExpandVolumeRequest).GetVolumeCapability(); !slices.Equal(c.GetMount().GetMountFlags(), []string{"noatime"}) {
		t.Errorf("the expansion has the mount flags %q", c.GetMount().GetMountFlags())
	}
	if n.Relabels(p) {
		t.Error("the runtime labels a volume that has a context")
	}
	n.cfg.SELinux, n.spec = nil, nil
	n.restart()
	n.driver.fails(nil) // It is mounted already.
	must(t, n.Stage(t.Context(), s), n.Publish(t.Context(), p))
	if again := n.driver.taken(); !reflect.DeepEqual(texts(again), texts(first)) {
		t.Errorf("repeated as\n%v\nwant\n%v", texts(again), texts(first))
	}
	n.driver.does(nil)
	must(t, n.Unpublish(t.Context(), p), n.Unstage(t.Context(), s))
}

// TestNoSELinuxContext: which volumes have none.
func TestNoSELinuxContext(t *testing.T) {
	for name, change := range map[string]func(n *bench, p *v1.Pod){
		"the driver doesn't want it": func(n *bench, _ *v1.Pod) { n.spec.SELinuxMount = nil },
		"it says no":                 func(n *bench, _ *v1.Pod) { n.spec.SELinuxMount = ptr.To(false) },
		"Recursive": func(_ *bench, p *v1.Pod) {
			p.Spec.SecurityContext.SELinuxChangePolicy = ptr.To(v1.SELinuxChangePolicyRecursive)
		},
		"a block volume":   func(n *bench, _ *v1.Pod) { n.pv.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock) },
		"no SELinux":       func(n *bench, _ *v1.Pod) { n.cfg.SELinux = nil; n.restart() },
		"an inline volume": nil,
	} {
		t.Run(name, func(t *testing.T) {
			n := newBench(t, canStage)
			n.labelled()
			of := pod
			if change == nil {
				of = inlinePod
			}
			p, spec := labelledPod(of)
			if change != nil {
				change(n, p)
			}
			if v, _, _ := n.resolved(p, spec); v.SELinuxContext != "" || strings.Contains(v.StageArgs+v.PublishArgs, "seLinuxContext") {
				t.Errorf("resolved as %+v", v)
			}
		})
	}
	n := newBench(t, canStage)
	n.labelled()
	p, spec := labelledPod(pod)
	p.Spec.SecurityContext.SELinuxOptions.Level = `s0",suid,x="`
	if _, err := n.Resolve(t.Context(), p, spec); err == nil {
		t.Error("a level that ends the mount option is accepted")
	}
}

// TestRelabels: without a context, the runtime labels the volume if its file system has labels. If that can't be read, it tries.
func TestRelabels(t *testing.T) {
	n := newBench(t, canStage)
	n.spec = nil
	_, _, p := n.resolved(labelledPod(pod))
	table := filepath.Join(t.TempDir(), "mountinfo")
	n.mountTable = table
	for options, want := range map[string]bool{"rw,seclabel": true, "rw": false} {
		must(t, os.WriteFile(table, []byte("1 1 8:1 / "+n.mount()+" rw - ext4 /dev/a "+options+"\n"), 0o600))
		if got := n.Relabels(p); got != want {
			t.Errorf("%s: %t; want %t", options, got, want)
		}
	}
	must(t, os.Remove(table))
	if !n.Relabels(p) {
		t.Error("the runtime doesn't label a volume of which nothing is known")
	}
}

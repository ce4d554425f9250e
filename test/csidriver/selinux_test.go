package csidriver

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/csi"
	"github.com/podstream/podstream/internal/execsvc/setup/plugins"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/csivolume"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/selinuxmount"
	podvolume "github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/test/csidriver/calllog"
	"github.com/podstream/podstream/test/csidriver/fault"
)

// policy are the labels of a node with SELinux.
type policy struct{}

// Enabled is part of selinuxmount.Labels.
func (policy) Enabled() bool { return true }

// FileLabel is part of selinuxmount.Labels.
func (policy) FileLabel(o *v1.SELinuxOptions) (string, error) {
	return "system_u:object_r:container_file_t:" + o.Level, nil
}

// agent is podexecd's part that sets up volumes, on a node with SELinux.
type agent struct {
	*bench
	kubelet string
	drivers *csi.Drivers
	manager *podvolume.Manager
	stop    func()

	mu   sync.Mutex
	spec storagev1.CSIDriverSpec
}

// CSIDriver is part of csivolume.CSIDrivers.
func (a *agent) CSIDriver(context.Context, string) (*storagev1.CSIDriverSpec, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	spec := a.spec
	return &spec, true, nil
}

// mounts sets seLinuxMount of the CSIDriver.
func (a *agent) mounts(contexts bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spec.SELinuxMount = &contexts
}

// Claim is part of csivolume.Claims.
func (a *agent) Claim(context.Context, *v1.Pod, *v1.Volume) (*v1.PersistentVolumeClaim, *v1.PersistentVolume, error) {
	return &v1.PersistentVolumeClaim{}, &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: v1.PersistentVolumeSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}, MountOptions: []string{"noatime"},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: a.Options().Name, VolumeHandle: "v"}},
		},
	}, nil
}

// newAgent starts a driver that accepts contexts, and the agent.
func newAgent(t *testing.T) *agent {
	t.Helper()
	needMounts(t, Directory)
	a := &agent{bench: newBench(t, func(o *Options) { o.Contexts = true })}
	a.spec = storagev1.CSIDriverSpec{AttachRequired: ptr.To(false), VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}}
	a.kubelet = a.path("kubelet")
	must(t, errors.Join(os.MkdirAll(kubeletdir.Plugins(a.kubelet), 0o750), os.MkdirAll(kubeletdir.PodsDir(a.kubelet), 0o750)))
	a.drivers = csi.New(csi.Config{CallLimit: patience, Metrics: prometheus.NewRegistry()})
	e, err := plugins.NewEndpoint(a.Options().Endpoint, filepath.Dir(a.Options().Endpoint))
	must(t, err)
	instance, err := a.drivers.Open(t.Context(), plugins.Plugin{Type: plugins.CSIPlugin, Name: a.Options().Name, Endpoint: e, Versions: []string{"1.0.0"}})
	must(t, err)
	instance.Use()
	t.Cleanup(instance.Close)
	a.run()
	return a
}

// run starts the agent. It ends with stop, or the test.
func (a *agent) run() {
	a.t.Helper()
	log := slog.New(slog.DiscardHandler)
	cfg := csivolume.Config{
		KubeletDir: a.kubelet, Node: "node-1", Drivers: a.drivers, Claims: a, CSIDrivers: a, SELinux: &selinuxmount.Chooser{Labels: policy{}}, Log: log,
	}
	backend := csivolume.New(cfg)
	records, err := record.Open(a.path("records"), "agent")
	must(a.t, err)
	s := storage.New(storage.Config{
		Records: records, Agent: "agent", Boot: "boot", Backends: map[string]storage.Backend{csivolume.BackendName: backend},
		Claims: csivolume.NewResolver(cfg), SELinux: true, Log: log,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
		backend.Close()
	}()
	a.stop = sync.OnceFunc(func() { cancel(); <-ended })
	a.t.Cleanup(a.stop)
	<-s.Reconstructed()
	a.manager = podvolume.New(podvolume.Config{PodDirs: kubeletdir.Pods{Current: kubeletdir.PodsDir(a.kubelet)}, Plugins: []podvolume.Plugin{s}})
}

// labelledPod returns a pod with the volume, whose level is set.
func labelledPod(name, level string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{
			SecurityContext: &v1.PodSecurityContext{SELinuxOptions: &v1.SELinuxOptions{Level: level}},
			Containers:      []v1.Container{{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
			Volumes: []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}},
		},
	}
}

func (a *agent) setUp(p *v1.Pod) error {
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	return a.manager.SetUp(ctx, podvolume.Request{Pod: p})
}

// becomes sets the pod up, with the retries of its syncs.
func (a *agent) becomes(p *v1.Pod) {
	a.t.Helper()
	for end := time.Now().Add(patience); ; {
		err := a.setUp(p)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			a.t.Fatal(err)
		}
	}
}

// labelledCall is a call, and the mount option of the context that it has.
type labelledCall struct{ method, context string }

// contexts returns the calls that mount and unmount, by the driver's log.
func (a *agent) contexts() (all []labelledCall) {
	a.t.Helper()
	for _, c := range a.readLog().Calls {
		switch c.Method {
		case "NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume":
		default:
			continue
		}
		var args struct {
			Capability struct {
				Mount struct {
					Flags []string `json:"mount_flags"`
				} `json:"mount"`
			} `json:"volume_capability"`
		}
		must(a.t, json.Unmarshal(c.Args, &args))
		of := contextOf(&csipb.VolumeCapability{AccessType: &csipb.VolumeCapability_Mount{
			Mount: &csipb.VolumeCapability_MountVolume{MountFlags: args.Capability.Mount.Flags},
		}})
		all = append(all, labelledCall{c.Method, of})
	}
	return all
}

// TestSELinux: by the driver's log, two pods share a volume with their context. A pod with another one waits until both are gone; then the
// volume is unstaged, and staged with the other one. A call without a certain answer is repeated with its context after a restart,
// though the CSIDriver doesn't want one any more.
func TestSELinux(t *testing.T) {
	const one, two = `context="system_u:object_r:container_file_t:s0:c1,c2"`, `context="system_u:object_r:container_file_t:s0:c3"`
	a := newAgent(t)
	a.mounts(true)
	a.add(fault.Fault{Method: "NodeStageVolume", Action: fault.ActFail, Code: codes.DeadlineExceeded, Times: 1})
	first := labelledPod("first", "s0:c1,c2")
	if err := a.setUp(first); err == nil {
		t.Fatal("it is set up")
	}
	a.stop()
	a.mounts(false)
	a.run()
	a.mounts(true)
	a.becomes(first)
	a.becomes(labelledPod("second", "s0:c1,c2"))
	other := labelledPod("other", "s0:c3")
	waits := func() {
		t.Helper()
		if e, ok := errors.AsType[*storage.ContextError](a.setUp(other)); !ok || e.Pod != "shop/other" {
			t.Errorf("the error is %v", e)
		}
	}
	waits()
	a.stop()
	a.run()
	waits()
	must(t, a.manager.TearDown(a.ctx(), "first"))
	waits()
	must(t, a.manager.TearDown(a.ctx(), "second"))
	a.becomes(other)
	must(t, a.manager.TearDown(a.ctx(), "other"))
	a.becomes(labelledPod("last", "s0:c3"))

	var stages, publications []string
	before := ""
	for _, c := range a.contexts() {
		switch c.method {
		case "NodeStageVolume":
			if len(stages) > 0 && stages[len(stages)-1] != c.context && before != "NodeUnstageVolume" {
				t.Errorf("staged with %s after %s", c.context, before)
			}
			stages = append(stages, c.context)
		case "NodePublishVolume":
			publications = append(publications, c.context)
		}
		before = c.method
	}
	if got := slices.Compact(slices.Clone(stages)); len(stages) < 3 || !slices.Equal(got, []string{one, two}) {
		t.Errorf("staged with %q", stages)
	}
	if !slices.Equal(publications, []string{one, one, two, two}) {
		t.Errorf("published with %q", publications)
	}
	for _, p := range calllog.Check(a.readLog().Calls) {
		t.Error(p)
	}
	must(t, a.manager.TearDown(a.ctx(), "last"))
}

// TestOneContext: the driver refuses a second context, as the kernel does.
func TestOneContext(t *testing.T) {
	needMounts(t, Directory)
	b := newBench(t, func(o *Options) { o.Contexts = true })
	must(t, b.stage(files(writer, `context="a"`)))
	must(t, b.publish("one", files(writer, `context="a"`)))
	wantCode(t, b.publish("two", files(writer, `context="b"`)), codes.FailedPrecondition)
	wantCode(t, b.publish("two", files(writer)), codes.FailedPrecondition)
	must(t, b.unpublish("one"))
	must(t, b.unstage())
	must(t, b.stage(files(writer, `context="b"`)))
	must(t, b.unstage())
	b.clean()
}

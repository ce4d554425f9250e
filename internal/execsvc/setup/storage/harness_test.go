package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/logtest"
)

func TestMain(m *testing.M) {
	foreign.Main()
	goleak.VerifyTestMain(m)
}

// claims resolves a claim to the volume with its name as the handle: HANDLE, or HANDLE.PV.
type claims struct {
	mu sync.Mutex
	// version is part of the arguments.
	version int
	asked   int
	err     error
	// device is set if the volumes are block devices. unattached is set if they need no attachment.
	device, unattached bool
}

// Resolve is part of Claims.
func (c *claims) Resolve(_ context.Context, pod *v1.Pod, spec *v1.Volume) (Volume, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	claim := spec.PersistentVolumeClaim
	handle, _, _ := strings.Cut(claim.ClaimName, ".")
	traits := record.Traits{Backend: "b", Stages: true, Attaches: true, UniqueName: "name^" + handle}
	if c.unattached {
		traits.Attaches, traits.UniqueName = false, ""
	}
	v := Volume{
		Key: record.Key{Driver: "d", Handle: handle}, Traits: traits,
		Plugin: "kubernetes.io/csi", Name: "pv-" + claim.ClaimName, ReadOnly: claim.ReadOnly, Device: c.device,
		StageArgs: fmt.Sprint("s", c.version), PublishArgs: fmt.Sprint("p", c.version),
	}
	if sc := pod.Spec.SecurityContext; sc != nil {
		v.FSGroup = sc.FSGroup
	}
	return v, c.err
}

// node is a Storage that runs, with a Manager.
type node struct {
	*Storage
	t       *testing.T
	dir     string
	truth   *truth
	claims  *claims
	manager *volume.Manager
	logs    logtest.Buffer
	stop    func()
}

// start starts a Storage on the directory. It runs until stop, or the test's end. change may be nil.
func start(t *testing.T, dir string, d *truth, change func(*Config)) *node {
	t.Helper()
	records, err := record.Open(filepath.Join(dir, "volumes"), "agent")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, dir: dir, truth: d, claims: &claims{}}
	cfg := Config{
		Records: records, Agent: "agent", Boot: "boot", Backends: map[string]Backend{"b": d}, Attachments: d, Claims: n.claims,
	}
	cfg.Log = slog.New(slog.NewTextHandler(&n.logs, nil))
	if change != nil {
		change(&cfg)
	}
	n.Storage = New(cfg)
	n.manager = volume.New(volume.Config{
		PodDirs: kubeletdir.Pods{Current: filepath.Join(dir, "pods")}, Plugins: []volume.Plugin{n.Storage}, Mounter: mount.NewFakeMounter(nil),
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.Run(ctx)
	}()
	n.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(func() {
		n.stop()
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, w := range d.wrong {
			t.Error(w)
		}
	})
	<-n.Reconstructed()
	return n
}

// pod returns a pod with volumes of these claims; a volume has its claim's name.
func pod(uid string, claims ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid)}}
	c := v1.Container{Name: "c"}
	for _, claim := range claims {
		name := strings.ReplaceAll(claim, ".", "-")
		source := v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &source}})
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	p.Spec.Containers = []v1.Container{c}
	return p
}

func (n *node) setUp(p *v1.Pod) error {
	return n.manager.SetUp(n.t.Context(), volume.Request{Pod: p})
}

func (n *node) mustSetUp(p *v1.Pod) {
	n.t.Helper()
	if err := n.setUp(p); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) mustTearDown(uid types.UID) {
	n.t.Helper()
	if err := n.manager.TearDown(n.t.Context(), uid); err != nil {
		n.t.Fatal(err)
	}
}

// expect compares the calls since the last time.
func (n *node) expect(want ...string) {
	n.t.Helper()
	synctest.Wait()
	if got := n.truth.called(); !slices.Equal(got, want) {
		n.t.Errorf("calls:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// empty checks that nothing is left of any volume.
func (n *node) empty() {
	n.t.Helper()
	synctest.Wait()
	if names, complete := n.InUse(); len(names) > 0 || !complete {
		n.t.Errorf("in use at the end: %v (complete: %v)", names, complete)
	}
	if pods := n.Pods(); len(pods) > 0 {
		n.t.Errorf("pods at the end: %v", pods)
	}
	files, err := filepath.Glob(filepath.Join(n.dir, "volumes", "*"))
	left, globErr := filepath.Glob(filepath.Join(n.dir, "pods", "*"))
	if err = errors.Join(err, globErr); err != nil || len(files)+len(left) > 0 {
		n.t.Errorf("left at the end: %v, %v (%v)", files, left, err)
	}
	n.truth.mu.Lock()
	defer n.truth.mu.Unlock()
	for name, is := range n.truth.inUse {
		if is {
			n.t.Errorf("%s is in use at the API server", name)
		}
	}
	if len(n.truth.staged)+len(n.truth.published) > 0 {
		n.t.Errorf("the driver has staged %v, published %v", n.truth.staged, n.truth.published)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.entries)+len(n.targets)+len(n.names)+len(n.resolved) > 0 {
		n.t.Errorf("in memory: %v %v %v %v", n.entries, n.targets, n.names, n.resolved)
	}
}

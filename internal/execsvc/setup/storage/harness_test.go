package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/logtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// truth is a driver and an API server that keep their own state, by which tests judge package storage.
type truth struct {
	mu sync.Mutex
	// calls are all calls, as "stage HANDLE ARGS" or "publish HANDLE UID ARGS".
	calls []string
	// times are when they began.
	times []time.Time
	// wrong are violated rules.
	wrong []string
	// running are the handles for which a call runs.
	running map[string]bool
	staged  map[string]bool
	// published has HANDLE UID.
	published map[string]bool
	inUse     map[string]bool
	// answers returns the error of a call before it has an effect. It may block. Nil: all succeed at once.
	answers func(ctx context.Context, call string) error
	// context is what WaitAttached returns.
	context map[string]string
}

func newTruth() *truth {
	return &truth{
		running: map[string]bool{}, staged: map[string]bool{}, published: map[string]bool{}, inUse: map[string]bool{},
		context: map[string]string{"device": "/dev/x"},
	}
}

// begin records a call, and returns its error.
func (d *truth) begin(ctx context.Context, handle string, words ...string) error {
	call := strings.Join(words, " ")
	d.mu.Lock()
	d.calls, d.times = append(d.calls, call), append(d.times, time.Now())
	if d.running[handle] {
		d.wrong = append(d.wrong, call+" while another call runs")
	}
	d.running[handle] = true
	answers := d.answers
	d.mu.Unlock()
	var err error
	if answers != nil {
		err = answers(ctx, call)
	}
	d.mu.Lock()
	d.running[handle] = false
	d.mu.Unlock()
	return err
}

// effect changes the truth after a call that succeeded, and records what was wrong with it.
func (d *truth) effect(wrong bool, call string, change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if wrong {
		d.wrong = append(d.wrong, call)
	}
	change()
}

func (d *truth) isStaged(handle string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.staged[handle]
}

func (d *truth) publications(handle string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for p := range d.published {
		if strings.HasPrefix(p, handle+" ") {
			n++
		}
	}
	return n
}

func (d *truth) used(handle string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inUse["name^"+handle]
}

// Stage is part of Backend.
func (d *truth) Stage(ctx context.Context, s Staging) error {
	if err := d.begin(ctx, s.Handle, "stage", s.Handle, s.Args+s.Context["device"]); err != nil {
		return err
	}
	d.effect(!d.used(s.Handle), "staged before it is in use", func() { d.staged[s.Handle] = true })
	return nil
}

// Unstage is part of Backend.
func (d *truth) Unstage(ctx context.Context, s Staging) error {
	if err := d.begin(ctx, s.Handle, "unstage", s.Handle); err != nil {
		return err
	}
	d.effect(d.publications(s.Handle) > 0, "unstaged while it is published", func() { delete(d.staged, s.Handle) })
	return nil
}

// Publish is part of Backend.
func (d *truth) Publish(ctx context.Context, p Publishing) error {
	if err := d.begin(ctx, p.Handle, "publish", p.Handle, string(p.UID), p.Args); err != nil {
		return err
	}
	d.effect(!d.isStaged(p.Handle), "published before it is staged", func() { d.published[p.Handle+" "+string(p.UID)] = true })
	return os.MkdirAll(filepath.Join(p.Dir, MountDir), 0o750)
}

// Unpublish is part of Backend.
func (d *truth) Unpublish(ctx context.Context, p Publishing) error {
	if err := d.begin(ctx, p.Handle, "unpublish", p.Handle, string(p.UID)); err != nil {
		return err
	}
	d.effect(false, "", func() { delete(d.published, p.Handle+" "+string(p.UID)) })
	return nil
}

// Expand is part of Backend.
func (d *truth) Expand(ctx context.Context, p Publishing, args string) error {
	return d.begin(ctx, p.Handle, "expand", p.Handle, string(p.UID), args)
}

// Stats is part of Backend.
func (d *truth) Stats(context.Context, Publishing) (Stats, error) { return Stats{Used: 7}, nil }

// MarkInUse is part of Attachments.
func (d *truth) MarkInUse(ctx context.Context, name string) error {
	return d.use(ctx, "mark", name, true)
}

// DropInUse is part of Attachments.
func (d *truth) DropInUse(ctx context.Context, name string) error {
	handle := strings.TrimPrefix(name, "name^")
	if d.isStaged(handle) || d.publications(handle) > 0 {
		d.effect(true, "left volumesInUse while it is mounted", func() {})
	}
	return d.use(ctx, "drop", name, false)
}

func (d *truth) use(ctx context.Context, word, name string, is bool) error {
	if err := d.begin(ctx, "api "+name, word, name); err != nil {
		return err
	}
	d.effect(false, "", func() { d.inUse[name] = is })
	return nil
}

// WaitAttached is part of Attachments.
func (d *truth) WaitAttached(ctx context.Context, v Volume) (map[string]string, error) {
	return d.context, d.begin(ctx, "api "+v.UniqueName, "attached", v.UniqueName)
}

// called returns the calls since the last time, and forgets them.
func (d *truth) called() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := d.calls
	d.calls, d.times = nil, nil
	return calls
}

func (d *truth) answer(f func(ctx context.Context, call string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers = f
}

// hang is an answer of calls with that prefix that never comes.
func hang(prefix string) func(context.Context, string) error {
	return func(ctx context.Context, call string) error {
		if !strings.HasPrefix(call, prefix) {
			return nil
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
}

// withoutWaits returns the calls without waits for attachments.
func withoutWaits(calls []string) []string {
	return slices.DeleteFunc(calls, func(c string) bool { return strings.HasPrefix(c, "attached") })
}

// claims resolves a claim to the volume with its name as the handle: HANDLE, or HANDLE.PV.
type claims struct {
	mu sync.Mutex
	// version is part of the arguments.
	version int
	asked   int
	err     error
}

// Resolve is part of Claims.
func (c *claims) Resolve(_ context.Context, _ *v1.Pod, spec *v1.Volume) (Volume, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	claim := spec.PersistentVolumeClaim
	handle, _, _ := strings.Cut(claim.ClaimName, ".")
	return Volume{
		Key:    record.Key{Driver: "d", Handle: handle},
		Traits: record.Traits{Backend: "b", Stages: true, Attaches: true, UniqueName: "name^" + handle},
		Plugin: "kubernetes.io/csi", Name: "pv-" + claim.ClaimName, ReadOnly: claim.ReadOnly,
		StageArgs: fmt.Sprint("s", c.version), PublishArgs: fmt.Sprint("p", c.version),
	}, c.err
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

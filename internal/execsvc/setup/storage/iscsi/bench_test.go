package iscsi

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/roottest"
)

func TestMain(m *testing.M) {
	foreign.Main()
	roottest.OwnMounts()
	goleak.VerifyTestMain(m)
}

// bench is a Backend on a machine.
type bench struct {
	*Backend
	*machine
	kubelet string
	log     bytes.Buffer
	secrets secrets
	helpers *foreign.Helpers
	// lookUp is the next Backend's.
	lookUp func(ctx context.Context, network, host string) ([]netip.Addr, error)
	// settleTime is the next Backend's, and sweepTime too, which is negative if it has no sweep beside the test.
	settleTime, sweepTime time.Duration
}

// secrets are Secrets, by their names.
type secrets map[string]map[string]string

func (s secrets) Secret(_ context.Context, namespace, name string) (map[string]string, error) {
	if data, has := s[namespace+"/"+name]; has {
		return data, nil
	}
	return nil, apierrors.NewNotFound(v1.Resource("secrets"), name)
}

func newBench(t *testing.T, luns ...int) *bench {
	t.Helper()
	b := &bench{machine: newMachine(t, luns...), kubelet: t.TempDir(), secrets: secrets{}, settleTime: time.Millisecond}
	must(t, os.MkdirAll(kubeletdir.Plugins(b.kubelet), 0o750))
	b.helpers = foreign.New(foreign.Config{Limit: time.Minute})
	t.Cleanup(b.helpers.Close)
	b.start("boot")
	t.Cleanup(func() { b.Close() })
	return b
}

// start starts a Backend, as podexecd does in that boot of the machine.
func (b *bench) start(boot string) {
	b.t.Helper()
	if b.Backend != nil {
		b.Close()
	}
	var err error
	b.Backend, err = New(Config{
		Dir: b.path("records"), Agent: "agent", Boot: boot, Helpers: b.helpers, Secrets: b.secrets, Host: b.host(),
		Log: slog.New(slog.NewTextHandler(&b.log, nil)), settle: b.settleTime, sweep: b.sweepTime,
		multipath: time.Millisecond, lookUp: b.lookUp,
	})
	must(b.t, err)
}

// pv returns a PersistentVolume of a logical unit.
func pv(lun int32, change ...func(*v1.ISCSIPersistentVolumeSource)) *v1.PersistentVolume {
	s := &v1.ISCSIPersistentVolumeSource{TargetPortal: strings.TrimSuffix(portal1, ":3260"), IQN: target, Lun: lun}
	for _, c := range change {
		c(s)
	}
	p := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	p.Spec.ISCSI = s
	return p
}

// volume is a pod's volume.
type volume struct {
	storage.Staging
	pub storage.Publishing
}

func (b *bench) volume(uid types.UID, v storage.Volume, err error) volume {
	b.t.Helper()
	must(b.t, err)
	s := storage.Staging{Key: v.Key, Args: v.StageArgs}
	dir := filepath.Join(kubeletdir.PodsDir(b.kubelet), string(uid))
	must(b.t, os.MkdirAll(dir, 0o750))
	place := "volumes"
	if v.Device {
		place = volumeDevices
	}
	p := storage.Publishing{
		Staging: s, Staged: true, UID: uid, Plugin: v.Plugin, Name: v.Name, ReadOnly: v.ReadOnly, Device: v.Device, Args: v.PublishArgs,
		Dir: filepath.Join(dir, place, "kubernetes.io~iscsi", v.Name),
	}
	b.t.Cleanup(func() {
		// The test's context has ended.
		_ = b.Unpublish(context.Background(), p)
		_ = b.Unstage(context.Background(), s)
	})
	return volume{s, p}
}

// persistent returns the volume of a pod with a claim of the PersistentVolume.
func (b *bench) persistent(uid types.UID, pv *v1.PersistentVolume, readOnly bool) volume {
	b.t.Helper()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "ns", Name: "pod"}}
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](4711)}
	v, err := Persistent(b.kubelet, pod, &v1.Volume{VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c", ReadOnly: readOnly},
	}}, pv)
	return b.volume(uid, v, err)
}

func (b *bench) up(v volume) {
	b.t.Helper()
	must(b.t, b.Stage(b.t.Context(), v.Staging))
	must(b.t, b.Publish(b.t.Context(), v.pub))
}

func (b *bench) down(v volume) {
	b.t.Helper()
	must(b.t, b.Unpublish(b.t.Context(), v.pub))
	must(b.t, b.Unstage(b.t.Context(), v.Staging))
}

// nothing checks that nothing is left of podexecd's.
func (b *bench) nothing() {
	b.t.Helper()
	for _, dir := range []string{b.path("up"), b.path("nodes"), b.path("records"), b.path("dev")} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			b.t.Errorf("%s has %v, %v", dir, entries, err)
		}
	}
	if table, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(table), b.kubelet) {
		b.t.Errorf("mounts are left: %v\n%s", err, table)
	}
}

// unplug unmounts a volume, and ends its session, as the end of a machine does.
func (b *bench) unplug(v volume) {
	b.t.Helper()
	var args stageArgs
	must(b.t, decode(v.Staging.Args, &args))
	must(b.t, unix.Unmount(args.target(), unix.MNT_DETACH))
	b.machine.mu.Lock()
	defer b.machine.mu.Unlock()
	links, err := filepath.Glob(b.path("sys/block/sd*"))
	must(b.t, err)
	for _, link := range links {
		dir, err := filepath.EvalSymlinks(link)
		must(b.t, err)
		must(b.t, errors.Join(os.RemoveAll(filepath.Dir(filepath.Dir(dir))), os.Remove(link), os.Remove(b.path("dev", filepath.Base(link)))))
	}
	for _, portal := range args.Portals {
		if b.hasSession(portal) {
			b.run(append(node(portal), "--logout")...)
		}
	}
}

func (v volume) sessions(t *testing.T) []initiator.Session {
	t.Helper()
	var args stageArgs
	must(t, decode(v.Staging.Args, &args))
	args.addresses = args.Portals
	return args.sessions()
}

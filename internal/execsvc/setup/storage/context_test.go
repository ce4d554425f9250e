package storage

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/selinuxmount"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/metrictest"
)

// labelled resolves to volumes that are mounted with the SELinux context of their pod. A pod that has none isn't particular.
type labelled struct {
	Claims
	mu       sync.Mutex
	contexts map[types.UID]string
	// volumes are the contexts of the pod's volumes, by name, if that isn't the pod's.
	volumes map[string]string
}

// Resolve is part of Claims.
func (l *labelled) Resolve(ctx context.Context, pod *v1.Pod, spec *v1.Volume) (Volume, error) {
	v, err := l.Claims.Resolve(ctx, pod, spec)
	l.mu.Lock()
	defer l.mu.Unlock()
	v.SELinuxContext, v.OneContext = l.contexts[pod.UID]
	if context, ok := l.volumes[spec.Name]; ok {
		v.SELinuxContext = context
	}
	v.AccessMode = "RWO"
	if v.SELinuxContext != "" {
		v.StageArgs += "+" + v.SELinuxContext
		v.PublishArgs += "+" + v.SELinuxContext
	}
	return v, err
}

// set gives a pod a context.
func (l *labelled) set(uid types.UID, context string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.contexts[uid] = context
}

// withContexts returns a change of a Config, for start.
func withContexts(l *labelled, m *selinuxmount.Metrics) func(*Config) {
	return func(c *Config) { l.Claims, c.Claims, c.SELinuxMetrics = c.Claims, l, m }
}

// waits checks that the pod waits for the user's context.
func (n *node) waits(p *v1.Pod, user, has, wants string) {
	n.t.Helper()
	err := n.setUp(p)
	e, ok := errors.AsType[*ContextError](err)
	if !ok || e.User != user || e.Pod != "ns/"+p.Name || e.Has != has || e.Wants != wants || e.Volume != "pv-h" {
		n.t.Errorf("%s: the error is %v", p.Name, err)
	}
}

// TestContexts: pods with one SELinux context share a volume. One with another context, or with none, waits, also after a restart,
// until the others are gone. Then the volume is unstaged, and staged with the new one.
func TestContexts(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	l := &labelled{contexts: map[types.UID]string{"u1": "a", "u2": "a", "u3": "b", "u4": ""}}
	one, two, other, none := pod("u1", "h"), pod("u2", "h"), pod("u3", "h"), pod("u4", "h")
	registry := prometheus.NewRegistry()
	m := selinuxmount.NewMetrics(registry)
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, withContexts(l, m))
		n.mustSetUp(one)
		n.waits(other, "ns/u1", "a", "b")
		n.waits(none, "ns/u1", "a", "")
		n.mustSetUp(two)
		n.expect("mark name^h", "attached name^h", "stage h s0+a/dev/x", "publish h u1 p0+a", "publish h u2 p0+a")
		metrictest.Want(t, registry, map[string]float64{
			`volume_manager_selinux_volume_context_mismatch_errors_total{access_mode=RWO,volume_plugin=kubernetes.io/csi/d}`: 2,
			`volume_manager_selinux_volumes_admitted_total{access_mode=RWO,volume_plugin=kubernetes.io/csi/d}`:               1,
		})
	})
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, withContexts(l, m))
		n.waits(other, "ns/u1", "a", "b")
		n.mustTearDown("u1")
		n.waits(other, "ns/u2", "a", "b")
		n.expect("unpublish h u1")
		n.mustTearDown("u2")
		n.mustSetUp(other)
		n.waits(one, "ns/u3", "b", "a")
		n.mustTearDown("u3")
		n.mustSetUp(none)
		n.mustTearDown("u4")
		n.mustTearDown("u1")
		n.empty()
		for _, call := range d.called() {
			if call == "publish h u3 p0+a" || call == "publish h u4 p0+a" || call == "publish h u4 p0+b" {
				t.Errorf("%s: it is another pod's context", call)
			}
		}
	})
}

// TestContextAfterAnother: the volume of a pod that is being torn down is unstaged before a pod with another context gets it, also if
// that one asks meanwhile. It doesn't leave volumesInUse.
func TestContextAfterAnother(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	l := &labelled{contexts: map[types.UID]string{"u1": "a", "u2": "b"}}
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, withContexts(l, nil))
		n.mustSetUp(pod("u1", "h"))
		n.expect("mark name^h", "attached name^h", "stage h s0+a/dev/x", "publish h u1 p0+a")
		release := make(chan struct{})
		d.answer(func(_ context.Context, call string) error {
			if call == "unpublish h u1" {
				<-release
			}
			return nil
		})
		ended := make(chan error, 2)
		go func() { ended <- n.manager.TearDown(t.Context(), "u1") }()
		synctest.Wait()
		go func() { ended <- n.setUp(pod("u2", "h")) }()
		n.expect("unpublish h u1")
		close(release)
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		n.expect("unstage h", "attached name^h", "stage h s0+b/dev/x", "publish h u2 p0+b")
		n.mustTearDown("u2")
		n.empty()
	})
}

// TestContextIsRepeated: a call without an answer is repeated with its context, also after a restart with another one: of a driver
// that has none now, for example. If the pod waits for the volume with the other one, it gets that afterwards.
func TestContextIsRepeated(t *testing.T) {
	for name, to := range map[string]string{"none": "", "another": "b"} {
		t.Run(name, func(t *testing.T) {
			dir, d := t.TempDir(), newTruth()
			l := &labelled{contexts: map[types.UID]string{"u1": "a"}}
			synctest.Test(t, func(t *testing.T) {
				n := start(t, dir, d, withContexts(l, nil))
				d.answer(hang("stage"))
				if err := n.setUp(pod("u1", "h")); err == nil {
					t.Fatal("it is set up")
				}
				n.stop()
				d.called()
			})
			l.set("u1", to)
			synctest.Test(t, func(t *testing.T) {
				d.answer(hang("stage"))
				n := start(t, dir, d, withContexts(l, nil))
				n.expect("stage h s0+a/dev/x")
				ended := make(chan error, 1)
				go func() { ended <- n.setUp(pod("u1", "h")) }()
				synctest.Wait()
				d.answer(nil)
				err := <-ended
				for tries := 0; err != nil && tries < 100; tries++ {
					time.Sleep(time.Second)
					err = n.setUp(pod("u1", "h"))
				}
				if err != nil {
					t.Fatal(err)
				}
				publish, stage := "publish h u1 p0", "stage h s0"
				if to != "" {
					publish, stage = publish+"+"+to, stage+"+"+to
				}
				n.expect("stage h s0+a/dev/x", "unstage h", "attached name^h", stage+"/dev/x", publish)
				n.mustTearDown("u1")
				n.empty()
			})
		})
	}
}

// TestOwnContextStays: a pod whose volume is published with a context keeps it, whatever its driver says now.
func TestOwnContextStays(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	l := &labelled{contexts: map[types.UID]string{"u1": "a", "u2": "b"}}
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, withContexts(l, nil))
		d.answer(hang("publish"))
		if err := n.setUp(pod("u1", "h")); err == nil {
			t.Fatal("it is set up")
		}
		l.set("u1", "b")
		n.waits(pod("u1", "h"), "ns/u1", "a", "b")
		n.waits(pod("u2", "h"), "ns/u1", "a", "b")
		d.answer(nil)
		time.Sleep(time.Hour)
		n.mustSetUp(pod("u1", "h"))
		n.waits(pod("u2", "h"), "ns/u1", "a", "b")
		n.mustTearDown("u1")
		n.mustSetUp(pod("u2", "h"))
		n.mustTearDown("u2")
		n.empty()
	})
}

// TestContextsOfOnePod: a pod's volumes that are one volume have one SELinux context: two PersistentVolumes with one handle, or a claim that
// is used twice. The second one is refused with the kubelet's words, before the first is mounted, afterwards, and after a restart.
func TestContextsOfOnePod(t *testing.T) {
	for name, second := range map[string]string{"two PersistentVolumes": "h.2", "one claim": "h"} {
		t.Run(name, func(t *testing.T) {
			dir, d := t.TempDir(), newTruth()
			registry := prometheus.NewRegistry()
			m := selinuxmount.NewMetrics(registry)
			l := &labelled{contexts: map[types.UID]string{"u1": "a"}, volumes: map[string]string{"second": "b"}}
			p := pod("u1", "h")
			claim := v1.PersistentVolumeClaimVolumeSource{ClaimName: second}
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "second", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &claim}})
			p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "second", MountPath: "/2"})
			synctest.Test(t, func(t *testing.T) {
				n := start(t, dir, d, withContexts(l, m))
				refused := func() {
					t.Helper()
					v := volume.Volume{Pod: p, UID: p.UID, Spec: &p.Spec.Volumes[1], Dir: "/dir"}
					err := n.SetUp(t.Context(), v)
					e, ok := errors.AsType[*ContextError](err)
					if !ok || e.Has != "a" || e.Wants != "b" || !slices.Equal(e.Others, []string{"h"}) ||
						!strings.HasPrefix(err.Error(), "conflicting SELinux labels of volume pv-"+second+`: "a" and "b": `) {
						t.Errorf("error %v", err)
					}
				}
				d.answer(hang("stage"))
				if err := n.setUp(pod("u1", "h")); err == nil {
					t.Fatal("it is set up")
				}
				refused()
				d.answer(nil)
				time.Sleep(time.Hour)
				n.mustSetUp(pod("u1", "h"))
				refused()
				n.stop()
				n = start(t, dir, d, withContexts(l, m))
				refused()
				n.mustSetUp(pod("u1", "h"))
				refused()
				metrictest.Want(t, registry, map[string]float64{
					`volume_manager_selinux_volume_context_mismatch_errors_total{access_mode=RWO,volume_plugin=kubernetes.io/csi/d}`: 4,
				})
				l.volumes["second"] = "a"
				n.mustSetUp(p)
				n.mustTearDown("u1")
				for _, call := range d.called() {
					if strings.HasSuffix(call, "+b") {
						t.Errorf("%s: it is mounted with the first context", call)
					}
				}
				n.empty()
			})
		})
	}
}

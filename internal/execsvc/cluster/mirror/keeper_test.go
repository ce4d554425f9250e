package mirror

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/metrictest"
)

// A static pod's mirror pod is the pod itself, with its hash in one more annotation, owned by the node.
func TestMirrorPodIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		static := newPod("web-n1", "u1")
		n := newNode(t, static)
		synctest.Wait()
		got := n.api.Get("ns", "web-n1")
		if got == nil {
			t.Fatal("there is no mirror pod")
		}
		controller := true
		want := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "web-n1", UID: got.UID, Generation: 1, ResourceVersion: got.ResourceVersion, Labels: static.Labels,
				Annotations: map[string]string{
					podmeta.SourceAnnotation: "file", podmeta.HashAnnotation: "u1", "kubernetes.io/config.seen": "then", "a": "b", podmeta.MirrorAnnotation: "u1",
				},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "node-uid", Controller: &controller}},
			},
			Spec: static.Spec, Status: got.Status,
		}
		got.TypeMeta = metav1.TypeMeta{}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the mirror pod (-want +got):\n%s", diff)
		}
		if len(static.Annotations) != 4 || got.UID == static.UID {
			t.Error("the static pod was changed, or the mirror pod has its UID")
		}
		time.Sleep(time.Hour)
		n.live()
		time.Sleep(time.Hour)
		if got := n.verbs(); got != "create" {
			t.Errorf("the requests are %q; want one", got)
		}
	})
}

// The metric counts the static pods, and no others.
func TestMirrorPodsMetric(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		static, api := newPod("web-n1", "u1"), newPod("a", "1")
		api.Annotations[podmeta.SourceAnnotation] = "api"
		n := newNode(t, static, api)
		for _, want := range []float64{1, 0} {
			time.Sleep(time.Minute)
			metrictest.Want(t, n.metrics, map[string]float64{"kubelet_mirror_pods": want})
			n.remove(static)
		}
	})
}

// Pods of the API server, also through other podconfigds, and mirror pods have no mirror pods.
func TestOthersAreNotMirrored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, relayed, mirror := newPod("a", "1"), newPod("b", "2"), newMirror("c", "3")
		api.Annotations[podmeta.SourceAnnotation] = "api"
		relayed.Annotations[podmeta.SourceAnnotation], relayed.Annotations["podstream.io/relay-path"] = "relay", "n(12345678)/api"
		mirror.UID = "4"
		n := newNode(t, api, relayed, mirror)
		time.Sleep(time.Minute)
		if got := n.verbs(); got != "" {
			t.Errorf("the requests are %q; want none", got)
		}
	})
}

// While the node isn't registered nothing is made; then at the next look.
func TestWaitsForTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.with(func() { n.uid = "" })
		n.put(newPod("web-n1", "u1"))
		time.Sleep(time.Hour)
		if got := n.verbs(); got != "" {
			t.Errorf("the requests are %q; want none", got)
		}
		n.with(func() { n.uid = "late" })
		time.Sleep(3 * time.Second)
		if got := n.api.Get("ns", "web-n1"); got == nil || got.OwnerReferences[0].UID != "late" {
			t.Errorf("the mirror pod is %v", got)
		}
	})
}

// A mirror pod that isn't the static pod's picture any more, or is being deleted, is removed by its UID and made again, however slow the
// stream is.
func TestOutdatedIsReplaced(t *testing.T) {
	for _, lag := range []time.Duration{0, 10 * time.Second} {
		for name, change := range map[string]func(n *node){
			"another version": func(n *node) {
				n.replace(newPod("web-n1", "u1"), newPod("web-n1", "u2"))
			},
			"deleted by a user": func(n *node) {
				n.api.Update("ns", "web-n1", func(p *v1.Pod) {
					grace := int64(30)
					p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, &grace
				})
			},
		} {
			t.Run(fmt.Sprint(name, " ", lag), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNode(t, newPod("web-n1", "u1"))
					time.Sleep(time.Minute)
					n.with(func() { n.lag = lag })
					before := n.api.Get("ns", "web-n1").UID
					change(n)
					time.Sleep(10 * time.Minute)
					got := n.api.Get("ns", "web-n1")
					want := n.pods.ByName("ns", "web-n1").Annotations[podmeta.HashAnnotation]
					if got == nil || got.UID == before || got.Annotations[podmeta.MirrorAnnotation] != want {
						t.Fatalf("the mirror pod is %+v; want another one, of %s", got, want)
					}
					if got := n.verbs(); got != "create delete create" {
						t.Errorf("the requests are %q", got)
					}
				})
			})
		}
	}
}

// The mirror pod of a static pod that is gone goes when the pod has ended.
func TestRemovedStaticPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, newPod("web-n1", "u1"))
		// Its own source is ready; another one that isn't ready has no effect.
		n.pods.SetSources(map[string]bool{"file": true, "http": false})
		time.Sleep(time.Minute)
		n.with(func() { n.ending = true })
		n.remove(newPod("web-n1", "u1"))
		time.Sleep(time.Minute)
		if n.hash("web-n1") == "" {
			t.Error("the mirror pod went before its static pod had ended")
		}
		n.with(func() { n.ending = false })
		time.Sleep(3 * time.Second)
		if n.hash("web-n1") != "" || n.verbs() != "create delete" {
			t.Errorf("the mirror pod is still there, or the requests are %q", n.verbs())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := len(n.keeper.entries); got != 0 {
			t.Errorf("%d names are remembered", got)
		}
	})
}

// An orphan from before the restart is removed only when all sources are ready.
func TestOrphan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.pods.SetSources(map[string]bool{"file": true, "http": false})
		n.api.Put(newMirror("web-n1", "u1"))
		time.Sleep(time.Hour)
		if n.verbs() != "" {
			t.Errorf("before all sources are ready the requests are %q", n.verbs())
		}
		n.pods.SetReady("http", true)
		time.Sleep(3 * time.Second)
		if n.hash("web-n1") != "" {
			t.Error("the orphan is still there")
		}
	})
}

// A mirror pod that the stream lacks, as after a restart, is kept if it fits, and replaced otherwise.
func TestUnreportedMirrorPod(t *testing.T) {
	for hash, want := range map[string]string{"u1": "create get", "u0": "create get delete create"} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			n.with(func() { n.lag = 10 * time.Second })
			n.api.Put(newMirror("web-n1", hash))
			n.put(newPod("web-n1", "u1"))
			time.Sleep(10 * time.Minute)
			if n.hash("web-n1") != "u1" || n.verbs() != want {
				t.Errorf("the mirror pod is of %q, the requests are %q; want %q", n.hash("web-n1"), n.verbs(), want)
			}
		})
	}
}

// A mirror pod that was removed before it appeared in the stream is created again.
func TestMirrorPodIsLostUnreported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.with(func() { n.deaf = true })
		n.put(newPod("web-n1", "u1"))
		time.Sleep(time.Second)
		n.with(func() { n.deaf = false })
		// It is removed before the stream could report it.
		n.api.Drop("ns", "web-n1")
		time.Sleep(2 * time.Minute)
		if n.hash("web-n1") != "u1" {
			t.Error("there is no mirror pod")
		}
	})
}

// A mirror pod is removed by its UID: one that took its place unseen stays, if it fits.
func TestRemovalIsByUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		old := newMirror("web-n1", "u0")
		old.UID = "old"
		n.mirrors.Put(old)
		n.with(func() { n.deaf = true })
		there := n.api.Put(newMirror("web-n1", "u1"))
		n.with(func() { n.deaf = false })
		n.put(newPod("web-n1", "u1"))
		time.Sleep(30 * time.Second)
		if got := n.api.Get("ns", "web-n1"); got == nil || got.UID != there.UID || n.verbs() != "delete create get" {
			t.Errorf("the mirror pod is %v, the requests are %q; want the one that was there", got, n.verbs())
		}
	})
}

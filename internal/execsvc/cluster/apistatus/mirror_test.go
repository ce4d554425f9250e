package apistatus_test

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// A static pod's status goes to its mirror pod, if that mirrors this very pod and stays.
func TestMirrorPod(t *testing.T) {
	for name, tt := range map[string]struct {
		change   func(*v1.Pod)
		reported bool
	}{
		"it mirrors the pod":     {func(*v1.Pod) {}, true},
		"it mirrors another one": {func(p *v1.Pod) { p.Annotations[podmeta.MirrorAnnotation] = "other" }, false},
		"it is being deleted":    {func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				static := newPod("1")
				static.Generation = 0
				static.Annotations = map[string]string{"kubernetes.io/config.hash": "hash", "kubernetes.io/config.source": "file"}
				n.pods.Put(static)
				s := ready()
				s.ObservedGeneration = 0
				n.show("1", syncing, s)
				if got := n.requests("", ""); len(got) != 0 {
					t.Errorf("there is no mirror pod, and a request: %s", got[0].Body)
				}
				mirror := newPod("1")
				mirror.UID = "mirror"
				mirror.Annotations = map[string]string{podmeta.MirrorAnnotation: "hash"}
				tt.change(mirror)
				n.api.Put(mirror)
				synctest.Wait()
				got := n.status("1")
				if reported := got.Phase == v1.PodRunning; reported != tt.reported {
					t.Errorf("the mirror pod's status is told: %v; want %v", reported, tt.reported)
				}
				if tt.reported && (got.ObservedGeneration != 1 || got.Conditions[0].ObservedGeneration != 1) {
					t.Errorf("the status is of generation %d; want the mirror pod's own", got.ObservedGeneration)
				}
				// A static pod that has ended is nothing to delete.
				n.show("1", finished, succeeded())
				n.api.Update("ns", "pod-1", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
				time.Sleep(time.Minute)
				if got := n.requests("delete", ""); len(got) != 0 {
					t.Error("the mirror pod was deleted")
				}
			})
		})
	}
}

// A static pod that starts again after its end was posted is represented by another mirror pod.
func TestMirrorPodThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		static := newPod("1")
		static.Annotations = map[string]string{"kubernetes.io/config.hash": "hash", "kubernetes.io/config.source": "file"}
		n.pods.Put(static)
		mirror := newPod("1")
		mirror.UID = "mirror"
		mirror.Annotations = map[string]string{podmeta.MirrorAnnotation: "hash"}
		n.api.Put(mirror)
		n.show("1", finished, statusOf(v1.PodFailed, false, ended(137)))
		if got := n.status("1").Phase; got != v1.PodFailed {
			t.Fatalf("the mirror pod is %s; want it to have failed", got)
		}
		before := len(n.requests("", ""))
		n.show("1", syncing, ready())
		time.Sleep(time.Minute)
		if got := len(n.requests("", "")) - before; got != 0 {
			t.Errorf("there were %d requests for a mirror pod that has ended", got)
		}
		n.api.Drop("ns", "pod-1")
		mirror.UID = "another"
		n.api.Put(mirror)
		synctest.Wait()
		if got := n.status("1"); got.Phase != v1.PodRunning {
			t.Errorf("the next mirror pod is %s", got.Phase)
		}
	})
}

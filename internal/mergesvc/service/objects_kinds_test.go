package service_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestObjectKindsAreAskedFor: a consumer gets claims only if its request has the kind, so that one of an older version gets
// nothing that it doesn't know. The cursor of one request isn't a position of the other.
func TestObjectKindsAreAskedFor(t *testing.T) {
	n := startObjects(t, 0, options{})
	claim, err := manifest.NewClaim(&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "default"}})
	if err != nil {
		t.Fatal(err)
	}
	pod := user("web", "n1", "cm/a").DeepCopy()
	pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}})
	n.apply("file", from("a", mergetest.Pod(pod), object("cm/a", "1"), claim))
	old := n.watchObjects(&podconfigv1.WatchObjectsRequest{Consumer: "old"})
	var synced *podconfigv1.WatchObjectsResponse
	for synced.GetSynced() == nil {
		if synced, err = old.Recv(); err != nil {
			t.Fatal(err)
		}
		for _, o := range synced.GetUpdate().GetObjects() {
			if o.GetRef().GetKind() != podconfigv1.ObjectKind_OBJECT_KIND_CONFIG_MAP {
				t.Errorf("it gets %v", o.GetRef())
			}
		}
	}
	claims := []podconfigv1.ObjectKind{podconfigv1.ObjectKind_OBJECT_KIND_PERSISTENT_VOLUME_CLAIM, 99}
	n.watchObjects(&podconfigv1.WatchObjectsRequest{Consumer: "new", Kinds: claims}).want("SET cm/a=1 data", "synced file api?")
	n.watchObjects(&podconfigv1.WatchObjectsRequest{Consumer: "newer", Kinds: claims, ResumeAfter: synced.GetCursor()}).
		want("SET cm/a=1 data", "synced file api?")
	_, err = n.watchObjects(&podconfigv1.WatchObjectsRequest{Consumer: "greedy", Kinds: make([]podconfigv1.ObjectKind, 101)}).Recv()
	if err == nil {
		t.Error("a request with 101 kinds is accepted")
	}
}

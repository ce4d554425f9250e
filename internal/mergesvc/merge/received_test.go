package merge_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// received returns a set of the API server with one pod, web, with this UID and size.
func received(uid string, size int) manifest.Set {
	return manifest.Set{Source: "api", ReadTime: time.Unix(1, 0), Origins: []*manifest.Origin{manifest.Received("default/web", &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: types.UID(uid), Annotations: map[string]string{"pad": strings.Repeat("x", size)},
		},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "web"}}},
	})}}
}

// TestRecreatedUnusable: a pod whose UID the API server no longer has is removed, even if the pod with its name
// can't be used. An unusable version of the same pod keeps the last good one.
func TestRecreatedUnusable(t *testing.T) {
	for name, next := range map[string]manifest.Set{
		"too large": received("new", 2<<20), "with an unusable UID": received("../../etc", 0),
	} {
		t.Run(name, func(t *testing.T) {
			m := merge.New([]merge.Source{{Name: "api"}}, merge.Stored{})
			m.Apply(received("old", 0))
			if rev := m.Apply(received("old", 2<<20)); rev != nil {
				t.Errorf("an unusable version of the same pod makes the revision %+v; want none", rev)
			}
			removesOld(t, m, m.Apply(next))
		})
		t.Run(name+", after a restart", func(t *testing.T) {
			before := merge.New([]merge.Source{{Name: "api"}}, merge.Stored{})
			rev := before.Apply(received("old", 0))
			m := merge.New([]merge.Source{{Name: "api"}}, merge.Stored{
				Number: rev.Number, Pods: rev.Changes[0].Pods, Complete: map[string]bool{"api": true},
			})
			removesOld(t, m, m.Apply(next))
		})
	}
}

// TestDeletedWhileUnusable: a pod that is deleted while its version can't be used is sent as DELETE, in its
// last good version and with the grace period, once for each change of that period.
func TestDeletedWhileUnusable(t *testing.T) {
	at := metav1.NewTime(time.Unix(1000, 0))
	deleted := func(grace int64) manifest.Set {
		pod := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "web", UID: "old", Annotations: map[string]string{"pad": strings.Repeat("x", 2<<20)},
				DeletionTimestamp: &at, DeletionGracePeriodSeconds: &grace,
			},
		}
		return manifest.Set{Source: "api", ReadTime: time.Unix(1, 0), Origins: []*manifest.Origin{manifest.Received("default/web", pod)}}
	}
	check := func(t *testing.T, m *merge.Merger) {
		t.Helper()
		for _, grace := range []int64{30, 5} {
			rev := m.Apply(deleted(grace))
			op, pod := only(t, rev)
			if op != revision.DELETE || !pod.DeletionTimestamp.Equal(&at) || *pod.DeletionGracePeriodSeconds != grace {
				t.Errorf("%v with %v and a grace period of %v; want DELETE at %v with %d", op, pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds, at, grace)
			}
			if len(pod.Spec.Containers) != 1 || pod.Annotations["pad"] != "" {
				t.Errorf("the pod is %v; want its last good version", pod)
			}
			if rev := m.Apply(deleted(grace)); rev != nil {
				t.Errorf("the same again makes the revision %+v; want none", rev)
			}
		}
		if rev := m.Apply(received("old", 2<<20)); rev != nil {
			t.Errorf("an unusable version that isn't deleted makes the revision %+v; want none", rev)
		}
		if op, _ := only(t, m.Apply(manifest.Set{Source: "api", ReadTime: time.Unix(1, 0)})); op != revision.REMOVE {
			t.Errorf("the pod's end is %v; want REMOVE", op)
		}
	}
	m := merge.New([]merge.Source{{Name: "api"}}, merge.Stored{})
	rev := m.Apply(received("old", 0))
	t.Run("after a restart", func(t *testing.T) {
		check(t, merge.New([]merge.Source{{Name: "api"}}, merge.Stored{
			Number: rev.Number, Pods: rev.Changes[0].Pods, Complete: map[string]bool{"api": true},
		}))
	})
	t.Run("at once", func(t *testing.T) { check(t, m) })
	if p := rev.Changes[0].Pods[0].Object; p.DeletionTimestamp != nil {
		t.Error("the version before was changed")
	}
}

// only returns the op of a revision with one pod.
func only(t *testing.T, rev *revision.Revision) (op revision.Op, pod *v1.Pod) {
	t.Helper()
	if rev != nil {
		for _, c := range rev.Changes {
			for _, p := range c.Pods {
				op, pod = c.Op, p.Object
			}
		}
	}
	if pod == nil {
		t.Fatalf("the revision is %+v; want one with a pod", rev)
	}
	return op, pod
}

func removesOld(t *testing.T, m *merge.Merger, rev *revision.Revision) {
	t.Helper()
	var removed []string
	if rev != nil {
		for _, c := range rev.Changes {
			for _, p := range c.Pods {
				if c.Op == revision.REMOVE {
					removed = append(removed, string(p.UID()))
				}
			}
		}
	}
	s := m.Sources()[0]
	if len(removed) != 1 || removed[0] != "old" || s.Pods != 0 {
		t.Errorf("%v are removed, and %d pods are served; want old removed, and none served", removed, s.Pods)
	}
	if len(s.Findings) != 1 || s.Findings[0].Severity != manifest.Error || len(s.Findings[0].Kept) != 0 {
		t.Errorf("the findings are %+v; want one error, which keeps nothing", s.Findings)
	}
}
